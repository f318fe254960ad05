"""All workarounds together: what does not fit is left out, and is reported."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.upstream.registry import (
    WORKAROUNDS,
    Workarounds,
)

from .conftest import MakeStage
from .test_loaders import write_into

pytestmark = pytest.mark.anyio


async def test_every_workaround_fits_the_required_versions(make_stage: MakeStage) -> None:
    assert make_stage().workarounds.problems == []


def test_every_workaround_has_a_unique_name_and_a_test() -> None:
    assert len({each.name for each in WORKAROUNDS}) == len(WORKAROUNDS)
    about_all = {"test_registry.py", "test_changed_release.py"}
    files = [f for f in Path(__file__).parent.glob("test_*.py") if f.name not in about_all]
    tests = "".join(file.read_text() for file in files)
    untested = [
        each.name
        for each in WORKAROUNDS
        if each.optional
        and Path(__file__).with_name(f"test_{each.name}.py") not in files
        and not re.search(rf'"{each.name}"|\b{each.__name__}\b', tests)
    ]
    assert untested == []


async def test_a_workaround_that_does_not_fit_is_left_out_with_a_warning(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with jupyter-server-ydoc 3.1, whose `load_content` has one more parameter."""
    from jupyter_server_ydoc.loaders import FileLoader

    load = FileLoader.load_content

    async def load_content(
        self: FileLoader,
        format: str,  # noqa: A002
        file_type: str,
        require_hash: bool = False,
    ) -> Any:
        return await load(self, format, file_type)

    monkeypatch.setattr(FileLoader, "load_content", load_content)
    stage = make_stage()
    names = [line.split()[2] for line in stage.workarounds.problems]
    assert names == ["load_records", "external_changes"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == stage.workarounds.problems
    assert (
        "The workaround external_changes does not fit jupyter-server-ydoc (FileLoader.load_content "
        "takes (format, file_type, require_hash) instead of (format, file_type)). Without it, a "
        "save can overwrite" in warnings[1]
    )
    file = stage.root / "a.md"
    file.write_bytes(b"one\r\n")
    room = await stage.open("a.md")
    write_into(room, "new ")
    await stage.save(room)
    assert file.read_bytes() == b"new one\r\n"  # the others are there
    assert stage.watch(room).saved
    assert stage.watch(room).unloadable is None
    assert stage.watch(room).loads.last is None


async def test_a_workaround_that_fails_in_a_room_is_disabled(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_collaboration_mcp.backends.upstream.line_endings import LineEndings

    def fail(self: LineEndings, *_: Any) -> None:
        raise AttributeError("_save_content_at_path")

    monkeypatch.setattr(LineEndings, "on_room", fail)
    stage = make_stage()
    assert stage.workarounds.problems == []
    file = stage.root / "a.md"
    file.write_text("one\n")
    room = await stage.open("a.md")
    assert [line.split()[2] for line in stage.workarounds.problems] == ["line_endings"]
    write_into(room, "new ")
    await stage.save(room)
    assert file.read_text() == "new one\n"
    assert stage.watch(room).saved


def test_an_essential_workaround_cannot_be_switched_off() -> None:
    workarounds = Workarounds(["room_access", "line_endings"], logging.getLogger("stage"))
    (problem,) = workarounds.problems
    assert problem.startswith("The workaround line_endings is switched off. Without it, a text")
