"""A panic ends what it happened in, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pycrdt import Doc, Map

from jupyter_collaboration_mcp.errors import InternalError
from jupyter_collaboration_mcp.panics import contained, is_panic

pytestmark = pytest.mark.anyio


def panic() -> None:
    """A real one: pycrdt has no such integers."""
    shared: Map[Any] = Doc[Any]().get("map", type=Map)
    shared["number"] = 2**70


def test_a_panic_becomes_an_internal_error_with_its_cause() -> None:
    with pytest.raises(InternalError, match="PanicException") as raised, contained():
        panic()
    assert raised.value.__cause__ is not None
    assert not isinstance(raised.value.__cause__, Exception)


async def test_a_panic_in_a_task_group_becomes_an_internal_error_too() -> None:
    async def fail() -> None:
        raise ValueError("another one")

    async def panic_soon() -> None:
        panic()

    async def both() -> None:
        with contained():
            async with asyncio.TaskGroup() as group:
                group.create_task(panic_soon())
                group.create_task(fail())

    with pytest.raises(InternalError):
        await both()


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        ValueError("an ordinary one"),
        BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()]),
        ExceptionGroup("errors", [ValueError()]),
    ],
    ids=["interrupt", "cancelled", "error", "group", "errors"],
)
def test_other_exceptions_pass_through(error: BaseException) -> None:
    assert not is_panic(error)
    with pytest.raises(type(error)) as raised, contained():
        raise error
    assert raised.value is error
