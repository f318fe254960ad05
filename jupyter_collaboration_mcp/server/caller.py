"""Who is behind a request, as the transport learnt it, and what its URL asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ..documents.foreign_text import did_you_mean
from ..errors import InvalidArgument
from ..tools import toolset_names
from ..workspace.permissions import NO_RULES, Level, PathRules
from ..workspace.permits import Authorizer

#: Where the transport leaves the caller in the ASGI scope.
SCOPE_KEY = "jupyter_collaboration_mcp.caller"

#: What the query string of a connection's URL may have in it.
QUERY_PARAMETERS = ("agent", "toolsets", "permission", "structured", "mode")

#: What a connection may do with documents: edit them, or only propose edits.
_MODES = ("edit", "propose")

_SWITCH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What a connection's URL asks for. It can only narrow what an agent may do."""

    agent: str | None = None
    """The agent's name."""
    toolsets: Sequence[str] = ()
    """Comma-separated choices; a tool has to be in each of them."""
    permission: Level | None = None
    """The most that it may do; None: as much as is configured."""
    structured: bool | None = None
    """Whether answers also have their facts as JSON; None: as is configured."""
    proposes: bool = False
    """Whether its edits go to forks; otherwise it is as is configured."""

    @classmethod
    def parse(cls, query: Mapping[str, Sequence[str]]) -> Self:
        """What a query string asks for.

        Raises:
            InvalidArgument: A part of it makes no sense. Ignoring a misspelt limit would give the
                connection full power.
        """
        for name in query:
            if name not in QUERY_PARAMETERS:
                known = ", ".join(QUERY_PARAMETERS)
                raise InvalidArgument(
                    f"The URL has an unknown query parameter, {name[:40]!r}.",
                    f"{did_you_mean(name, QUERY_PARAMETERS)}Known parameters: {known}.",
                )
        given = {name: [value.strip() for value in values] for name, values in query.items()}
        for name in ("toolsets", "permission", "structured", "mode"):
            if not all(given.get(name, ())):
                raise InvalidArgument(
                    f"The query parameter {name!r} of the URL is empty.",
                    "Give it a value, or leave it out.",
                )
        toolsets = tuple(given.get("toolsets", ()))
        for choice in toolsets:
            toolset_names(choice)
        permission = min(map(Level.named, given.get("permission", ())), default=None)
        return cls(
            _only(filter(None, given.get("agent", ()))),
            toolsets,
            permission,
            _parse_switch(given.get("structured", ())),
            "propose" in _parse_modes(given.get("mode", ())),
        )


def _only(given: filter[str]) -> str | None:
    """The name of the agent. Two would share what belongs to one of them."""
    names = list(dict.fromkeys(given))
    if len(names) > 1:
        shown = ", ".join(f"{name[:40]!r}" for name in names[:4])
        raise InvalidArgument(f"The URL names several agents: {shown}.", "Leave one ?agent= in it.")
    return names[0] if names else None


def _parse_modes(given: Sequence[str]) -> list[str]:
    for value in given:
        if value.lower() not in _MODES:
            raise InvalidArgument(
                f"The query parameter 'mode' of the URL is {value[:40]!r}.",
                f"Give {' or '.join(_MODES)}.",
            )
    return [value.lower() for value in given]


def _parse_switch(given: Sequence[str]) -> bool | None:
    for value in given:
        if value.lower() not in _SWITCH:
            raise InvalidArgument(
                f"The query parameter 'structured' of the URL is {value[:40]!r}.",
                "Give true or false.",
            )
    return _SWITCH[given[-1].lower()] if given else None


def at_once(work: Callable[[], None]) -> None:
    """Do something that need not delay an answer, where nobody knows when an answer leaves."""
    work()


@dataclass(frozen=True, slots=True)
class Caller:
    """The credential and the wishes that came with one request; never the token itself."""

    credential: str
    """`token:server`, `token:<hash>`, `agent:<id>` of an agent's own token, `user:<name>` or, on a
    JupyterHub, `service:<name>`: stable for one person, safe to log."""
    options: ConnectionOptions
    authorize: Authorizer
    by_path: bool = False
    """Whether the authorizer may decide otherwise for another path."""
    rules: PathRules = NO_RULES
    """What the caller's own token allows, beside what the server does."""
    bound: bool = False
    """Whether the caller is there as long as this process is, and never leaves without a word."""
    reached: str = ""
    """The URL that the client has used, as far as it says; empty over stdio."""
    after_answer: Callable[[Callable[[], None]], None] = at_once
    """Takes what need not delay the answer to this request, and does it when that has left."""

    @classmethod
    def stdio(cls) -> Self:
        """Whoever has started this process and speaks to it over stdio."""
        return cls("local", ConnectionOptions(), allow_all, bound=True)


async def allow_all(action: str, resource: str, path: str | None) -> bool:
    """The authorizer of the command, because each Jupyter server decides by itself what it allows;
    and of a server that allows everything to everybody it lets in."""
    return True
