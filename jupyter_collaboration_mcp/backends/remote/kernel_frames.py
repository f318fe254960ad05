"""Kernel messages in the frames of a WebSocket, as Jupyter servers send and read them.

There are two ways. In the newer one the parts of a message stay apart, so that nobody, not even
the server, reads the content of what is only passed by; in the older one it is all one JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast, get_args

Channel = Literal["shell", "iopub", "stdin", "control"]

#: The newer way, as it is asked for when a WebSocket is opened.
PARTS_APART = "v1.kernel.websocket.jupyter.org"

_CHANNELS: frozenset[str] = frozenset(get_args(Channel))


@dataclass(slots=True)
class Frame:
    """A message of which only the headers have been read for sure."""

    channel: Channel
    header: Mapping[str, Any]
    parent: Mapping[str, Any]
    size: int
    """Bytes of the whole frame."""
    _metadata: bytes | Mapping[str, Any]
    _content: bytes | Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.header.get("msg_type"))

    @property
    def request(self) -> str:
        """The id of the request that caused it; empty if nothing did."""
        return str(self.parent.get("msg_id") or "")

    def content(self) -> Mapping[str, Any]:
        """What it says. Takes its time if it is large."""
        return _mapping(self._content)

    def metadata(self) -> Mapping[str, Any]:
        return _mapping(self._metadata)


def read_frame(data: bytes, apart: bool) -> Frame:
    """Read a frame; `apart` says which way was agreed on.

    Raises:
        ValueError: It is not a message of a kernel.
    """
    if apart:
        return _read_apart(data)
    whole = json.loads(data if data[:1] == b"{" else _without_buffers(data))
    if not isinstance(whole, dict):
        raise ValueError("Not a message")
    return Frame(
        _channel(str(whole.get("channel"))),
        whole.get("header") or {},
        whole.get("parent_header") or {},
        len(data),
        whole.get("metadata") or {},
        whole.get("content") or {},
    )


def write_frame(
    channel: Channel,
    header: Mapping[str, Any],
    parent: Mapping[str, Any],
    content: Mapping[str, Any],
    apart: bool,
) -> bytes | str:
    """A message as the other side reads it."""
    if not apart:
        message: dict[str, Any] = {
            "channel": channel,
            "header": header,
            "parent_header": parent,
            "metadata": {},
            "content": content,
            "buffers": [],
        }
        return json.dumps(message)
    parts = [channel.encode(), *(json.dumps(part).encode() for part in (header, parent))]
    parts += [b"{}", json.dumps(content).encode()]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def _read_apart(data: bytes) -> Frame:
    try:
        (count,) = struct.unpack_from("<Q", data)
        if not 6 <= count <= len(data) // 8:
            raise ValueError("Not a message")
        offsets = struct.unpack_from("<6Q", data, 8)
    except struct.error as error:
        raise ValueError("Not a message") from error
    channel, header, parent, metadata, content = (
        data[start:stop] for start, stop in pairwise(offsets)
    )
    return Frame(
        _channel(channel.decode()),
        _mapping(header),
        _mapping(parent),
        len(data),
        metadata,
        content,
    )


def _without_buffers(data: bytes) -> bytes:
    """The JSON of a message that has binary parts, which begins with their number and places."""
    try:
        (count,) = struct.unpack_from("!I", data)
        (start,) = struct.unpack_from("!I", data, 4)
        stop = struct.unpack_from("!I", data, 8)[0] if count > 1 else len(data)
    except struct.error as error:
        raise ValueError("Not a message") from error
    return data[start:stop]


def _channel(name: str) -> Channel:
    if name not in _CHANNELS:
        raise ValueError(f"No such channel: {name!r}")
    return cast("Channel", name)


def _mapping(part: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(part, Mapping):
        return part
    value = {} if part == b"{}" else json.loads(part)
    if not isinstance(value, dict):
        raise ValueError("Not a message")
    return value
