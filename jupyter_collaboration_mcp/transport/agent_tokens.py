"""Tokens of agents: each lets one agent in at `/mcp`, with a level, paths and an end, and opens
nothing else of Jupyter.

They are kept as hashes in a file that only its owner can read. A token is 32 random bytes, so a
plain hash is enough: nobody can guess what it is of.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from logging import Logger
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: there is no lock there
    fcntl = None  # type: ignore[assignment]

from ..errors import InvalidArgument
from ..owned_tasks import OwnedTasks
from ..workspace.permissions import NO_RULES, Level, PathRules

#: How each of them begins, so that people and secret scanners recognize it.
PREFIX = "jcm_"

#: How the credential of whoever has one begins.
_CREDENTIAL = "agent:"

#: Tokens that are kept, characters of a name and of a path, paths of one token.
_MOST, _LONGEST, _PATHS = 500, 200, 100

#: Seconds that a token may be good for, at most; and that pass until a clock is looked at again.
_LONGEST_LIFE, _LONGEST_WAIT = 10 * 365 * 86400.0, 3600.0


@dataclass(frozen=True, slots=True)
class AgentToken:
    """What a token is good for; the token itself is known only to the agent."""

    id: str
    agent: str
    """The name that the agent has, whatever it says."""
    permission: str
    """The name of the highest level."""
    paths: Sequence[str]
    """Globs of what it may touch; everything if there are none."""
    created: float
    expires: float | None
    user: str
    """Who made it, as Jupyter knows them: the authorizer is asked about this user."""
    display_name: str
    digest: str
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else the identity provider knew of them, which its authorizer may need."""

    @property
    def level(self) -> Level:
        return Level[self.permission]

    @property
    def rules(self) -> PathRules:
        return (
            PathRules(allowed=self.paths, source="This agent's token") if self.paths else NO_RULES
        )

    @property
    def credential(self) -> str:
        return credential_of(self.id)

    @property
    def expired(self) -> bool:
        return self.expires is not None and self.expires <= time.time()

    @property
    def described(self) -> dict[str, Any]:
        """What anybody may know of it who may make tokens."""
        known = asdict(self)
        del known["digest"], known["more"]
        return {**known, "paths": list(self.paths), "expired": self.expired}


def credential_of(token_id: str) -> str:
    """The credential of whoever has a token."""
    return f"{_CREDENTIAL}{token_id}"


def is_agent_token(text: str) -> bool:
    return text.startswith(PREFIX)


