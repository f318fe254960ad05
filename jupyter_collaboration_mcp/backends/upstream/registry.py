"""All workarounds, in the order in which they are applied, and the state of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from logging import Logger
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakSet

from .change_events import ChangeEvents
from .external_changes import ExternalChanges
from .failed_saves import FailedSaves
from .file_ids import FileIdFolders
from .fork_observers import ForkObservers
from .line_endings import LineEndings
from .linked_files import LinkTimes, LoadRecords, OpenedFiles
from .loadable_notebooks import LoadableNotebooks
from .mcp_sdk import LowLevelServer, SdkWorkaround, SessionAdmission, ToolLookup
from .notebook_reads import NotebookReads
from .notebook_schemas import NotebookSchemas
from .number_fidelity import NumberFidelity
from .renames import Renames
from .room_access import RoomAccess
from .room_starts import RoomStarts
from .room_tracking import OverwriteTracking, SaveTracking, StoreTracking
from .room_updates import RoomUpdates
from .root_task import RootTask
from .session_creation import SessionCreation
from .stop_signals import StopSignals
from .store_creation import StoreCreation
from .stream_watchers import StreamWatchers
from .thread_arenas import ThreadArenas
from .uri_parser import UriParser
from .workaround import RoomObserver, Server, Workaround
from .worker_threads import WorkerThreads

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

W = TypeVar("W", bound=Workaround)

#: The order matters where two patch the same object: the later one wraps the earlier one.
WORKAROUNDS: Sequence[type[Workaround]] = (
    RoomAccess,
    WorkerThreads,
    RootTask,
    ChangeEvents,
    NumberFidelity,
    FileIdFolders,
    NotebookReads,
    NotebookSchemas,
    OpenedFiles,
    Renames,
    LinkTimes,
    LoadableNotebooks,  # over LinkTimes: `FileLoaderMapping._settings`
    RoomStarts,
    StoreCreation,
    RoomUpdates,  # over RoomStarts: `WebsocketServer.start_room`
    LoadRecords,
    SaveTracking,
    OverwriteTracking,
    StoreTracking,
    FailedSaves,
    LineEndings,  # over FailedSaves: `FileLoader._save_content_at_path`
    ExternalChanges,  # over LineEndings, and over LoadRecords: `FileLoader.load_content`
    SessionCreation,
    ForkObservers,
    LowLevelServer,
    ToolLookup,
    SessionAdmission,
    StreamWatchers,
    ThreadArenas,
    StopSignals,
    UriParser,
)

#: Workarounds that the setting can switch off.
OPTIONAL_NAMES = tuple(sorted(each.name for each in WORKAROUNDS if each.optional))


@dataclass(slots=True)
class _Entry:
    workaround: Workaround
    state: Literal["waiting", "applied", "off", "unfit"] = "waiting"
    reasons: list[str] = field(default_factory=list)


class Workarounds:
    """The workarounds of one server: checked and applied when it starts.

    If one of them fails, the others are still applied, and nothing is raised: people load and save
    their documents through the patched code.
    """

    def __init__(self, disabled: Collection[str], log: Logger) -> None:
        self._log = log
        self._prepared: WeakSet[Any] = WeakSet()
        self._entries = [_Entry(workaround()) for workaround in WORKAROUNDS]
        self._by_kind = {type(entry.workaround): entry for entry in self._entries}
        for entry in self._entries:
            if entry.workaround.name in disabled and entry.workaround.optional:
                entry.state = "off"

    def start(self, server: Server) -> None:
        """Check all and apply those that fit, once all extensions are loaded."""
        for entry in self._entries:
            if entry.state == "waiting" and entry.workaround.stage == "server start":
                self._apply(entry, server)
        for entry in self._entries:
            workaround = entry.workaround
            if entry.state == "off":
                self._log.info("%s", _problem(entry))
            else:
                self._log.debug(
                    "Workaround %s for %s: %s",
                    workaround.name,
                    workaround.package,
                    f"at the {workaround.stage}" if entry.state == "waiting" else entry.state,
                )

    def _apply(self, entry: _Entry, server: Server) -> None:
        try:
            reasons = entry.workaround.check(server)
            if not reasons:
                entry.workaround.apply(server)
                entry.state = "applied"
                return
        except Exception as error:
            self._log.debug("Workaround %s failed", entry.workaround.name, exc_info=True)
            reasons = [f"{type(error).__name__}: {error}"]
        self._give_up(entry, reasons)

    def prepare_loader(self, loader: Any) -> None:
        """Called when a file is about to be loaded for the first time, and perhaps again."""
        if loader in self._prepared:
            return
        self._prepared.add(loader)
        for entry in self._applied():
            self._guard(entry, lambda workaround: workaround.on_loader(loader))

    def prepare_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        """Called when a room has been loaded, before anybody has edited it."""
        self.prepare_loader(room._file)
        for entry in self._applied():
            self._guard(entry, lambda workaround: workaround.on_room(room, observer))

    def find(self, kind: type[W]) -> W | None:
        """A workaround, if it is applied."""
        return self.get(kind) if self._by_kind[kind].state == "applied" else None

    def get(self, kind: type[W]) -> W:
        """A workaround, whatever its state."""
        workaround = self._by_kind[kind].workaround
        assert isinstance(workaround, kind)
        return workaround

    @property
    def problems(self) -> list[str]:
        """What is switched off or does not fit, a sentence each, and what is weaker without it."""
        self._check_sdk()
        return [_problem(entry) for entry in self._entries if entry.state in ("off", "unfit")]

    def _check_sdk(self) -> None:
        """Check what could not be checked before the MCP SDK was imported."""
        for entry in self._entries:
            workaround = entry.workaround
            if entry.state != "waiting" or not isinstance(workaround, SdkWorkaround):
                continue
            if reasons := workaround.check_if_loaded():
                self._give_up(entry, reasons)

    def _applied(self) -> Iterator[_Entry]:
        return (entry for entry in self._entries if entry.state == "applied")

    def _guard(self, entry: _Entry, call: Callable[[Workaround], None]) -> None:
        try:
            call(entry.workaround)
        except Exception as error:
            self._log.debug("Workaround %s failed", entry.workaround.name, exc_info=True)
            self._give_up(entry, [f"{type(error).__name__}: {error}"])

    def _give_up(self, entry: _Entry, reasons: list[str]) -> None:
        entry.state, entry.reasons = "unfit", reasons
        self._log.warning("%s", _problem(entry))


def _problem(entry: _Entry) -> str:
    workaround = entry.workaround
    if entry.state == "off":
        why = "is switched off"
    else:
        why = f"does not fit {workaround.package} ({'; '.join(entry.reasons)})"
    return f"The workaround {workaround.name} {why}. Without it, {workaround.without}."
