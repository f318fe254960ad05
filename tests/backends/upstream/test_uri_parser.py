"""The parser that nobody needs is not built, if jsonschema can do without it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.upstream import uri_parser
from tests.harness.jupyter import REPOSITORY

USED = "import sys; {skip}; import jsonschema; print('lark' in sys.modules)"
SKIP = (
    "from jupyter_collaboration_mcp.backends.upstream.uri_parser import skip_uri_parser; "
    "skip_uri_parser()"
)


@pytest.mark.parametrize(("skip", "built"), [(SKIP, False), ("pass", True)])
def test_the_parser_is_built_only_without_the_workaround(skip: str, built: bool) -> None:
    command = [sys.executable, "-c", USED.format(skip=skip)]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert said.stdout == f"{built}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("with suppress(ImportError):\n    from rfc3987_syntax import x", []),
        ("from rfc3987_syntax import x", ["jsonschema needs rfc3987_syntax"]),
        ("", []),
        (None, ["jsonschema has no _format.py"]),
    ],
    ids=["optional", "required", "unused", "moved"],
)
def test_the_parser_is_kept_if_jsonschema_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, problems: list[str]
) -> None:
    if text is not None:
        (tmp_path / "_format.py").write_text(text)
    spec = ModuleSpec("jsonschema", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setitem(sys.modules, "rfc3987_syntax", sys)
    assert uri_parser.mismatches() == problems
    uri_parser.skip_uri_parser()
    assert (sys.modules["rfc3987_syntax"] is None) is (not problems)
