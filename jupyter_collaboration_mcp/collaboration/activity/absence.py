"""What happened in a document while an agent was away, in one or two sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...documents.foreign_text import NAME, first_of, inline, quoted
from .activity import Activity, how_many

#: People and agents that are named, and cells of each.
_ACTORS, _CELLS = 5, 5

_VERBS: Mapping[str, str] = {
    "inserted": "inserted",
    "deleted": "deleted",
    "moved": "moved",
    "edited": "edited",
    "outputs": "changed the outputs of",
    "metadata": "changed the metadata of",
    "ran": "ran",
}

#: What says less than that a cell was inserted or deleted.
_LESSER = ("edited", "outputs", "metadata", "moved", "ran")


@dataclass(frozen=True, slots=True)
class Absence:
    """What others did between an agent's last look at a document and its return."""

    since: int
    """When the agent last looked, in milliseconds."""
    activities: Sequence[Activity]

    def describe(self, label: Callable[[str], str]) -> str:
        """Who changed which cells, and how much; empty if nobody is known to have.

        Args:
            label: Returns how to show a cell with a given id.
        """
        by_actor: dict[tuple[str, str], list[Activity]] = {}
        for activity in self.activities:
            by_actor.setdefault((activity.actor_id, activity.actor), []).append(activity)
        if not by_actor:
            return ""
        said = [_done_by(activities, label) for activities in list(by_actor.values())[:_ACTORS]]
        more = len(by_actor) - _ACTORS
        others = f"; and {more} more did something" if more > 0 else ""
        return f"While you were away since {_clock(self.since)}: {'; '.join(said)}{others}."


def _done_by(activities: Sequence[Activity], label: Callable[[str], str]) -> str:
    """What one person or agent did."""
    first = activities[0]
    name = _name(first.actor) if first.actor else "somebody"
    cells: dict[str, dict[str, None]] = {}
    counts: dict[str, int] = {}
    added = removed = 0
    for activity in activities:
        changes = _changes(activity)
        for verb, ids in changes.items():
            cells.setdefault(verb, {}).update(dict.fromkeys(ids))
        unnamed = activity.cell_count - len(activity.cells)
        if unnamed > 0 and changes:
            verb = next(iter(changes))
            counts[verb] = counts.get(verb, 0) + unnamed
        added += _number(activity.metadata.get("added"))
        removed += _number(activity.metadata.get("removed"))
    gone = {*cells.get("inserted", ()), *cells.get("deleted", ())}
    for verb in _LESSER:
        if verb in cells:
            cells[verb] = {cell: None for cell in cells[verb] if cell not in gone}
    parts = [
        f"{_VERBS.get(verb, verb)} {_named(list(ids), counts.get(verb, 0), label)}"
        for verb, ids in cells.items()
        if ids
    ]
    amount = f" ({_amount(added, removed)})" if added or removed else ""
    who = f"{name} (agent)" if first.agent else name
    return f"{who} {', '.join(parts) or 'changed something'}{amount}"


def _name(name: str) -> str:
    """A name that cannot be mistaken for the next part of the sentence."""
    return quoted(name, NAME) if ";" in name else inline(name)


def _changes(activity: Activity) -> Mapping[str, Sequence[str]]:
    """The cells of an activity by what happened to them."""
    changes = activity.metadata.get("changes")
    if isinstance(changes, Mapping):
        return {str(verb): [str(cell) for cell in cells] for verb, cells in changes.items()}
    verb = {"run": "ran", "outputs": "outputs"}.get(activity.kind, "edited")
    return {verb: activity.cells} if activity.cells else {}


def _named(ids: Sequence[str], unnamed: int, label: Callable[[str], str]) -> str:
    shown = ", ".join(first_of(label(cell) for cell in ids[:_CELLS]))
    more = len(ids) - min(len(ids), _CELLS) + unnamed
    return f"{shown} and {more:,} more" if more else shown


def _amount(added: int, removed: int) -> str:
    parts = [f"{how_many(added, 'character')} added"] if added else []
    parts += [f"{removed:,} removed" if added else f"{how_many(removed, 'character')} removed"] * (
        removed > 0
    )
    return ", ".join(parts)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _clock(milliseconds: int) -> str:
    """A moment as a person says it; with the day if it was another one."""
    then, today = time.gmtime(milliseconds / 1000), time.gmtime()
    form = "%H:%M UTC" if then[:3] == today[:3] else "%Y-%m-%d %H:%M UTC"
    return time.strftime(form, then)
