"""What all requests of the panel have in common: who may make them, and how they fail."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ..collaboration.panel.ledger import Ledger
from ..documents.members import Member
from ..errors import (
    AlreadyReviewed,
    CellError,
    CollaborationError,
    CommandAway,
    DocumentBusy,
    DocumentNotFound,
    ForkNotFound,
    InvalidArgument,
    MergeConflict,
    NotInPanel,
    PermissionRefused,
    ReviewGone,
    StillConnected,
    StillHeld,
    TokenGone,
    UndoConflict,
)
from ..server.reported_calls import ReportedCalls
from ..workspace.oversight import Oversight
from ..workspace.proposals import Proposals
from ..workspace.reviewing import Reviews
from .request_secrets import take_agent_token
from .token_routes import TokenService

#: The resource that Jupyter's authorizer is asked about.
RESOURCE = "mcp_panel"

#: What a status says of an error; the first that fits.
_STATUSES: tuple[tuple[type[CollaborationError], int], ...] = (
    (NotInPanel, 404),
    (ForkNotFound, 404),
    (ReviewGone, 410),
    (DocumentNotFound, 410),
    (AlreadyReviewed, 409),
    (UndoConflict, 409),
    (MergeConflict, 409),
    (DocumentBusy, 409),
    (StillConnected, 409),
    (StillHeld, 409),
    (TokenGone, 409),
    (CommandAway, 409),
    (CellError, 409),
    (PermissionRefused, 403),
    (InvalidArgument, 400),
)

_CODES = {400: "invalid_request", 401: "not_logged_in", 403: "not_allowed", 404: "unknown"}


@dataclass(frozen=True, slots=True)
class PanelService:
    """What the handlers serve."""

    ledger: Ledger
    oversight: Oversight
    reviews: Reviews
    proposals: Proposals
    tokens: TokenService
    clients: Mapping[str, str]
    """The names of the clients that can be configured, by id."""
    configure: Callable[[str, str, str], str]
    """The configuration of a client for an endpoint with a token."""
    url_path: str
    """Of the endpoint, below the base URL."""
    reports: ReportedCalls
    """What agents of commands do."""


class Refusal(Exception):
    """An answer with a status that is no success."""

    def __init__(self, status: int, error: CollaborationError, **more: Any) -> None:
        super().__init__(error.happened)
        self.status = status
        self.error = error
        self.more = more


def status_of(error: CollaborationError) -> int:
    """The status of an answer that says an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 503)


def refuse_agents(handler: Any) -> None:
    """Refuse a request with the token of an agent, also where anybody else is let in."""
    if take_agent_token(handler.request) is not None:
        raise HTTPError(403, "The panel is for people: the token of an agent does not open it.")


class PanelHandler(APIHandler):
    """A request of a person about agents."""

    auth_resource = RESOURCE

    collaboration_mcp_path: str | None = None
    """For authorizers: the path of the document whose text is asked for or changed."""

    def initialize(self, service: PanelService) -> None:
        self.service = service

    async def prepare(self) -> None:  # type: ignore[override]
        if not self.check_origin():
            raise HTTPError(403, "Requests from this Origin are not allowed.")
        refuse_agents(self)
        await super().prepare()

    def skip_check_origin(self) -> bool:
        return False  # P6: Jupyter skips it for every request that has the token

    def compute_etag(self) -> None:
        return None

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    @property
    def person(self) -> Member:
        """Who makes the request."""
        user = self.current_user
        return Member(user.username, user.display_name or user.name or user.username)

    def body(self, *known: str) -> dict[str, Any]:
        """The fields of the request.

        Raises:
            InvalidArgument: It has others, or is no object.
        """
        given: Any = self.get_json_body()
        if not isinstance(given, dict):
            raise InvalidArgument("The body is not a JSON object.", f"Fields: {', '.join(known)}.")
        if unknown := [name for name in given if name not in known]:
            raise InvalidArgument(
                f"There is no field {str(unknown[0])[:40]!r}.", f"Fields: {', '.join(known)}."
            )
        return given

    async def require_contents(self, action: str, path: str | None) -> None:
        """Refuse whoever may not read or write a document itself.

        Raises:
            PermissionRefused: Jupyter's authorizer does not allow it.
        """
        self.collaboration_mcp_path = path
        allowed = self.authorizer.is_authorized(self, self.current_user, action, "contents")
        if not await ensure_async(allowed):
            raise PermissionRefused(
                f"Jupyter's authorizer does not let you {action} {path!r}.",
                "Ask the person who runs this Jupyter server.",
            )

    async def answer(self, work: Callable[[], Awaitable[Any]], status: int = 200) -> None:
        """Answer with what some work returns, or with its error."""
        try:
            found = await work()
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.error, refusal.more)
        except CollaborationError as error:
            self._refuse(status_of(error), error, {})
        else:
            self.set_status(status)
            self.finish(json.dumps(found) if found is not None else None)

    def _refuse(self, status: int, error: CollaborationError, more: Mapping[str, Any]) -> None:
        self.set_status(status)
        said = {"code": error.code, "message": error.happened, "remedy": error.remedy}
        self.finish(json.dumps({**said, **more}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer errors of the server itself in the same form."""
        exception = kwargs.get("exc_info", (None, None, None))[1]
        said = self._reason
        if isinstance(exception, HTTPError) and exception.log_message:
            said = (
                exception.log_message % exception.args if exception.args else exception.log_message
            )
        self.set_header("Content-Type", "application/json")
        code = _CODES.get(status_code, "failed")
        remedy = "Reload the page." if status_code < 500 else "Look at the log of the server."
        self.finish(json.dumps({"code": code, "message": said, "remedy": remedy}))


def one_of(body: Mapping[str, Any], name: str, *choices: str) -> str:
    """A field that has one of some values.

    Raises:
        InvalidArgument: It has another one.
    """
    value = body.get(name)
    if value not in choices:
        raise InvalidArgument(
            f"{name} is {str(value)[:40]!r}.", f"Give one of: {', '.join(choices)}."
        )
    return str(value)


def text_in(body: Mapping[str, Any], name: str) -> str | None:
    """A field that is a text, or is not there.

    Raises:
        InvalidArgument: It is something else.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} is not a text.", "Give a text, or leave it out.")
    return value


def flag_in(body: Mapping[str, Any], name: str) -> bool:
    """A field that is true or false, and false if it is not there.

    Raises:
        InvalidArgument: It is something else.
    """
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} is not true or false.", "Give true or false.")
    return value
