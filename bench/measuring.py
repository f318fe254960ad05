"""How everything here is measured: round after round beside its floor, reported as a row."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

Call = Callable[[], Awaitable[object]]

#: Seconds of rest before each call. An edit leaves work behind (the collaboration store's write,
#: after the answer); without a rest the next call, often a floor, would pay for it. With a longer
#: one (8 ms was tried) the cores fall asleep: both get slower, and the ratio looks better.
REST = 0.002


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    calls: int = 200
    warm_up: int = 20
    cells: tuple[int, ...] = (10, 1_000, 10_000)
    """Of the notebooks that are edited, from the smallest to the largest."""
    rounds: int = 10
    """Of many agents at once."""
    files: int = 20_000
    """Of the tree that is listed."""
    starts: int = 7
    """Of a Jupyter server, with and without the extension each."""
    intents: int = 30
    """Of an agent's day."""
    users: int = 20
    """Of a JupyterHub."""


FULL = Sizes()
QUICK = Sizes(
    calls=5, warm_up=1, cells=(10, 100, 200), rounds=2, files=500, starts=1, intents=3, users=2
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be."""

    limit: float
    at_least: bool = False

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    bench: str
    case: str
    n: int
    unit: str
    """Of `floor` and `subject`."""
    floor: float | None
    floor_p95: float | None
    subject: float
    subject_p95: float | None
    figure: float
    """What the goal is about: most often `subject / floor`."""
    goal: Goal | None

    @classmethod
    def compare(
        cls,
        bench: str,
        case: str,
        floor: Sequence[float],
        subject: Sequence[float],
        goal: Goal | None,
        unit: str = "ms",
    ) -> Row:
        """The medians of two samples and their ratio."""
        low, high = statistics.median(floor), statistics.median(subject)
        return cls(
            bench,
            case,
            len(subject),
            unit,
            low,
            percentile95(floor),
            high,
            percentile95(subject),
            high / low,
            goal,
        )

    @classmethod
    def absolute(
        cls, bench: str, case: str, sample: Sequence[float], goal: Goal | None, unit: str
    ) -> Row:
        """The median of a sample that has no floor."""
        median = statistics.median(sample)
        p95 = percentile95(sample) if len(sample) > 1 else None
        return cls(bench, case, len(sample), unit, None, None, median, p95, median, goal)

    def as_json(self) -> dict[str, Any]:
        met = None if self.goal is None else self.goal.met_by(self.figure)
        goal = None if self.goal is None else str(self.goal)
        return {**asdict(self), "goal": goal, "met": met}


async def interleave(calls: Mapping[str, Call], sizes: Sizes) -> dict[str, list[float]]:
    """Time calls one after another, in another order each round; in milliseconds."""
    order = list(calls)
    shuffle = random.Random(0).shuffle
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(sizes.warm_up + sizes.calls):
        shuffle(order)
        for name in order:
            await asyncio.sleep(REST)
            start = perf_counter()
            await calls[name]()
            elapsed = perf_counter() - start
            if number >= sizes.warm_up:
                times[name].append(elapsed * 1000)
    return times


def percentile95(sample: Sequence[float]) -> float:
    return sorted(sample)[round(0.95 * (len(sample) - 1))]


_HEADINGS = ("bench", "case", "n", "unit", "floor", "p95", "subject", "p95", "figure", "goal", "")


def table(rows: Sequence[Row]) -> str:
    """Rows as text, in columns."""
    lines = [_HEADINGS, *map(_texts, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in (0, 1, 3, 9, 10) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _texts(row: Row) -> tuple[str, ...]:
    goal = "" if row.goal is None else str(row.goal)
    met = "" if row.goal is None else ("met" if row.goal.met_by(row.figure) else "MISSED")
    numbers = (row.floor, row.floor_p95, row.subject, row.subject_p95, row.figure)
    floor, floor_p95, subject, subject_p95, figure = (
        "" if number is None else f"{number:.2f}" for number in numbers
    )
    return (
        row.bench,
        row.case,
        str(row.n),
        row.unit,
        floor,
        floor_p95,
        subject,
        subject_p95,
        figure,
        goal,
        met,
    )
