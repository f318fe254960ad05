"""The record of a call: what became of it, for whoever makes something of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.server.call_record import CallRecord, CallRecords, without_query
from jupyter_collaboration_mcp.server.caller import Caller
from jupyter_collaboration_mcp.workspace.agent import Agent


def a_record() -> CallRecord:
    return CallRecord(agent=Agent("token:x", "Ada"), name="toy")


def test_an_observer_that_fails_harms_neither_the_call_nor_another_observer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[CallRecord] = []

    def fail(record: CallRecord) -> None:
        raise OSError("full")

    with CallRecords([fail, seen.append]).following(a_record(), Caller.stdio()) as record:
        record.outcome = "ok"
    assert seen == [record]
    assert caplog.messages == ["A call could not be recorded"]


def test_errors_that_came_of_each_other_are_freed_of_their_frames() -> None:
    """However they refer to each other: two may have been raised while the other was handled."""
    error, cause, context = InvalidArgument("No.", "Go."), OSError("cause"), OSError("context")
    for each in (error, cause, context):
        with contextlib.suppress(Exception):
            raise each
        assert each.__traceback__ is not None
    error.__cause__, error.__context__ = cause, context
    cause.__context__, context.__context__ = error, cause
    record = a_record()
    record.error = error
    CallRecords([]).tell(record)
    assert [each.__traceback__ for each in (error, cause, context)] == [None] * 3


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (asyncio.CancelledError(), "cancelled"),
        (InvalidArgument("No.", "Go."), "invalid_argument"),
        (OSError(), "failed"),
    ],
)
def test_what_a_call_raises_is_its_outcome(raised: BaseException, outcome: str) -> None:
    seen: list[CallRecord] = []
    with (
        pytest.raises(type(raised)),
        CallRecords([seen.append]).following(a_record(), Caller.stdio()),
    ):
        raise raised
    assert [record.outcome for record in seen] == [outcome]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("why?.md", "why?.md"),
        ("https://x/a.ipynb?token=secret", "https://x/a.ipynb?..."),
        ("a?b?token=secret\nsecret", "a?b?..."),
    ],
)
def test_what_may_be_a_token_in_a_path_is_not_shown(path: str, shown: str) -> None:
    assert without_query(path) == shown
