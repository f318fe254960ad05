"""Errors of Jupyter servers elsewhere."""

from __future__ import annotations

from .base import CollaborationError


class ServerError(CollaborationError):
    code = "server_error"


class ServerUnreachable(ServerError):
    code = "server_unreachable"


class ServerStopped(ServerUnreachable):
    """A Hub answers in the place of a server that it could start."""


class HubRefused(ServerError):
    """A Hub does not do what is asked, or cannot."""

    code = "hub_refused"


class TokenRefused(ServerError):
    code = "token_refused"


class NotJupyter(ServerError):
    code = "not_jupyter"


class AnswerTooLarge(ServerError):
    code = "answer_too_large"


class UnknownServer(ServerError):
    code = "unknown_server"
