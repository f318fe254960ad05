"""The socket that the command listens on."""

from __future__ import annotations

import socket

from jupyter_collaboration_mcp.transport.http import bind


def test_no_answer_waits_for_an_acknowledgement() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