class AgentTokens:
    """The tokens of one Jupyter server, and of others that serve the same directory.

    Args:
        path: The file in which they are kept.
    """

    def __init__(self, path: Path, log: Logger) -> None:
        self._path = path
        self._log = log
        self._changing = asyncio.Lock()
        self._read: dict[str, AgentToken] = {}  # by id
        self._stamp: tuple[int, ...] | None = ()  # of the file as it was read
        self._unreadable: tuple[int, ...] | None = ()  # of the file that could not be read
        self._revoked: set[str] = set()  # ids, whatever the file says
        self._expiring: dict[str, asyncio.TimerHandle] = {}  # by id
        # For the timers: Jupyter keeps the handler of the present request in the context, and with
        # it the request, for as long as a timer waits.
        self._context = contextvars.Context()
        self._tasks = OwnedTasks()
        self.on_revoked: Callable[[str], Awaitable[None]] | None = None
        """Called with the credential of a token that is not good any more."""

    def find(self, token: str) -> AgentToken | None:
        """What a token is good for; None if it is nobody's, was revoked or has expired."""
        token_id = token.removeprefix(PREFIX).partition("_")[0]
        found = self._tokens.get(token_id)
        if found is None or found.expired:
            return None
        if not secrets.compare_digest(found.digest, _digest(token)):
            return None
        self._watch(found)
        return found

    def is_good(self, token: AgentToken) -> bool:
        """Whether a token that was found is still good."""
        return not token.expired and self._tokens.get(token.id) == token

    async def close(self) -> None:
        """Watch no more which tokens expire."""
        for timer in self._expiring.values():
            timer.cancel()
        self._expiring.clear()
        await self._tasks.close()

    def of_credential(self, credential: str) -> AgentToken | None:
        """The token behind a credential, unless it was revoked or has expired."""
        if not credential.startswith(_CREDENTIAL):
            return None
        found = self._tokens.get(credential.removeprefix(_CREDENTIAL))
        return None if found is None or found.expired else found

    def all(self) -> list[AgentToken]:
        """All tokens, the oldest first; those that have expired, too."""
        return sorted(self._tokens.values(), key=lambda each: each.created)

    async def create(
        self,
        agent: str,
        permission: Level,
        paths: Sequence[str] = (),
        expires_in: float | None = None,
        user: str = "",
        display_name: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> tuple[AgentToken, str]:
        """Make a token. It can be seen now, and never again.

        Args:
            expires_in: Seconds; None if it is good until it is revoked.

        Raises:
            InvalidArgument: There cannot be such a token.
            OSError: It cannot be stored.
        """
        name = " ".join(agent.split())
        if not name or len(name) > _LONGEST or not name.isprintable():
            raise InvalidArgument("A token needs the name of its agent.", "Give a short name.")
        if len(paths) > _PATHS or not all(each and len(each) <= 1000 for each in paths):
            raise InvalidArgument(
                f"There are more than {_PATHS} paths, or one is empty or too long.",
                "Give a few globs, such as reports/*.",
            )
        if expires_in is not None and not 0 < expires_in <= _LONGEST_LIFE:
            raise InvalidArgument(
                f"A token cannot expire in {expires_in:g} seconds.",
                "Give a positive number of seconds, up to ten years.",
            )
        token_id, now = secrets.token_hex(4), time.time()
        token = f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"
        made = AgentToken(
            token_id,
            name,
            permission.name,
            tuple(paths),
            now,
            None if expires_in is None else now + expires_in,
            user,
            display_name,
            _digest(token),
            more or {},
        )

        def add(tokens: dict[str, AgentToken]) -> None:
            if len(tokens) >= _MOST:
                raise InvalidArgument(
                    f"There are {_MOST} tokens already.", "Revoke those that nobody needs."
                )
            tokens[token_id] = made

        async with self._changing:
            await self._change(add)
        return made, token

    async def revoke(self, token_id: str) -> AgentToken | None:
        """Make a token worthless, and end what its agent does; None if there is none.

        Raises:
            OSError: It cannot be stored; it is worthless until the server restarts.
        """
        async with self._changing:
            found = self._tokens.get(token_id)
            if found is None:
                return None
            self._revoked.add(token_id)  # whatever becomes of the file
            self._read = {key: each for key, each in self._read.items() if key != token_id}
            try:
                await self._change(lambda tokens: tokens.pop(token_id, None))
            finally:
                await self._end(found)
        return found

    async def _end(self, token: AgentToken) -> None:
        if self.on_revoked is not None:
            await self.on_revoked(token.credential)

    def _watch(self, token: AgentToken) -> None:
        """End what an agent does when its token expires."""
        if token.expires is not None and token.id not in self._expiring:
            wait = min(max(0.0, token.expires - time.time()), _LONGEST_WAIT)
            self._expiring[token.id] = asyncio.get_running_loop().call_later(
                wait, self._look_again, token, context=self._context
            )

    def _look_again(self, token: AgentToken) -> None:
        del self._expiring[token.id]
        if not token.expired:
            self._watch(token)
            return
        self._tasks.start(self._end(token))

    @property
    def _tokens(self) -> dict[str, AgentToken]:
        """All tokens by id; read again where another server has changed the file."""
        stamp = self._look()
        if stamp != self._stamp:
            before = self._read
            try:
                self._read = self._load()
            except OSError as error:
                # Too many files are open, or a disk fails: the tokens themselves are no worse.
                if stamp != self._unreadable:
                    self._log.warning("Agent tokens cannot be read again now: %s", error)
                self._unreadable = stamp
                return before
            self._stamp = stamp
            self._unreadable = ()
            for gone in before.keys() - self._read.keys():  # another server has revoked it
                self._tasks.start(self._end(before[gone]))
        return self._read

    def _look(self) -> tuple[int, ...] | None:
        """What tells that the file is another one; None if there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError:  # nobody can know
            return self._stamp
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> dict[str, AgentToken]:
        """All tokens in the file.

        Raises:
            OSError: It cannot be read now.
        """
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            found = {row["id"]: _token(row) for row in rows}
            return {key: each for key, each in found.items() if key not in self._revoked}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            self._log.warning("No agent token works: %s cannot be read (%s)", self._path, error)
            aside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.broken")
            with contextlib.suppress(OSError):
                self._path.rename(aside)  # or the next token that is made would replace it
            return {}

    async def _change(self, change: Callable[[dict[str, AgentToken]], object]) -> None:
        """Change the tokens in the file as they are now: another server may have changed them."""

        def in_file() -> None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path):
                tokens = self._load()
                change(tokens)
                rows = [asdict(each) for each in tokens.values()]
                _write(self._path, json.dumps(rows, indent=1))

        await asyncio.to_thread(in_file)
        self._stamp = ()
        _ = self._tokens  # reads them, and ends what others have revoked meanwhile


def _token(row: dict[str, Any]) -> AgentToken:
    token = replace(AgentToken(**row), paths=tuple(row["paths"]))
    Level[token.permission]  # or it is refused here, and not with the first call
    return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Meanwhile, no other server changes a file; blocks until they are done with it."""
    # A file beside it, which stays: the one itself is replaced.
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which releases it


def _write(path: Path, text: str) -> None:
    """Replace a file at once by one that only its owner can read."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
