"""Credentials in a request: put into one form, and taken away before anybody can pass them on."""

from __future__ import annotations

from urllib.parse import unquote_plus

from tornado.httputil import HTTPServerRequest

from jupyter_collaboration_mcp.server.caller import QUERY_PARAMETERS
from jupyter_collaboration_mcp.transport.agent_tokens import is_agent_token


def forget_secrets(request: HTTPServerRequest) -> None:
    """Leave only what we know in the URL, before anybody can log it or pass it on.

    The parsed arguments keep the token, which Jupyter authenticates with. Jupyter scrubs its
    request log, but neither `%74oken=` nor `tokn=`; and Tornado logs the whole URL with an
    unexpected exception.
    """
    if not request.query:
        return
    parts = request.query.split("&")
    kept = [p for p in parts if unquote_plus(p.partition("=")[0]) in QUERY_PARAMETERS]
    if len(kept) < len(parts):
        request.query = "&".join(kept)
        request.uri = f"{request.path}?{request.query}" if kept else request.path


def normalise_authorization(request: HTTPServerRequest) -> None:
    """Write `Identity.token X`, which some clients send, as the `token X` that Jupyter reads."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "identity.token":
        request.headers["Authorization"] = f"token {token}"


def take_agent_token(request: HTTPServerRequest) -> str | None:
    """The token of an agent that came with a request, if one did.

    It is taken away with all other credentials: with it, a login cookie must not count.
    """
    sent = request.headers.get("Authorization", "").split(maxsplit=1)[1:]
    sent += [each.decode(errors="replace") for each in request.arguments.get("token", ())]
    candidates = [each.strip() for each in sent]
    token = next(filter(is_agent_token, candidates), None)
    if token is not None:
        for name in ("Authorization", "Cookie"):
            request.headers.pop(name, None)
        request.arguments.pop("token", None)
        request.query_arguments.pop("token", None)
    return token
