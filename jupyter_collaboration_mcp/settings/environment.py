"""Settings from environment variables, below everything else that sets them.

A list is JSON, `["a/*", "b/*"]`, or has commas between its elements, `a/*,b/*`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..documents.foreign_text import did_you_mean
from .declaration import ENVIRONMENT_PREFIX, Door, Value
from .settings import SETTINGS

#: With which the users of the server that the toolset `connect` stands for switch images off.
_ALLOW_IMAGES = "ALLOW_IMG"


def from_environment(environment: Mapping[str, str], door: Door) -> dict[str, Value]:
    """The settings of a front door that environment variables give. An empty variable is unset.

    Raises:
        ValueError: A variable makes no sense, or is named like a setting that does not exist: a
            misspelt limit would be none.
    """
    known = {each.variable: each for each in SETTINGS}
    values: dict[str, Value] = {}
    if environment.get(_ALLOW_IMAGES, "").strip().lower() in ("false", "0", "no"):
        values["max_image_width"] = 0
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        declared = known.get(variable)
        if declared is None:
            raise ValueError(f"there is no setting {variable}. {_closest_variable(variable)}")
        text = environment[variable]
        if text and door in declared.doors:
            try:
                texts = _split(text) if declared.is_list else [text]
                values[declared.name] = declared.parse(texts)
            except ValueError as error:
                raise ValueError(f"{variable}: {error}") from None
    return values


def _closest_variable(variable: str) -> str:
    name = variable.removeprefix(ENVIRONMENT_PREFIX)
    return did_you_mean(name, [each.name for each in SETTINGS]) + "Correct its name, or unset it."


def _split(text: str) -> list[str]:
    """A list in one text: JSON, or with commas between its elements."""
    if re.match(r"""\[\s*(["'\]])""", text.strip()):
        try:
            elements = json.loads(text)
        except ValueError:
            elements = None
        if not (isinstance(elements, list) and all(isinstance(each, str) for each in elements)):
            raise ValueError(f"{text} is not a JSON list of strings")
        return elements
    parts = [element.strip() for element in text.split(",") if element.strip()]
    if not parts:
        raise ValueError(f"{text!r} has no element; leave it empty, or give some")
    return parts
