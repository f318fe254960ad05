"""Steps as they are stored: whatever a step holds comes back as it was."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.backends.protocols.steps import Lazy, StoredStep
from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    CellMove,
    Change,
    ExtrasChange,
    MetadataChange,
    OutputClearing,
    SourceChange,
    Step,
    TypeChange,
    storage,
    summary,
)
from jupyter_collaboration_mcp.collaboration.changes.storage import KINDS, restored, stored

#: All that JSON can hold, and more: a document has no half of a surrogate pair, but a name may.
TEXTS = st.text(st.characters(), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CELLS = st.dictionaries(TEXTS, VALUES, max_size=4)

#: A test below fails if a kind is missing.
ANY: dict[type[Change], st.SearchStrategy[Change]] = {
    CellDeletion: st.builds(CellDeletion, TEXTS, CELLS, st.none() | TEXTS),
    CellInsertion: st.builds(
        CellInsertion, TEXTS, TEXTS, TEXTS, st.none() | TEXTS, st.none() | CELLS
    ),
    CellMove: st.builds(CellMove, TEXTS, st.none() | TEXTS),
    ExtrasChange: st.builds(ExtrasChange, TEXTS, CELLS, CELLS),
    MetadataChange: st.builds(MetadataChange, TEXTS, CELLS, CELLS),
    OutputClearing: st.builds(OutputClearing, TEXTS, CELLS),
    SourceChange: st.builds(SourceChange, TEXTS, TEXTS, TEXTS),
    TypeChange: st.builds(TypeChange, TEXTS, CELLS, TEXTS),
}
STEPS = st.builds(
    Step,
    st.integers(0, 2**53),
    TEXTS,
    st.lists(st.one_of(*ANY.values()), min_size=1, max_size=4).map(tuple),
    TEXTS,
)


def written(step: Step) -> StoredStep:
    """A step as SQLite gets it, and returns it."""
    kept = stored(step)
    assert isinstance(kept.changes, Lazy)
    return replace(kept, changes=kept.changes.make())


@given(STEPS)
def test_any_step_comes_back_as_it_was(step: Step) -> None:
    (back,) = restored([written(step)])
    assert (back, back.id) == (step, step.id)


@given(STEPS)
def test_a_large_change_comes_back_as_well(step: Step) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_LARGE", 0)
        (back,) = restored([written(step)])
    assert back == step


def test_every_kind_of_change_can_be_stored() -> None:
    # By name: a dataclass with slots leaves the class that it was made of.
    made = {kind.__name__ for kind in Change.__subclasses__() if "jupyter" in kind.__module__}
    kinds = list(KINDS.values())
    assert {kind.__name__ for kind in kinds} == made
    assert set(kinds) == ANY.keys()
    assert len(kinds) == len({kind.kind for kind in kinds}) == len({kind.verb for kind in kinds})


def test_names_and_values_in_stored_steps_never_change() -> None:
    # Later releases read what this one has written: add to this, and change nothing in it.
    kept = (
        b'["deletion", {"cell_id": "a", "cell": {"source": "x"}, "follows": null}]\n'
        b'["insertion", {"cell_id": "b", "source": "y", "cell_type": "code", "follows": "a", '
        b'"cell": null}]\n'
        b'["move", {"cell_id": "c", "follows": "b"}]\n'
        b'["metadata", {"cell_id": "d", "before": {"k": null}, "after": {"k": 1}}]\n'
        b'["clearing", {"cell_id": "e", "before": {"outputs": []}}]\n'
        b'["source", {"cell_id": "f", "before": "one", "start": 1, "end": 2, "text": "--"}]\n'
        b'["type", {"cell_id": "g", "before": {"cell_type": "code"}, "after": "raw"}]\n'
        b'["extras", {"cell_id": "h", "before": {"outputs": []}, "after": {"outputs": null}}]'
    )
    (step,) = restored([StoredStep("c-1", "Ada <1>", 7, "tool", 1, kept)])
    assert (step.id, step.agent, step.version, step.call) == ("c-1", "Ada <1>", 7, "tool")
    assert step.changes == (
        CellDeletion("a", {"source": "x"}, None),
        CellInsertion("b", "y", "code", "a"),
        CellMove("c", "b"),
        MetadataChange("d", {"k": None}, {"k": 1}),
        OutputClearing("e", {"outputs": []}),
        SourceChange("f", "one", "o--e"),
        TypeChange("g", {"cell_type": "code"}, "raw"),
        ExtrasChange("h", {"outputs": []}, {"outputs": None}),
    )
    assert written(step).changes == kept


def test_a_long_text_is_stored_once() -> None:
    text = "all of it\n" * 1_000
    changes = written(Step(1, "tool", (SourceChange("a", text, f"{text}more"),))).changes
    assert isinstance(changes, bytes)
    assert len(changes) < 1.2 * len(text)


@pytest.mark.parametrize(
    "changes",
    [
        b"",
        b"{",
        b'["source"]',
        b'["unknown", {}]',
        b'["move", {"cell_id": "a"}]',
        b"\xff",
        b"[" * 9**5,
    ],
)
def test_a_step_that_cannot_be_read_is_left_out(changes: bytes) -> None:
    whole = Step(1, "tool", (CellMove("a", None),))
    broken = StoredStep("c-2", "Ada <1>", 2, "tool", 1, changes)
    assert restored([broken, written(whole)]) == [whole]


def test_a_step_that_cannot_be_stored_keeps_nobody_from_writing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unspeakable: Any = {"outputs": b"bytes"}
    with caplog.at_level(logging.ERROR):
        kept = written(Step(1, "tool", (OutputClearing("a", unspeakable),)))
    assert kept.changes == b""
    assert "cannot be stored" in caplog.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([SourceChange("a", "x\ny", "x\nz\nw")], "changed 1 cell, +2 -1 lines"),
        ([SourceChange("a", "x", "y"), SourceChange("a", "y", "x")], "changed 1 cell, +2 -2 lines"),
        ([SourceChange("a", "", "x"), SourceChange("b", "", "x")], "changed 2 cells, +2 lines"),
        ([SourceChange("", "x\ny", "x")], "changed the text, -1 line"),
        ([CellInsertion("a", ""), CellInsertion("b", "x")], "inserted 2 cells, +1 line"),
        ([CellDeletion("a", {"source": "x\ny"}, None)], "deleted 1 cell, -2 lines"),
        ([CellMove("a", None), CellMove("b", None)], "moved 2 cells"),
        ([OutputClearing("a", {})], "cleared the outputs of 1 cell"),
        (
            [TypeChange("a", {}, "raw"), MetadataChange("a", {}, {})],
            "changed the type of 1 cell, changed the metadata of 1 cell",
        ),
    ],
)
def test_a_summary_says_what_was_done_to_how_many_cells(changes: list[Change], said: str) -> None:
    assert summary(Step(1, "tool", tuple(changes))) == said
