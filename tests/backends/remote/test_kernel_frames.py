"""Frames of kernel messages, against what Jupyter's own server writes and reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jupyter_server.services.kernels.connection import base

from jupyter_collaboration_mcp.backends.kernels.wire import OutgoingMessage
from jupyter_collaboration_mcp.backends.protocols.kernels import OUTPUT_MISSING
from jupyter_collaboration_mcp.backends.remote.kernel_frames import (
    Frame,
    mark_dropped_output,
    read_frame,
    write_frame,
)

jupyter: Any = base  # which is not typed

HEADER = {"msg_id": "1", "msg_type": "stream", "session": "s"}
PARENT = {"msg_id": "0", "msg_type": "execute_request"}
CONTENT = {"name": "stdout", "text": "é😀"}


def packed(part: Any) -> bytes:
    return json.dumps(part).encode()


@pytest.mark.parametrize("buffers", [[], [b"12", b""]])
def test_frames_written_by_the_server_can_be_read(buffers: list[bytes]) -> None:
    parts = [packed(part) for part in (HEADER, PARENT, {"m": 1}, CONTENT)]
    message = {
        "header": HEADER,
        "parent_header": PARENT,
        "metadata": {"m": 1},
        "content": CONTENT,
        "channel": "iopub",
        "buffers": buffers,
    }
    apart = jupyter.serialize_msg_to_ws_v1([*parts, *buffers], "iopub")
    whole = jupyter.serialize_binary_message(message) if buffers else packed(message)
    for frame, size in (
        (read_frame(apart, True), len(apart)),
        (read_frame(whole, False), len(whole)),
    ):
        assert frame.channel == "iopub"
        assert frame.kind == "stream"
        assert frame.request == "0"
        assert frame.content() == CONTENT
        assert frame.metadata() == {"m": 1}
        assert frame.size == size


def test_the_server_can_read_the_frames_we_write() -> None:
    frame = write_frame(OutgoingMessage("shell", HEADER, PARENT, CONTENT), True)
    assert isinstance(frame, bytes)
    channel, parts = jupyter.deserialize_msg_from_ws_v1(frame)
    assert channel == "shell"
    assert [json.loads(part) for part in parts] == [HEADER, PARENT, {}, CONTENT]
    text = write_frame(OutgoingMessage("stdin", HEADER, {}, CONTENT), False)
    assert isinstance(text, str)
    assert json.loads(text)["channel"] == "stdin"


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff" * 60, b"[]", b"{}", b"{", (6).to_bytes(8, "little") * 8]
)
def test_malformed_frames_are_refused(data: bytes, apart: bool) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_frame(data, apart)


DROPPED = (
    "IOPub data rate exceeded.\nThe Jupyter server will temporarily stop sending output.\n"
    "ServerApp.iopub_data_rate_limit=1000000.0 (bytes/sec)\n"
)


@pytest.mark.parametrize(
    ("session", "text", "dropped"),
    [("s", DROPPED, True), ("kernel", DROPPED, False), ("s", "hello", False)],
)
def test_only_the_servers_own_message_means_that_output_was_dropped(
    session: str, text: str, dropped: bool
) -> None:
    """Code may print the same; it does not do so in our name."""
    content = {"name": "stderr", "text": text}
    frame = Frame("iopub", {**HEADER, "session": session}, PARENT, 1, {}, content)
    marked = mark_dropped_output(frame, "s")
    assert marked.request == "0"
    if not dropped:
        assert marked is frame
        return
    assert marked.kind == OUTPUT_MISSING
    assert marked.content()["text"] == text
    assert "iopub_data_rate_limit (1,000,000 bytes/sec)" in marked.content()["reason"]
