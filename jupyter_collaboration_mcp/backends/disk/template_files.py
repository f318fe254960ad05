"""The files that templates are in: those of this package, and those of a site's own directory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from logging import Logger, getLogger
from pathlib import Path
from typing import Any

from ...documents.foreign_text import listed
from ...documents.template import NAME, BrokenTemplate, Template
from ...errors import InvalidArgument

#: Where the templates of this package are.
BUILT_IN = Path(__file__).parents[2] / "templates"

#: Bytes of a file, and files of a directory, that are read.
_LARGEST, _MOST = 1_000_000, 200

_ENDINGS = (".py", ".ipynb")


class TemplateFiles:
    """The templates that notebooks can be made from. Files are read when somebody asks, so that a
    site can change its own while the server runs.

    Args:
        directory: A site's own templates; they come before ours of the same name.
    """

    def __init__(self, directory: Path | None = None, log: Logger | None = None) -> None:
        self._directories = [BUILT_IN] if directory is None else [BUILT_IN, directory]
        self._log = log or getLogger(__name__)

    async def all(self) -> Sequence[Template]:
        """All templates, by name; files that are not templates are left out, and logged."""
        return await asyncio.to_thread(self._all)

    async def find(self, name: str) -> Template | None:
        """A template by its name."""
        return await asyncio.to_thread(self._find, name)

    @property
    def lasting(self) -> bool:
        """Whether all of them stay the same while this process runs: a site may change its own."""
        return self._directories == [BUILT_IN]

    async def make(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """A notebook from a template.

        Raises:
            InvalidArgument: There is no such template or parameter.
        """
        return await asyncio.to_thread(self._make, name, parameters)

    def _make(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        template = self._find(name)
        if template is None:
            raise InvalidArgument(
                f"There is no template {name!r}. Nothing was written.",
                f"Templates: {listed(each.name for each in self._all())}. To copy a file of that "
                f"name, write ./{name}.",
            )
        return template.make(parameters)

    def _find(self, name: str) -> Template | None:
        return self._read(name, self._files().get(name, ()))

    def _all(self) -> list[Template]:
        read = (self._read(name, files) for name, files in sorted(self._files().items()))
        return [template for template in read if template is not None]

    def _files(self) -> dict[str, list[Path]]:
        """The files of each name; the last one counts, unless it is broken."""
        found: dict[str, list[Path]] = {}
        for directory in self._directories:
            try:
                entries = sorted(directory.iterdir())
            except OSError as error:
                self._log.warning("Cannot read the templates in %s: %s", directory, error)
                continue
            named = [
                each for each in entries if each.suffix in _ENDINGS and NAME.fullmatch(each.stem)
            ]
            if len(named) > _MOST:
                self._log.warning("%s: only the first %s templates are used", directory, _MOST)
            for file in named[:_MOST]:
                found.setdefault(file.stem, []).append(file)
        return found

    def _read(self, name: str, files: Sequence[Path]) -> Template | None:
        for file in reversed(files):
            try:
                with file.open("rb") as opened:
                    content = opened.read(_LARGEST + 1)
                if len(content) > _LARGEST:
                    raise BrokenTemplate(f"it is larger than {_LARGEST:,} bytes")
                return Template.parse(name, content.decode())
            except (OSError, ValueError) as error:
                self._log.warning("%s is not used as a template: %s", file, error)
        return None
