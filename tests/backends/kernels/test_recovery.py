"""Numbers of messages, as kernels write them into their headers."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.backends.kernels.recovery import MessageNumbers


@pytest.mark.parametrize(
    ("heard", "missing"),
    [
        (["a_7_1", "a_7_2", "a_7_3"], [None, 0, 0]),
        (["a_7_1", "a_7_5"], [None, 3]),
        (["a_7_1", "a_7_3", "a_7_2", "a_7_4"], [None, 1, 0, 0]),
        (["a_7_9", "b_8_0", "b_8_1"], [None, None, 0]),
        (["a_7_1", "0f3c", "a_7_2"], [None, None, 0]),
        (["a_7_x", "_3", "", "4"], [None, None, None, None]),
    ],
)
def test_numbers_that_are_left_out_are_missing(heard: list[str], missing: list[int | None]) -> None:
    numbers = MessageNumbers()
    assert [numbers.take({"msg_id": name}) for name in heard] == missing


def test_a_message_without_an_id_says_nothing() -> None:
    assert MessageNumbers().take({}) is None
