"""The kernels of a Jupyter server elsewhere, which need not have this extension."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from logging import Logger
from typing import Any

from ...documents.foreign_text import NAME, inline
from ...errors import KernelUnavailable
from ...remedies import Intent
from ..contents.models import iso_time
from ..kernels import errors
from ..kernels.conversation import KernelConversation
from ..kernels.links import KernelLinks
from ..protocols.kernels import KernelInfo, KernelLink, KernelSpec
from .jupyter_api import JupyterApi
from .server_errors import Refused
from .websocket_wire import GRACE, WebSocketWire

#: How often, and after how many seconds each time, we check which of two kernels is in use.
_LOOKS, _LOOK_AGAIN = 5, 0.2

#: Characters of a kernel's state, and of the path of its session.
_STATE, _PATH = 40, 1000

_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


class RemoteKernels:
    """Sessions and kernels through the server's REST API, links over WebSockets.

    Args:
        api: The server.
        log: For what nobody waits for.
        grace: Seconds without the server after which its kernels count as unreachable.
    """

    def __init__(self, api: JupyterApi, log: Logger, *, grace: float = GRACE) -> None:
        self._api = api
        self._log = log
        self._grace = grace
        self._changing = asyncio.Lock()
        self._links = KernelLinks()

    async def find(self, path: str) -> KernelInfo | None:
        session = self._best(await self._sessions(path))
        return None if session is None else _info(session["kernel"], path)

    async def start(self, path: str, name: str) -> KernelInfo:
        session = self._best(await self._sessions(path))
        if session is None:
            wanted = {
                "path": path,
                "name": path.rpartition("/")[2],
                "type": "notebook",
                "kernel": {"name": name},
            }
            try:
                session = await self._api.request("POST", "api", "sessions", body=wanted)
            except Refused as error:
                raise errors.not_started(name, str(error)) from error
            with self._api.expecting("a kernel that it started"):
                _require_session(session)
            session = await self._settle(path, session)
        return _info(session["kernel"], path)

    async def _settle(self, path: str, ours: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make sure that there is only one kernel: the server looks first and creates later.

        A person who opened the notebook at the same moment has another one, and is or will be
        connected to it. If nobody is connected, the older one stays, whoever started it.
        """
        for _ in range(_LOOKS):
            sessions = [each for each in await self._sessions(path) if not _dead(each)]
            if len(sessions) < 2:
                return sessions[0] if sessions else ours
            if any(self._others(each) for each in sessions):
                break
            await asyncio.sleep(_LOOK_AGAIN)
        kept = self._best(sessions)
        assert kept is not None
        mine = next((each for each in sessions if each["id"] == ours["id"]), None)
        if mine is not None and mine is not kept and not self._others(mine):
            self._log.info("Two kernels were started for %s at once; shutting one down", path)
            try:
                await self._api.request("DELETE", "api", "sessions", str(mine["id"]))
            except Refused as error:
                self._log.info("It had already ended: %s", error)
        return kept

    async def follow(self, path: str, new_path: str) -> None:
        wanted = {"path": new_path, "name": new_path.rpartition("/")[2]}
        for session in await self._sessions(path):
            try:
                await self._api.request("PATCH", "api", "sessions", str(session["id"]), body=wanted)
            except Refused as error:
                self._log.info("The session of %s has ended: %s", path, error)

    async def connect(self, kernel_id: str) -> KernelLink:
        return await self._connect(kernel_id)

    async def _connect(self, kernel_id: str, *, fresh: bool = False) -> KernelConversation:
        return await self._links.connect(kernel_id, lambda: self._open_link(kernel_id, fresh))

    async def _open_link(self, kernel_id: str, fresh: bool) -> KernelConversation:
        wire = WebSocketWire(self._api, kernel_id, self._log, grace=self._grace)
        link = KernelConversation(wire, kernel_id, self._log)
        await link.open(fresh=fresh)
        return link

    async def interrupt(self, kernel_id: str) -> None:
        try:
            await self._api.request("POST", "api", "kernels", kernel_id, "interrupt")
        except Refused as error:
            raise KernelUnavailable(
                f"The kernel {kernel_id} could not be interrupted: {error}.",
                Intent.LIST_KERNELS,
                kernel_id=kernel_id,
            ) from error

    async def restart(self, kernel_id: str) -> None:
        try:
            await self._api.request("POST", "api", "kernels", kernel_id, "restart")
            await self._links.drop(kernel_id)
            # The server does not wait for the new process; a link does.
            await self._connect(kernel_id, fresh=True)
        except Refused as error:
            raise errors.not_restarted(kernel_id, f"{error}.") from error
        except KernelUnavailable as error:
            raise errors.not_restarted(kernel_id, error.happened) from error
        finally:
            await self._links.close_dead()

    async def end(self, path: str) -> None:
        for session in await self._sessions(path):
            await self._links.drop(str(session["kernel"]["id"]))
            try:
                await self._api.request("DELETE", "api", "sessions", str(session["id"]))
            except Refused as error:
                self._log.info("The kernel of %s had already ended: %s", path, error)

    async def change(self, path: str, name: str) -> KernelInfo:
        # If a server is asked twice at once, it never shuts down the kernel started in between.
        async with self._changing:
            return await self._change(path, name)

    async def _change(self, path: str, name: str) -> KernelInfo:
        session = self._best(await self._sessions(path))
        if session is None:
            return await self.start(path, name)
        wanted = {"kernel": {"name": name}}
        try:
            changed = await self._api.request(
                "PATCH", "api", "sessions", str(session["id"]), body=wanted
            )
        except Refused as error:
            raise errors.not_started(name, str(error)) from error
        with self._api.expecting("a kernel that it started"):
            _require_session(changed)
        await self._links.drop(str(session["kernel"]["id"]))
        return _info(changed["kernel"], path)

    async def specs(self) -> tuple[Mapping[str, KernelSpec], str]:
        found = await self._get("kernelspecs")
        with self._api.expecting("its kernelspecs"):
            specs = {
                str(name)[:NAME]: KernelSpec(
                    str(name)[:NAME],
                    str(each["spec"].get("display_name") or name)[:NAME],
                    str(each["spec"].get("language") or "")[:NAME],
                )
                for name, each in found["kernelspecs"].items()
            }
            return specs, str(found["default"])[:NAME]

    async def running(self) -> Sequence[KernelInfo]:
        kernels, sessions = await self._get("kernels"), await self._get("sessions")
        with self._api.expecting("its kernels"):
            paths = {
                str(each["kernel"]["id"]): str(each["path"])[:_PATH]
                for each in sessions
                if each.get("kernel")
            }
            return [_info(kernel, paths.get(str(kernel["id"]))) for kernel in kernels]

    async def close(self) -> None:
        await self._links.close()

    async def _sessions(self, path: str) -> list[Mapping[str, Any]]:
        """The sessions of a notebook, oldest first; there should be at most one."""
        sessions = await self._get("sessions")
        with self._api.expecting("its sessions"):
            found = [
                each
                for each in sessions
                if each["path"] == path and each["type"] == "notebook" and each.get("kernel")
            ]
            for each in found:
                _require_session(each)
            return found

    async def _get(self, what: str) -> Any:
        try:
            return await self._api.get("api", what)
        except Refused as error:
            if error.status == 404:
                await self._api.check()  # reports it if there is no Jupyter at that address at all
            raise KernelUnavailable(
                f"The Jupyter server does not tell about its {what}: {error}.",
                "Ask the person to look at the server's log.",
            ) from error

    def _best(self, sessions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The session that is alive and in use; otherwise the oldest."""
        return min(sessions, key=lambda each: (_dead(each), self._others(each) == 0), default=None)

    def _others(self, session: Mapping[str, Any]) -> int:
        """How many clients are connected to its kernel, besides us."""
        kernel = session["kernel"]
        link = self._links.get(kernel["id"])
        ours = 0 if link is None or link.over else 1
        return max(0, int(kernel.get("connections") or 0) - ours)


def _dead(session: Mapping[str, Any]) -> bool:
    return bool(session["kernel"].get("execution_state") == "dead")


def _require_session(session: Mapping[str, Any]) -> None:
    """Check that something from the network is the model of a session with a kernel.

    Raises:
        TypeError, KeyError, ValueError: It is not.
    """
    _info(session["kernel"], None)
    int(session["kernel"].get("connections") or 0)
    if not isinstance(session["id"], str):
        raise TypeError("no id")


def _info(model: Mapping[str, Any], path: str | None) -> KernelInfo:
    kernel_id = str(model["id"])
    if not _ID.fullmatch(kernel_id):
        raise ValueError("not the id of a kernel")
    return KernelInfo(
        id=kernel_id,
        name=str(model["name"])[:NAME],
        state=inline(model.get("execution_state") or "unknown", _STATE),
        last_activity=iso_time(model.get("last_activity")),
        path=path,
    )
