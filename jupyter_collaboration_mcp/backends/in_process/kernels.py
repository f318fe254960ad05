"""The kernels of the Jupyter server that this extension runs in."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import zmq
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents.foreign_text import words
from ...errors import KernelUnavailable, ServerError
from ...remedies import Intent
from ..kernels import errors
from ..kernels.conversation import KernelConversation
from ..kernels.links import KernelLinks
from ..kernels.wire import Wire
from ..protocols.kernels import KernelInfo, KernelLink, KernelSpec
from ..upstream.registry import Workarounds
from ..upstream.session_creation import SessionCreation, find_session, move_session, renamed
from .zmq_wire import ZmqWire

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"

#: Seconds until Jupyter notices a dead kernel and restarts it.
_COME_BACK = 15.0

#: Seconds that a kernel has to come back after a restart.
_RESTART_LIMIT = 60.0


class InProcessKernels:
    """Sessions and kernels through the server's own managers, links over ZeroMQ.

    Args:
        gateway_wire: Makes a wire to a kernel that runs behind a kernel gateway.
    """

    def __init__(
        self,
        serverapp: ServerApp,
        workarounds: Workarounds,
        gateway_wire: Callable[[str], Wire] | None = None,
    ) -> None:
        self._serverapp = serverapp
        self._gateway_wire = gateway_wire
        self._log = serverapp.log
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._links = KernelLinks()
        self._creation = workarounds.get(SessionCreation)
        self._following = asyncio.Lock()

    def start_watching(self) -> None:
        """Make sessions follow their files."""
        events = self._serverapp.event_logger
        assert events is not None
        events.add_listener(schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event)

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Move a session along with its file: JupyterLab only does so where the file is open."""
        old, new = data.get("source_path"), data.get("path")
        if data.get("action") != "rename" or not old or not new:
            return
        self._creation.rename(old, new)
        async with self._following:  # in the order of the renames
            for session in await self._sessions.list_sessions():
                path_now = renamed(str(session["path"]), old, new)
                if path_now is not None:
                    await move_session(self._sessions, session["id"], path_now)

    async def find(self, path: str) -> KernelInfo | None:
        session = await self._session(path)
        return None if session is None else _info(session["kernel"], path)

    async def start(self, path: str, name: str) -> KernelInfo:
        try:
            session = await self._sessions.create_session(
                path=path, name=path.rpartition("/")[2], type="notebook", kernel_name=name
            )
        except Exception as error:
            raise errors.not_started(name, _reason(error)) from error
        return _info(session["kernel"], path)

    async def follow(self, path: str, new_path: str) -> None:
        pass  # the contents manager reports it: see `_on_contents_event`

    async def connect(self, kernel_id: str) -> KernelLink:
        link = self._links.get(kernel_id)
        if link is not None and await link.fate() != "alive":
            await self._links.drop(kernel_id)
        return await self._links.connect(kernel_id, lambda: self._open_link(kernel_id))

    async def _open_link(self, kernel_id: str) -> KernelConversation:
        try:
            manager = self._kernels.get_kernel(kernel_id)
        except (KeyError, HTTPError) as error:
            raise errors.gone(kernel_id) from error
        label = f"{manager.kernel_name} ({kernel_id})"
        if _is_behind_gateway(manager):
            return await self._open_gateway_link(kernel_id, manager, label)
        await self._started(manager)
        came_back = await self._alive(kernel_id, manager, label)
        if self._context is None:
            self._context = zmq.Context()
        # After a kernel died and came back, the server still reports the state of the first.
        busy = not came_back and getattr(manager, "execution_state", None) == "busy"
        wire = ZmqWire(
            self._context,
            manager,
            kernel_id,
            lambda: self._holds(kernel_id, manager),
            self._log,
            busy=busy,
        )
        link = KernelConversation(wire, kernel_id, self._log, label=label)
        await link.open()
        return link

    async def _open_gateway_link(
        self, kernel_id: str, manager: Any, label: str, *, fresh: bool = False
    ) -> KernelConversation:
        """A link to a kernel that has no sockets on this machine."""
        if self._gateway_wire is None:
            raise KernelUnavailable(
                f"The kernel {label} runs behind a gateway, where it cannot be reached from here.",
                "Ask the person to run the cell, or to start Jupyter without a kernel gateway.",
                kernel_id=kernel_id,
            )
        try:
            if await manager.refresh_model() is None:
                # Jupyter would list its session until it next asks for all kernels.
                self._kernels.remove_kernel(kernel_id)
                raise errors.gone(kernel_id)
            wire = self._gateway_wire(kernel_id)
            link = KernelConversation(wire, kernel_id, self._log, label=label)
            await link.open(fresh=fresh)
        except (HTTPError, ServerError) as error:
            said = _reason(error) if isinstance(error, HTTPError) else error.happened
            raise errors.gateway_silent(f"the kernel {kernel_id}", said) from error
        return link

    async def _started(self, manager: Any) -> None:
        """Wait for a kernel that is about to start."""
        ready = getattr(manager, "ready", None)
        if isinstance(ready, concurrent.futures.Future):
            ready = asyncio.wrap_future(ready)
        if asyncio.isfuture(ready):
            await asyncio.wait([ready], timeout=_RESTART_LIMIT)

    async def _alive(self, kernel_id: str, manager: Any, label: str) -> bool:
        """Wait for a kernel that died a moment ago: Jupyter restarts it by itself.

        Returns whether it was dead.
        """
        waited = False
        deadline = time.monotonic() + _COME_BACK
        while not await ensure_async(manager.is_alive()):
            if time.monotonic() > deadline or not self._holds(kernel_id, manager):
                raise KernelUnavailable(
                    f"The kernel {label} is dead.",
                    Intent.RESTART_KERNEL,
                    kernel_id=kernel_id,
                )
            waited = True
            await asyncio.sleep(0.05)
        return waited

    def _holds(self, kernel_id: str, manager: Any) -> bool:
        return kernel_id in self._kernels and self._kernels.get_kernel(kernel_id) is manager

    async def interrupt(self, kernel_id: str) -> None:
        remote = self._runs_behind_gateway(kernel_id)
        with _asking_gateway(f"the kernel {kernel_id}") if remote else contextlib.nullcontext():
            await ensure_async(self._kernels.interrupt_kernel(kernel_id))

    async def restart(self, kernel_id: str) -> None:
        link = self._links.take(kernel_id)
        try:
            back = await ensure_async(self._kernels.restart_kernel(kernel_id))
            if asyncio.isfuture(back):
                async with asyncio.timeout(_RESTART_LIMIT):
                    await back
            if self._runs_behind_gateway(kernel_id):
                await self._links.connect(kernel_id, lambda: self._reopened(kernel_id))
        except KernelUnavailable as error:
            raise errors.not_restarted(kernel_id, error.happened) from error
        except Exception as error:
            raise errors.not_restarted(kernel_id, f"{_reason(error)}.") from error
        finally:
            if link is not None:
                await link.close()

    async def _reopened(self, kernel_id: str) -> KernelConversation:
        """A link to a kernel that was restarted: a gateway does not wait for the new process."""
        manager = self._kernels.get_kernel(kernel_id)
        label = f"{manager.kernel_name} ({kernel_id})"
        return await self._open_gateway_link(kernel_id, manager, label, fresh=True)

    def _runs_behind_gateway(self, kernel_id: str) -> bool:
        try:
            return _is_behind_gateway(self._kernels.get_kernel(kernel_id))
        except (KeyError, HTTPError):
            return False

    async def change(self, path: str, name: str) -> KernelInfo:
        if await self._session(path) is None:
            info = await self.start(path, name)
            if info.name == name:
                return info  # otherwise somebody started another one at the same moment
        async with self._creation.lock(path):
            session = await self._session(path)
            if session is not None:
                await self._replace(session, path, name)
        if session is None:  # somebody closed it in between
            return await self.start(path, name)
        changed = await self._session(path)
        assert changed is not None
        return _info(changed["kernel"], path)

    async def _replace(self, session: Mapping[str, Any], path: str, name: str) -> None:
        sessions = self._sessions
        try:
            kernel_id = await sessions.start_kernel_for_session(
                session["id"], path, session["name"], session["type"], name
            )
        except Exception as error:
            raise errors.not_started(name, _reason(error)) from error
        await sessions.update_session(session["id"], kernel_id=kernel_id)
        old = session["kernel"]["id"]
        await self._links.drop(old)
        try:
            await ensure_async(self._kernels.shutdown_kernel(old))
        except (KeyError, HTTPError):
            self._log.info("The kernel %s had already ended", old)

    async def end(self, path: str) -> None:
        async with self._creation.lock(path):
            session = await self._session(path)
            if session is None:
                return
            await self._links.drop(session["kernel"]["id"])
            try:
                await self._sessions.delete_session(session["id"])
            except (KeyError, HTTPError):
                self._log.info("The kernel of %s had already ended", path)

    async def specs(self) -> tuple[Mapping[str, KernelSpec], str]:
        with _asking_gateway("its kernels"):
            found = await ensure_async(self._specs.get_all_specs())
        specs = {
            name: KernelSpec(
                name,
                str(spec["spec"].get("display_name") or name),
                str(spec["spec"].get("language") or ""),
            )
            for name, spec in cast("dict[str, Any]", found).items()
        }
        return specs, str(self._kernels.default_kernel_name)

    async def running(self) -> Sequence[KernelInfo]:
        sessions = await self._sessions.list_sessions()
        paths = {session["kernel"]["id"]: session["path"] for session in sessions}
        with _asking_gateway("its kernels"):
            kernels = await ensure_async(self._kernels.list_kernels())
        return [_info(kernel, paths.get(kernel["id"])) for kernel in kernels]

    async def close(self) -> None:
        await self._links.close()
        if self._context is not None:
            self._context.destroy(linger=0)

    async def _session(self, path: str) -> Mapping[str, Any] | None:
        return await find_session(self._sessions, path)

    @property
    def _sessions(self) -> Any:
        return self._serverapp.session_manager

    @property
    def _specs(self) -> Any:
        return self._serverapp.kernel_spec_manager

    @property
    def _kernels(self) -> Any:
        return self._serverapp.kernel_manager


def _is_behind_gateway(manager: Any) -> bool:
    """Whether Jupyter reaches a kernel over HTTP: its manager is never ready, and has no ports."""
    return hasattr(manager, "refresh_model")


@contextlib.contextmanager
def _asking_gateway(about: str) -> Iterator[None]:
    """Report a gateway that fails while Jupyter asks it; without one, Jupyter asks nobody."""
    try:
        yield
    except HTTPError as error:
        raise errors.gateway_silent(about, _reason(error)) from error


def _info(model: Mapping[str, Any], path: str | None) -> KernelInfo:
    return KernelInfo(
        id=model["id"],
        name=model["name"],
        state=str(model.get("execution_state") or "unknown"),
        last_activity=model.get("last_activity"),
        path=path,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        message = error.log_message
        return words(message % error.args if message and error.args else message or error.reason)
    return words(error) if str(error) else type(error).__name__
