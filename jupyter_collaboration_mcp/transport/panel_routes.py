"""The panel over REST: calls and their reviews, agents, proposals, and connecting an agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import HTTPError, authenticated

from ..backends.protocols.panel_messages import REPORTS
from ..backends.remote.extension_info import INFO_PATH
from ..collaboration.panel.entries import CallEntry
from ..errors import AlreadyReviewed, InvalidArgument, MergeConflict, NotInPanel, UndoConflict
from ..workspace.holds import STATES
from ..workspace.reviewing import review_all
from .origins import authority
from .panel_feed import PanelFeed
from .panel_reports import PanelReports
from .panel_requests import PanelHandler, PanelService, Refusal, flag_in, one_of, text_in
from .token_routes import highest_for, new_token

#: Cells or calls that one request may name.
_MOST_IDS = 10_000


class State(PanelHandler):
    """All that is shown, for whoever does not follow the feed."""

    @authenticated
    @authorized
    async def get(self) -> None:
        async def work() -> Any:
            return self.service.ledger.state()

        await self.answer(work)


class Call(PanelHandler):
    """One call, with what it did to each cell; and the decision about it."""

    @authenticated
    @authorized
    async def get(self, call_id: str) -> None:
        async def work() -> Any:
            call = self.service.reviews.find(call_id)
            await self.require_contents("read", call.path)
            cell_id = self.get_query_argument("cell_id", None, strip=False)
            if cell_id is not None and call.cell(cell_id) is None:
                raise NotInPanel.cell(cell_id)
            only = None if cell_id is None else (cell_id,)
            return {**self._view(call), "diffs": await self.service.reviews.diffs(call, only)}

        await self.answer(work)

    @authenticated
    @authorized
    async def post(self, call_id: str) -> None:
        async def work() -> Any:
            body = self.body("action", "cell_id", "force")
            action = one_of(body, "action", "keep", "undo", "interrupt")
            cell_id, force = text_in(body, "cell_id"), flag_in(body, "force")
            reviews = self.service.reviews
            call = reviews.find(call_id)
            if action == "interrupt":
                await self.service.oversight.interrupt(call)
                return self._view(call)
            try:
                if action == "keep":
                    return self._view(await reviews.keep(call_id, cell_id, self.person))
                await self.require_contents("write", call.path)
                return self._view(await reviews.undo(call_id, cell_id, force, self.person))
            except AlreadyReviewed as error:
                raise Refusal(409, error, call=self._view(call)) from error
            except UndoConflict as error:
                diffs = await reviews.diffs(call, error.detail["cells"])
                raise Refusal(409, error, diffs=diffs) from error

        await self.answer(work)

    def _view(self, call: CallEntry) -> dict[str, Any]:
        return self.service.ledger.view_call(call)


class ReviewAll(PanelHandler):
    """A decision about all calls that match, as far as they are open."""

    @authenticated
    @authorized
    async def post(self) -> None:
        async def work() -> Any:
            body = self.body("action", "path", "agent", "calls")
            action = one_of(body, "action", "keep", "undo")
            path, agent = text_in(body, "path"), text_in(body, "agent")
            ids, ledger = _ids_in(body, "calls"), self.service.ledger
            named = ledger.calls.keys() if ids is None else set(ids)
            if agent is not None:
                self.service.oversight.find(agent)
            calls = [
                call
                for call in ledger.calls.values()
                if call.review == "open"
                and path in (None, call.path)
                and agent in (None, call.agent)
                and call.id in named
            ]
            if action == "undo":
                for place in {call.path for call in calls}:
                    await self.require_contents("write", place)
            done, conflicts = await review_all(self.service.reviews, calls, action, self.person)
            return {"calls": [ledger.view_call(call) for call in done], "conflicts": conflicts}

        await self.answer(work)


class AllAgents(PanelHandler):
    """Stops all agents."""

    @authenticated
    @authorized
    async def patch(self) -> None:
        async def work() -> Any:
            one_of(self.body("state"), "state", "stopped")
            stopped = await self.service.oversight.stop_all()
            return {"agents": [self.service.ledger.view_agent(each) for each in stopped]}

        await self.answer(work)


class OneAgent(PanelHandler):
    """Lets one agent go on, pauses, stops or forgets it."""

    @authenticated
    @authorized
    async def patch(self, agent_id: str) -> None:
        async def work() -> Any:
            oversight = self.service.oversight
            agent = oversight.find(agent_id)
            wanted = one_of(self.body("state"), "state", *STATES)
            await oversight.hold(agent, next(each for each in STATES if each == wanted))
            return self.service.ledger.view_agent(agent)

        await self.answer(work)

    @authenticated
    @authorized
    async def delete(self, agent_id: str) -> None:
        async def work() -> Any:
            oversight = self.service.oversight
            await oversight.forget(oversight.find(agent_id))

        await self.answer(work, 204)


class Proposal(PanelHandler):
    """One proposal, with what it would change; and the decision about it."""

    @authenticated
    @authorized
    async def get(self, fork_id: str) -> None:
        async def work() -> Any:
            proposals = self.service.proposals
            fork = await proposals.find(fork_id)
            await self.require_contents("read", fork.path)
            diffs, conflicts = await proposals.diffs(fork, self.person)
            shown = self.service.ledger.proposals.get(fork_id, {"id": fork_id})
            return {**shown, "cells": len(diffs), "diffs": diffs, "conflicts": conflicts}

        await self.answer(work)

    @authenticated
    @authorized
    async def post(self, fork_id: str) -> None:
        async def work() -> Any:
            body = self.body("action", "cells", "force")
            action, force = one_of(body, "action", "merge", "discard"), flag_in(body, "force")
            cells, proposals = _ids_in(body, "cells"), self.service.proposals
            fork = await proposals.find(fork_id)
            await self.require_contents("write", fork.path)
            if action == "discard":
                return await proposals.discard(fork, self.person)
            try:
                return await proposals.merge(fork, cells, force, self.person)
            except MergeConflict as error:
                diffs, conflicts = await proposals.diffs(fork, self.person)
                named = [each for each in diffs if each["conflict"]]
                raise Refusal(409, error, diffs=named, conflicts=conflicts) from error

        await self.answer(work)


def _ids_in(body: dict[str, Any], name: str) -> list[str] | None:
    """A field that is a list of ids, or is not there.

    Raises:
        InvalidArgument: It is something else.
    """
    ids = body.get(name)
    if ids is None:
        return None
    right = isinstance(ids, list) and all(isinstance(each, str) for each in ids)
    if not right or not 0 < len(ids) <= _MOST_IDS:
        raise InvalidArgument(
            f"{name} is not a list of 1 to {_MOST_IDS:,} ids.", "Give ids, or leave it out."
        )
    return list(ids)


class Clients(PanelHandler):
    """The clients that can be configured."""

    @authenticated
    @authorized
    async def get(self) -> None:
        async def work() -> Any:
            clients = self.service.clients.items()
            return {
                "clients": [{"id": client, "name": name} for client, name in clients],
                "highest": highest_for(self.service.tokens, self.current_user).name,
            }

        await self.answer(work)


class Connect(PanelHandler):
    """Makes a token for an agent, and the configuration of its client."""

    @authenticated
    @authorized
    async def post(self) -> None:
        async def work() -> Any:
            body = self.body("client", "agent", "permission", "paths", "expires_in")
            client = one_of(body, "client", *self.service.clients)
            wanted = {name: value for name, value in body.items() if name != "client"}
            try:
                made, token = await new_token(self.service.tokens, wanted, self.current_user)
            except OSError as error:
                raise HTTPError(507, f"The token cannot be stored: {error.strerror}.") from error
            text = self.service.configure(client, self._endpoint(), token)
            return {
                "id": made.id,
                "token": token,
                "configuration": text,
                "where": text.partition("\n")[0],
            }

        await self.answer(work, 201)

    def _endpoint(self) -> str:
        """The URL of the endpoint, as the person's browser reaches this server."""
        scheme, host = self.request.protocol, self.request.host
        origin = self.request.headers.get("Origin", "")
        if authority(origin) is not None:  # behind a proxy, only the page knows it
            parts = urlsplit(origin)
            scheme, host = parts.scheme, parts.netloc
        return f"{scheme}://{host}{url_path_join(self.base_url, self.service.url_path)}"


def panel_handlers(service: PanelService) -> list[tuple[str, type, dict[str, Any]]]:
    """The routes of the panel, below the base URL."""
    base = rf"/{INFO_PATH}/panel"
    routes: list[tuple[str, type]] = [
        (rf"{base}/feed", PanelFeed),
        (rf"/{INFO_PATH}/{REPORTS}", PanelReports),
        (rf"{base}/state", State),
        (rf"{base}/calls/([^/]+)", Call),
        (rf"{base}/review", ReviewAll),
        (rf"{base}/agents", AllAgents),
        (rf"{base}/agents/([^/]+)", OneAgent),
        (rf"{base}/proposals/([^/]+)", Proposal),
        (rf"{base}/clients", Clients),
        (rf"{base}/connect", Connect),
    ]
    return [(route, handler, {"service": service}) for route, handler in routes]
