"""Output that a Jupyter server drops because it comes too fast for a WebSocket."""

from __future__ import annotations

import re

from .kernel_frames import Frame

#: What a server says to stderr, in the name of the connection, when it begins to drop messages.
_SAID = re.compile(r"IOPub (?:data|message) rate exceeded\.\n")

_LIMIT = re.compile(r"ServerApp\.(iopub_\w{1,20}_rate_limit)=([\d.e+]{1,20}) \((\w{1,9}/sec)\)")


def dropped_output(frame: Frame, session: str) -> str | None:
    """Why output of a request is missing from here on, if a message says so.

    Args:
        session: Of the connection. Code that prints the same does not speak in its name.
    """
    if frame.kind != "stream" or frame.header.get("session") != session:
        return None
    text = str(frame.content().get("text") or "")
    if not _SAID.match(text):
        return None
    found = _LIMIT.search(text)
    limit = f"{found[1]} ({float(found[2]):,.0f} {found[3]})" if found else "limit"
    return (
        f"The Jupyter server dropped output that came faster than its {limit}. Print less, or "
        "write it to a file and read that; a person can raise the limit in the server's "
        "configuration."
    )
