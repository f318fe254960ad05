"""Querying several servers at once: one that fails does not hide the answers of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..errors import CollaborationError, InternalError, ServerUnreachable
from .sites import Site

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Characters of an error message about one server.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why one server did not answer."""

    site: Site
    error: CollaborationError

    @property
    def line(self) -> str:
        """One line, to stand beside the answers of the other servers."""
        said = f"{self.site.alias or 'The first server'}: {self.error.happened}"
        return " ".join(said.split())[:_LONGEST]

    @property
    def facts(self) -> dict[str, Any]:
        return {"server": self.site.alias, "code": self.error.code, "message": self.line}


@dataclass(frozen=True, slots=True)
class Survey(Generic[_T]):
    """The answers of servers, in their order."""

    answers: list[tuple[Site, _T]] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """A line for each server that did not answer."""
        return [trouble.line for trouble in self.troubles]

    @property
    def facts(self) -> dict[str, Any]:
        """The same for programs; empty if all servers answered."""
        if not self.troubles:
            return {}
        return {"troubles": [trouble.facts for trouble in self.troubles]}


async def survey(sites: Iterable[Site], ask: Callable[[Site], Awaitable[_T]]) -> Survey[_T]:
    """Query several servers; each has its own time limit, and none waits for another.

    A discovered server that does not answer is left out, and each agent is notified once.

    Raises:
        CollaborationError: None of them answers.
    """
    asked = list(sites)
    if len(asked) == 1:
        await asked[0].rouse()
        return Survey([(asked[0], await ask(asked[0]))])
    said = await asyncio.gather(*(_ask(site, ask) for site in asked))
    answers: list[tuple[Site, _T]] = []
    troubles: list[Trouble] = []
    for site, answer in zip(asked, said, strict=True):
        if isinstance(answer, Trouble):
            troubles.append(answer)
        else:
            site.left_out = False
            answers.append((site, answer))
    if troubles and not answers:
        raise _nobody(troubles)
    for trouble in troubles:
        if trouble.site.found:
            trouble.site.leave_out(trouble.line)
    return Survey(answers, [trouble for trouble in troubles if not trouble.site.found])


async def _ask(site: Site, ask: Callable[[Site], Awaitable[_T]]) -> _T | Trouble:
    try:
        async with asyncio.timeout(site.patience):
            # Do not wait long for a server that nobody named.
            if site.found and (error := await site.trouble()) is not None:
                return Trouble(site, error)
            return await ask(site)
    except CollaborationError as error:
        return Trouble(site, error)
    except TimeoutError:
        return Trouble(
            site,
            ServerUnreachable(
                f"It has not answered within {site.patience:g} s.",
                f"Ask for {site.name('')} alone, or for less.",
                url=site.url,
            ),
        )
    except Exception as error:
        _log.exception("Could not query %s", site.label)
        return Trouble(site, InternalError.of(error))


def _nobody(troubles: list[Trouble]) -> CollaborationError:
    first = troubles[0].error
    lines = " ".join(trouble.line for trouble in troubles)
    return type(first)(f"None of the servers answers. {lines}", first.step, **first.detail)
