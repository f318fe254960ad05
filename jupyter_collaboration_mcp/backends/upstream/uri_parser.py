"""Skips a URI parser that takes longer to build than Jupyter takes to import everything else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from .workaround import Server, Workaround

_MODULE = "rfc3987_syntax"


class UriParser(Workaround):
    name = "uri_parser"
    package = "rfc3987-syntax"
    fault = (
        "Its import builds a parser for addresses in the schemas of Jupyter's events, which nobody "
        "checks. jsonschema does without it where it is not installed."
    )
    patches = ('sys.modules["rfc3987_syntax"]',)
    without = "a server that the command starts takes about a second longer"
    stage = "start of the command's own server"
    optional = False

    def check(self, server: Server) -> list[str]:
        return mismatches()


def skip_uri_parser() -> None:
    """Make it count as not installed in this process, if jsonschema can do without it."""
    if not mismatches():
        sys.modules[_MODULE] = None  # type: ignore[assignment]


def mismatches() -> list[str]:
    """Why jsonschema may not be able to do without it."""
    # Read, not imported: the import is what takes long.
    spec = importlib.util.find_spec("jsonschema")
    if spec is None or spec.origin is None:
        return []  # nobody uses it
    try:
        text = Path(spec.origin).with_name("_format.py").read_text(encoding="utf-8")
    except OSError:
        return ["jsonschema has no _format.py"]
    before, used, _ = text.partition(f"from {_MODULE} import")
    if used and not before.rstrip().endswith("with suppress(ImportError):"):
        return [f"jsonschema needs {_MODULE}"]
    return []
