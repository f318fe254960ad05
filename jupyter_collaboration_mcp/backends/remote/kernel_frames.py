"""Kernel messages in WebSocket frames, as Jupyter servers send and read them.

There are two formats. In the newer one the parts of a message are separate, so that nobody who only
forwards it, such as the server, parses its content. The older one is a single JSON text.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast, get_args

from ..kernels.wire import IncomingMessage, OutgoingMessage
from ..protocols.kernels import OUTPUT_MISSING, Channel

#: The newer format, as the subprotocol to request when opening a WebSocket.
PARTS_APART = "v1.kernel.websocket.jupyter.org"

_CHANNELS: frozenset[str] = frozenset(get_args(Channel))

#: What a server writes to stderr, in the name of the connection, when it starts to drop messages.
_RATE_EXCEEDED = re.compile(r"IOPub (?:data|message) rate exceeded\.\n")

_RATE_LIMIT = re.compile(
    r"ServerApp\.(iopub_\w{1,20}_rate_limit)=([\d.e+]{1,20}) \((\w{1,9}/sec)\)"
)


class Frame(IncomingMessage):
    """A message; possibly only its headers have been parsed."""

    __slots__ = ("_metadata", "_unread")

    def __init__(
        self,
        channel: Channel,
        header: Mapping[str, Any],
        parent: Mapping[str, Any],
        size: int,
        metadata: bytes | Mapping[str, Any],
        content: bytes | Mapping[str, Any],
    ) -> None:
        super().__init__(channel, header, parent, size)
        self._metadata = metadata
        self._unread = content

    def metadata(self) -> Mapping[str, Any]:
        return _mapping(self._metadata)

    def _read_content(self) -> Mapping[str, Any]:
        return _mapping(self._unread)


def read_frame(data: bytes, apart: bool) -> Frame:
    """Parse a frame; `apart` is whether it has the newer format.

    Raises:
        ValueError: It is not a kernel message.
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


def write_frame(message: OutgoingMessage, apart: bool) -> bytes | str:
    """A message as a frame."""
    channel, header, parent, content = message
    if not apart:
        whole: dict[str, Any] = {
            "channel": channel,
            "header": header,
            "parent_header": parent,
            "metadata": {},
            "content": content,
            "buffers": [],
        }
        return json.dumps(whole)
    parts = [channel.encode(), *(json.dumps(part).encode() for part in (header, parent))]
    parts += [b"{}", json.dumps(content).encode()]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def mark_dropped_output(frame: Frame, session: str) -> Frame:
    """Turn the server's notice that it drops output into a message of type `OUTPUT_MISSING`.

    Any other frame is returned unchanged.

    Args:
        frame: Any frame.
        session: Our name, which the server's notice has; code that prints the same text does not.
    """
    if frame.header.get("session") != session or frame.kind != "stream":
        return frame
    text = str(frame.content().get("text") or "")
    if not _RATE_EXCEEDED.match(text):
        return frame
    found = _RATE_LIMIT.search(text)
    limit = f"{found[1]} ({float(found[2]):,.0f} {found[3]})" if found else "limit"
    reason = (
        f"The Jupyter server dropped output that came faster than its {limit}. Print less, or "
        "write it to a file and read that; a person can raise the limit in the server's "
        "configuration."
    )
    header = {**frame.header, "msg_type": OUTPUT_MISSING}
    content = {"reason": reason, "text": text}
    return Frame(frame.channel, header, frame.parent, frame.size, frame.metadata(), content)


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
    """The JSON of a message with binary parts, which begins with their number and offsets."""
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
