"""Runs as an answer: their state and their output, in a size that a model can read.

All toolsets that run something answer with this.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..documents.foreign_text import quoted
from ..documents.handles import brief_id
from ..documents.images import ImageLimits, Picture
from ..documents.output_summary import OutputSummary, summarize
from ..documents.text import size
from ..errors import CollaborationError
from ..execution.run import Run, RunState
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument
from .answers import about, answer, document_of
from .parts import Parts
from .registry import Answer, Link

#: Seconds between two reports of progress.
_REPORT = 5.0

#: Characters for the outputs of one run, and for those of all runs of an answer.
_ONE = 8_000
_ALL = 24_000

#: Characters and bytes of output that are looked at on the event loop.
_LARGE = 200_000

#: Bytes by which an output may exceed its limit.
_ROOM = 500

#: Runs up to which an answer reports each.
_MANY = 8

#: Of more, those that did not go well and are reported in full, and characters of the last output.
_TROUBLED, _LAST = 3, 600

#: Runs whose links an answer gives.
_LINKED = 5

#: Seconds, and the share of the total, from which one of many runs counts as slow.
_SLOW, _SHARE = 1.0, 0.25

#: Places that a line names.
_PLACES = 8

_WORDS = {
    RunState.queued: "queued",
    RunState.working: "running",
    RunState.input_required: "asks for input",
    RunState.completed: "completed",
    RunState.failed: "FAILED",
    RunState.cancelled: "cancelled",
}


@dataclass(frozen=True, slots=True)
class RunWords:
    """What an agent can do about a run, with the names of a toolset's tools.

    `{run}` stands for the id of the run, `{output}` for an output, and `{uri}` for its address.
    """

    whole: str = 'get_run(run_id="{run}", output={output})'
    """Not every client can read a URI; each can call a tool."""
    working: str = "get_run waits, interrupt_notebook_kernel stops it."
    queued: str = "get_run waits, interrupt_notebook_kernel stops what runs."
    asking: str = 'Answer with reply_to_input(run_id="{run}").'
    waiting: str = "get_run waits for it."


@dataclass(slots=True)
class RunReport:
    """The state and the output of some runs, for an answer."""

    lines: list[str] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


class RunAnswers:
    """Waits for runs and answers with their results."""

    def __init__(self, parts: Parts, words: RunWords = RunWords()) -> None:
        self._sites = parts.sites
        self._images = parts.images
        self._words = words

    async def answer(
        self,
        call: Call,
        here: SiteDocument,
        runs: list[Run],
        timeout: float,
        lines: Sequence[str] = (),
        facts: dict[str, Any] | None = None,
    ) -> Answer:
        """Wait for runs and answer with their state, also if the notebook went out of reach.

        Args:
            lines: What the answer begins with.
        """
        await self.wait(call, runs, timeout)
        unseen = []
        try:
            here = await self._current(here)
        except CollaborationError as gone:
            unseen = [f"The notebook itself cannot be read now. {gone.happened}"]
        report = await self.report(runs, here)
        error = next((run.error for run in runs if run.over and run.error is not None), None)
        return answer(
            here,
            [*lines, *report.lines, *unseen],
            {**(facts or about(here)), "runs": report.facts},
            pictures=report.pictures,
            links=report.links,
            error=error,
        )

    async def answer_one(self, run: Run, notes: Sequence[str] = ()) -> Answer:
        """The state of one run, without a look at its notebook."""
        report = await self.report([run])
        facts = {"path": document_of(run), **report.facts[0]}
        if notes:
            facts["notices"] = list(notes)
        error = run.error if run.over else None
        text = "\n".join([*report.lines, *notes])
        return Answer(text, facts, report.pictures, report.links, error)

    async def wait(self, call: Call, runs: Sequence[Run], timeout: float) -> None:
        """Wait until all runs are over or one asks for input, or until the time is up."""
        began = time.monotonic()
        for run in runs:
            while not run.over:
                left = began + timeout - time.monotonic()
                if left <= 0 or run.state is RunState.input_required:
                    return
                if not await run.wait_settled(min(left, _REPORT)):
                    await call.report(time.monotonic() - began, _progress(run))

    async def _current(self, here: SiteDocument) -> SiteDocument:
        """The notebook as it is now, also if its server was restarted meanwhile.

        Raises:
            CollaborationError: It cannot be read.
        """
        return replace(here, peer=await here.site.workspace.peer(here.peer.link.room_id))

    async def report(self, runs: Iterable[Run], here: SiteDocument | None = None) -> RunReport:
        """The state of runs and their output; of many, only what is unusual."""
        every = list(runs)
        report = RunReport()
        if len(every) > _MANY:
            return await self._add_many(every, here, report)
        left = _ALL
        for run in every:
            left -= await self._add_one(run, here, min(_ONE, max(left, 300)), report)
        await self._add_why(every, here, report)
        return report

    async def _add_one(
        self, run: Run, here: SiteDocument | None, length: int, report: RunReport
    ) -> int:
        """A line about a run, and its outputs; returns how many characters these take."""
        name = self._name(run, here)
        facts = _facts(run, name)
        outputs = run.log.outputs()
        made = await self._summary(run, outputs, length, report)
        report.lines += filter(
            None, [" ".join(filter(None, [name.text, _standing(run, self._words)]))]
        )
        if made.text:
            report.lines.append(made.text)
        if run.missing is not None:
            report.lines.append(f"Output is missing. {run.missing}")
        if made.facts:
            facts["outputs"] = made.facts
        report.facts.append(facts)
        report.pictures += made.pictures
        if made.cut and len(report.links) < _LINKED:
            report.links += _links(run, made)
        return size(made.text)

    async def _add_many(
        self, runs: Sequence[Run], here: SiteDocument | None, report: RunReport
    ) -> RunReport:
        """Counts, failed runs in full, and which cells are worth a look."""
        counts = Counter(map(_word, runs))
        spent = sum(run.seconds for run in runs if run.started is not None)
        said = ", ".join(f"{count} {word}" for word, count in counts.items())
        report.lines.append(f"{len(runs)} cells in {spent:.2f} s: {said}.")
        troubled = [run for run in runs if _is_troubled(run)]
        last = next((run for run in reversed(runs) if len(run.log) and run.over), None)
        shown = [*troubled[:_TROUBLED], *([last] if last and last not in troubled else [])]
        facts: dict[str, dict[str, Any]] = {}
        for run in shown:
            await self._add_one(run, here, _ONE if run in troubled else _LAST, report)
            facts[run.id] = report.facts.pop()
        await self._add_why(runs, here, report)
        names = {run.id: self._name(run, here) for run in runs}
        if queued := [run for run in runs if run.state is RunState.queued]:
            place = names[queued[-1].id].text
            report.lines.append(
                f"Last in the queue: {place} as {queued[-1].id}; {self._words.waiting}"
            )
        report.facts += [facts.get(run.id) or _facts(run, names[run.id]) for run in runs]
        for word, chosen in (
            ("More that did not complete", troubled[_TROUBLED:]),
            ("Not run", [run for run in runs if _word(run) == "not run"]),
            ("Slow", [run for run in runs if _is_slow(run, spent)]),
            ("With warnings or stderr", [run for run in runs if _has_stderr(run)]),
            ("With pictures", [run for run in runs if has_pictures(run.log.outputs())]),
            ("With output", [run for run in runs if len(run.log)]),
        ):
            if left := [run for run in chosen if run not in shown]:
                places = _ranges([names[run.id].index for run in left])
                report.lines.append(f"{word}: {places or f'{len(left)} cells'}.")
        return report

    async def _summary(
        self, run: Run, outputs: Sequence[dict[str, Any]], length: int, report: RunReport
    ) -> OutputSummary:
        images = self._images
        if images is not None:
            room = max(0, images.most - len(report.pictures))
            images = ImageLimits(images.width, images.height, images.multiple, room)

        def link(index: int) -> str:
            uri = run.short_uri(index)
            return self._words.whole.format(run=run.id, output=index, uri=uri)

        def make() -> OutputSummary:
            made = summarize(outputs, link=link, max_length=length, images=images)
            if size(made.text) > length + _ROOM:  # it counts characters
                fewer = length * len(made.text) // size(made.text)
                made = summarize(outputs, link=link, max_length=fewer, images=images)
            for facts in made.facts:
                if "uri" in facts:
                    facts["uri"] = run.short_uri(facts["index"])
            return made

        # Pictures are decoded and scaled, and large values read, which takes its time.
        slow = has_pictures(outputs) or run.log.size > _LARGE
        return await asyncio.to_thread(make) if slow else make()

    async def _add_why(
        self, runs: Sequence[Run], here: SiteDocument | None, report: RunReport
    ) -> None:
        """A line about the variables where the last run failed, if the kernel can say."""
        failed = [run for run in runs if run.state is RunState.failed and run.error is None]
        if here is None or not failed:
            return
        found = await here.site.runs.at_failure(here, failed[-1])
        said = [
            " ".join(filter(None, [held.name, held.type, held.shape or held.preview]))
            for held in found
        ]
        if said:
            report.lines.append(f"Variables on the failing line: {quoted('; '.join(said), _ONE)}")

    def _name(self, run: Run, here: SiteDocument | None) -> _Name:
        if run.cell_id is None:
            return _Name("", None)
        peer = here.peer if here is not None else self._sites.peer_of(run.room_id)
        if peer is None or not peer.notebook.has(run.cell_id):
            shown = brief_id(run.cell_id)
            return _Name(f"{shown} (deleted)" if peer is not None else shown, None)
        index = peer.notebook.find(run.cell_id)
        return _Name(peer.notebook.handle(index), index)


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    index: int | None


def _facts(run: Run, name: _Name) -> dict[str, Any]:
    facts: dict[str, Any] = {"run_id": run.id, "state": run.state.value}
    if run.cell_id is not None:
        facts["cell_id"] = run.cell_id
        if name.index is not None:
            facts["index"] = name.index
    if run.count is not None and run.cell_id is not None:
        facts["execution_count"] = run.count
    facts["seconds"] = round(run.seconds, 3)
    if run.prompt is not None:
        facts["prompt"] = run.prompt[:1000]
    if run.missing is not None:
        facts["output_missing"] = run.missing
    if run.reason is not None:
        facts["reason"] = run.reason
    return facts


def _standing(run: Run, words: RunWords) -> str:
    took = f"{run.seconds:.2f} s"
    count = f"In[{run.count}] " if run.count is not None and run.cell_id is not None else ""
    nothing = "" if len(run.log) else ", no output"
    match run.state:
        case RunState.completed if run.seconds < _SLOW:
            return "" if len(run.log) and run.cell_id is None else f"{count}completed{nothing}."
        case RunState.completed:
            return f"{count}completed in {took}{nothing}."
        case RunState.failed:
            return f"{count}FAILED after {took}{nothing}."
        case RunState.cancelled if run.started is None:
            return f"was not run: {run.reason}."
        case RunState.cancelled:
            return f"{count}cancelled after {took}: {run.reason}."
        case RunState.input_required:
            asks = json.dumps((run.prompt or "")[:1000], ensure_ascii=False)
            return f"asks for input: {asks}. {words.asking.format(run=run.id)}"
        case RunState.queued:
            return f"queued for {took} as {run.id}: the kernel is busy. {words.queued}"
        case _:
            return f"still running after {took} as {run.id}. {words.working} Output so far:"


def _word(run: Run) -> str:
    skipped = run.state is RunState.cancelled and run.started is None
    return "not run" if skipped else _WORDS[run.state]


def _is_troubled(run: Run) -> bool:
    return run.missing is not None or _word(run) not in ("completed", "queued", "not run")


def _is_slow(run: Run, spent: float) -> bool:
    return run.started is not None and run.seconds > max(_SLOW, _SHARE * spent)


def _has_stderr(run: Run) -> bool:
    return any(output.get("name") == "stderr" for output in run.log.outputs())


def _ranges(indexes: Sequence[int | None]) -> str:
    """Cells by index, neighbours together; empty if that would be long."""
    ranges: list[list[int]] = []
    for index in indexes:
        if index is None:
            continue
        if ranges and index == ranges[-1][-1] + 1:
            ranges[-1].append(index)
        else:
            ranges.append([index])
    if len(ranges) > _PLACES:
        return ""
    said = [f"[{r[0]}]" if len(r) == 1 else f"[{r[0]}] to [{r[-1]}]" for r in ranges]
    deleted = sum(index is None for index in indexes)
    return ", ".join([*said, *[f"{deleted} deleted since"] * bool(deleted)])


def _progress(run: Run) -> str:
    return (
        f"{run.id} has been {run.state} for {run.seconds:.0f} s, "
        f"{run.log.length:,} characters printed"
    )


def _links(run: Run, made: OutputSummary) -> list[Link]:
    uris = [facts["uri"] for facts in made.facts if "uri" in facts]
    return [Link(uri, "the whole output") for uri in uris[:2]]


def has_pictures(outputs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there is an image among outputs."""
    return any(
        mime.startswith("image/")
        for output in outputs
        if isinstance(data := output.get("data"), dict)
        for mime in data
    )
