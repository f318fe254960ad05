"""The generated parts of the documentation say what the code says."""

from __future__ import annotations

from docs import generate
from jupyter_collaboration_mcp import errors


def test_the_committed_pages_match_the_generator() -> None:
    for path, content in generate.generated().items():
        name = path.relative_to(generate.REPOSITORY)
        assert path.read_text() == content, f"{name} is stale: run python -m docs.generate"


def test_generating_twice_changes_nothing() -> None:
    once = generate.readme((generate.REPOSITORY / "README.md").read_text())
    assert generate.readme(once) == once


def test_every_tool_has_notes_and_every_note_has_a_tool() -> None:
    assert set(generate._NOTES) == {tool.name for tool in generate._tools()}


def test_every_error_that_a_call_can_get_is_explained_once() -> None:
    rows = list(generate._error_rows())
    assert sorted(code for code, _meaning in rows) == sorted(
        error.code
        for error in _all_errors()
        if not error.__subclasses__()
        and not issubclass(error, errors.PanelError)  # people get these
    )
    assert all(meaning for _code, meaning in rows)


def _all_errors() -> list[type[errors.CollaborationError]]:
    found: list[type[errors.CollaborationError]] = []
    left = [errors.CollaborationError]
    while left:
        found.append(left.pop())
        left += found[-1].__subclasses__()
    return found
