"""What a run puts out, on its way into a shared cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Array, Doc, Map, Text

from jupyter_collaboration_mcp.documents.output_log import OutputLimits, OutputLog, Overflow
from tests.harness.growth import growth

from .test_screen import as_shown

Output = dict[str, Any]

TEXTS = st.text(st.sampled_from("ab\n\r\bé€😀e\u0301\ud83d"), min_size=1, max_size=12)
PLAIN = st.text(st.sampled_from("ab\né€😀"), min_size=1, max_size=12)
VALUES = st.one_of(
    st.text(st.sampled_from("ab\né€😀\ud83d"), max_size=5),
    st.integers(),
    st.floats(),
    st.lists(st.one_of(st.integers(), st.none(), st.booleans()), max_size=3),
)

NAMES = st.sampled_from(["stdout", "stderr"])
IDS = st.sampled_from(["one", "two"])


def notice(index: int, said: str) -> str:
    return f"[{index}: {said}]"


def new_log(stream: int = 10_000, rich: int = 10_000, count: int = 1_000) -> OutputLog:
    return OutputLog(OutputLimits(stream, rich, count), notice)


def display(value: Any, kind: str = "display_data") -> Output:
    return {"output_type": kind, "data": {"text/plain": value}, "metadata": {}}


class Cell:
    """A cell's outputs in a shared document, and the bytes of each change of them."""

    def __init__(self) -> None:
        self.doc: Doc[Any] = Doc()
        self.outputs: Array[Any] = self.doc.get("outputs", type=Array)
        self.updates: list[int] = []
        self.doc.observe(lambda event: self.updates.append(len(event.update)))

    def show(self, log: OutputLog) -> list[Any]:
        with self.doc.transaction():
            log.write(self.outputs)
        return self.shown()

    def shown(self) -> list[Any]:
        outputs: list[Any] = self.outputs.to_py() or []
        return outputs

    def texts(self) -> list[str]:
        return [output.get("text", "") for output in self.shown()]


def expected(log: OutputLog, ended: bool = False) -> list[Output]:
    """The log's outputs with the line that stands for what is left out."""
    outputs = log.outputs()
    for index, output in enumerate(outputs):
        if (cut := output.pop("cut", None)) is not None:
            size = cut["length"]
            named = f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"
            line = notice(index, f"{named} in all" if ended else "still running")
            start = "" if output["text"][-1:] in ("", "\n") else "\n"
            output["text"] += f"{start}{line}\n"
    return outputs


def storable(value: Any) -> Any:
    """As JavaScript would have it."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if type(value) is int and abs(value) >= 2**53:
        return float(value)
    return value


class Model:
    """The same as a log, without limits and without haste."""

    def __init__(self) -> None:
        self.outputs: list[tuple[Output, str | None]] = []
        self.wait = False

    def print(self, name: str, text: str) -> None:
        self._come()
        if not self.outputs or self.outputs[-1][0].get("name") != name:
            self.outputs.append(({"output_type": "stream", "name": name, "raw": ""}, None))
        self.outputs[-1][0]["raw"] += text

    def add(self, value: Any, display_id: str | None) -> None:
        self._come()
        self.outputs.append((display(storable(value)), display_id))

    def update(self, display_id: str, value: Any) -> bool:
        found = [output for output, its in self.outputs if its == display_id]
        for output in found:
            output["data"] = {"text/plain": storable(value)}
        return bool(found)

    def clear(self, wait: bool) -> None:
        self.wait = self.wait or wait
        if not wait:
            self._clear()

    def _come(self) -> None:
        if self.wait:
            self._clear()

    def _clear(self) -> None:
        self.outputs, self.wait = [], False

    def plain(self) -> list[Output]:
        plain = [dict(output) for output, _ in self.outputs]
        for output in plain:
            if "raw" in output:
                output["text"] = as_shown(storable(output.pop("raw")))
        return plain


STEPS = st.one_of(
    st.tuples(st.just("print"), NAMES, TEXTS),
    st.tuples(st.just("print"), st.just("stdout"), TEXTS),
    st.tuples(st.just("add"), VALUES, st.none() | IDS),
    st.tuples(st.just("update"), IDS, VALUES),
    st.tuples(st.just("clear"), st.booleans()),
    st.tuples(st.just("write")),
)


def play(step: Sequence[Any], log: OutputLog, model: Model) -> None:
    match step:
        case ("print", name, text):
            log.print(name, text)
            model.print(name, text)
        case ("add", value, display_id):
            log.add(display(value), 10, display_id)
            model.add(value, display_id)
        case ("update", display_id, value):
            data = {"text/plain": value}
            assert log.update(display_id, data, {}, 10) is model.update(display_id, value)
        case ("clear", wait):
            log.clear(wait)
            model.clear(wait)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25))
def test_the_cell_shows_the_output(steps: list[Sequence[Any]]) -> None:
    log, model, cell = new_log(), Model(), Cell()
    for step in steps:
        play(step, log, model)
        assert log.outputs() == model.plain()
        if step[0] == "write":
            assert cell.show(log) == model.plain()
            assert not log.changed
    log.end()
    assert cell.show(log) == model.plain()


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25), st.integers(0, 40), st.integers(0, 60), st.integers(1, 6))
def test_a_document_never_exceeds_its_output_limits(
    steps: list[Sequence[Any]], stream: int, rich: int, count: int
) -> None:
    log, cell = new_log(stream, rich, count), Cell()
    for step in steps:
        match step:
            case ("update", display_id, value):
                log.update(display_id, {"text/plain": value}, {}, 10)
            case _:
                play(step, log, Model())
        if step[0] == "write":
            assert cell.show(log) == expected(log)
    log.end()
    shown = cell.show(log)
    assert shown == expected(log, ended=True)
    assert sum(len(output.get("text", "")) for output in log.outputs()) <= stream
    assert len(shown) <= count + 2


@settings(max_examples=200)
@given(st.lists(st.tuples(NAMES, PLAIN, st.booleans()), max_size=20), st.integers(0, 60))
def test_everything_printed_is_in_the_document_or_in_a_side_file(
    prints: list[tuple[str, str, bool]], limit: int
) -> None:
    log, cell, files = new_log(limit), Cell(), Files()
    for name, text, write in prints:
        log.print(name, text)
        if write:
            cell.show(log)
            files.keep(log)
    log.end()
    cell.show(log)
    files.keep(log)
    whole = "".join(text for _, text, _ in prints)
    cut = [index for index in range(len(log)) if log.is_aside(index)]
    if len(whole) <= limit:
        assert cut == []
        assert "".join(cell.texts()) == whole
    else:
        assert files.content == {cut[0]: whole}
        assert log.outputs()[cut[0]]["cut"]["length"] == len(whole)
        assert log.outputs()[cut[0]]["cut"]["lines"] == whole.count("\n")
        assert whole.endswith(log.outputs()[cut[0]]["cut"]["tail"])
    assert log.length == len(whole)


class Files:
    """Where overflow is kept, as the side files keep it."""

    def __init__(self) -> None:
        self.content: dict[int, Any] = {}

    def keep(self, log: OutputLog) -> list[Overflow]:
        parts = log.overflow()
        for part in parts:
            if part.begins:
                self.content[part.index] = part.content
            else:
                self.content[part.index] += part.content
        assert log.overflow() == []
        return parts


# -- small changes ---------------------------------------------------------------------------


def test_the_cost_of_a_change_depends_only_on_what_is_new() -> None:
    log, cell = new_log(10_000_000), Cell()
    log.print("stdout", "é" * 100_000 + "\n" + " 10% |█")
    cell.show(log)
    log.print("stdout", "\r 10% |██")
    cell.show(log)
    log.print("stdout", "\nmore")
    cell.show(log)
    assert len(cell.updates) == 3
    assert max(cell.updates[1:]) < 100


def test_output_without_news_causes_no_change() -> None:
    log, cell = new_log(), Cell()
    log.print("stdout", "\r 10%")
    log.add(display("a"), 10)
    cell.show(log)
    log.print("stdout", "x")
    cell.show(log)
    log.print("stdout", "\bx")
    assert len(cell.updates) == 2
    assert log.changed
    cell.show(log)
    log.end()
    cell.show(log)
    assert len(cell.updates) == 2


def test_two_equal_displays_stay_separate() -> None:
    log, cell = new_log(rich=100), Cell()
    for _ in range(2):
        log.add(display("same"), 10, "same")
    cell.show(log)
    assert log.update("same", {"text/plain": "large"}, {}, 1000)
    assert [part.index for part in log.overflow()] == [0, 1]
    assert [output["data"]["text/plain"] for output in cell.show(log)] == [
        "[0: text/plain, 1.0 kB]",
        "[1: text/plain, 1.0 kB]",
    ]


# -- too large -------------------------------------------------------------------------------


def test_the_truncation_notice_is_correct_in_the_end() -> None:
    log, cell = new_log(stream=10), Cell()
    log.print("stdout", "héé\n")
    cell.show(log)
    log.print("stdout", "0123456789")
    assert cell.show(log)[0]["text"] == "héé\n012345\n[0: still running]\n"
    log.print("stdout", "x" * 2000)
    log.print("stderr", "y")
    cell.show(log)
    log.end()
    assert [output["text"] for output in cell.show(log)] == [
        "héé\n012345\n[0: 2.0 kB in all]\n",
    ]


def test_a_progress_bar_that_grows_beyond_the_limit_is_cut_there() -> None:
    log, cell = new_log(stream=10), Cell()
    log.print("stdout", "one\n")
    log.print("stdout", "12\r3456789\rab")
    assert cell.show(log)[0]["text"] == "one\nab5678\n[0: still running]\n"
    assert log.overflow() == [Overflow(0, "one\nab56789", begins=True)]


def test_a_restarted_text_is_kept_from_its_beginning() -> None:
    log, files = new_log(stream=5), Files()
    log.print("stdout", "first of all")
    files.keep(log)
    log.clear(wait=True)
    log.print("stdout", "second")
    assert [part.begins for part in files.keep(log)] == [True]
    log.print("stdout", " and third")
    assert [part.begins for part in files.keep(log)] == [False]
    assert files.content == {0: "second and third"}
    log.clear(wait=False)
    log.print("stdout", "tiny")
    assert not log.is_aside(0)


def test_output_cleared_before_it_was_kept_is_dropped() -> None:
    log = new_log(stream=5, rich=5)
    log.print("stdout", "first of all")
    log.add(display("large"), 1000)
    log.clear(wait=False)
    assert log.overflow() == []
    assert log.outputs() == []


def test_a_large_display_is_replaced_by_a_notice() -> None:
    log, cell = new_log(rich=1000), Cell()
    large = {**display("x" * 2000), "data": {"text/html": "<b>", "we\nird": "x" * 2000}}
    log.add(large, 2040)
    log.add(display("small"), 10)
    shown = cell.show(log)
    assert shown[0] == display("[0: text/html, we_ird, 2.0 kB]")
    assert shown[1] == display("small")
    assert log.overflow() == [Overflow(0, large)]
    assert (log.is_aside(0), log.is_aside(1), log.is_aside(2)) == (True, False, False)


def test_a_display_that_becomes_small_again_is_shown() -> None:
    log, cell = new_log(rich=1000), Cell()
    log.add(display("a"), 600, "id")
    log.add(display("b"), 600, "other")
    assert [log.is_aside(0), log.is_aside(1)] == [False, True]
    log.update("id", {"text/plain": "c"}, {}, 100)
    log.update("other", {"text/plain": "d"}, {}, 900)
    assert log.overflow() == []
    assert cell.show(log) == [display("c"), display("d")]


def test_an_error_is_kept_even_beyond_the_limit() -> None:
    log, cell = new_log(rich=1000), Cell()
    log.add(display("a"), 1000)
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["line"]}
    log.add(error, 5000)
    log.add({**error, "evalue": "v" * 200_000}, 200_000)
    shown = cell.show(log)
    assert shown[1] == error
    assert shown[2] == {
        **error,
        "evalue": "v" * 1000,
        "traceback": ["[2: an error, 200.0 kB]"],
    }


def test_the_number_of_outputs_is_limited() -> None:
    log, cell = new_log(count=10), Cell()
    for number in range(1000):
        log.print("stdout", f"{number}\n")
        log.add(display(number), 10)
        log.print("stderr", "!")
    log.end()
    shown = cell.show(log)
    assert len(shown) == 11
    assert shown[-1]["data"]["text/plain"].startswith("[There were more outputs")
    assert "997 more" in shown[-1]["data"]["text/plain"]
    assert log.outputs()[9]["cut"]["lines"] == 1000


# -- what a document cannot hold --------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (10**30, 1e30),
        (-(2**63) - 1, -(2.0**63)),
        (2**60 + 1, 2.0**60),
        (10**400, None),
        (float("nan"), None),
        ([float("-inf"), {"\ud83d": "\ude00"}], [None, {"?": "?"}]),
        ({"a": {"b": [1, True, None, 0.5]}}, {"a": {"b": [1, True, None, 0.5]}}),
    ],
)
def test_values_are_stored_as_javascript_would_read_them(value: Any, shown: Any) -> None:
    log, cell = new_log(), Cell()
    output = {**display("x"), "data": {"application/json": value}}
    log.add(output, 10, "id")
    assert cell.show(log)[0]["data"]["application/json"] == shown
    log.update("id", {"application/json": [value]}, {}, 10)
    assert cell.show(log)[0]["data"]["application/json"] == [shown]


def test_an_output_that_is_nested_too_deeply_is_replaced_by_a_message() -> None:
    log, cell = new_log(), Cell()
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    log.add(display(value), 10)
    assert "nested too deeply" in cell.show(log)[0]["data"]["text/plain"]


# -- other people ----------------------------------------------------------------------------


@contextmanager
def somebody(cell: Cell) -> Iterator[Array[Any]]:
    with cell.doc.transaction(origin="somebody"):
        yield cell.outputs


def test_output_continues_after_somebody_cleared_the_cell() -> None:
    log, cell = new_log(), Cell()
    log.print("stdout", "one ")
    log.add(display("a"), 10, "id")
    log.print("stdout", "tw")
    cell.show(log)
    log.print("stdout", "o ")
    with somebody(cell) as outputs:
        outputs.clear()
    log.add(display("b"), 10)
    log.update("id", {"text/plain": "late"}, {}, 10)
    log.print("stdout", "three ")
    assert cell.show(log) == [
        {"output_type": "stream", "name": "stdout", "text": "o "},
        display("b"),
        {"output_type": "stream", "name": "stdout", "text": "three "},
    ]
    log.print("stdout", "four")
    assert cell.show(log)[2]["text"] == "three four"
    assert [output.get("text") for output in log.outputs()] == [
        "one ", None, "two ", None, "three four",
    ]  # fmt: skip


def test_a_progress_bar_continues_after_somebody_cleared_the_cell() -> None:
    log, cell = new_log(), Cell()
    log.print("stdout", "start\n 10% é")
    cell.show(log)
    with somebody(cell) as outputs:
        outputs.clear()
    log.print("stdout", "\r 11% é")
    assert cell.show(log)[0]["text"] == " 11% é"
    log.print("stdout", "\r 12% é")
    assert cell.show(log)[0]["text"] == " 12% é"
    log.print("stdout", "!\nend")
    assert cell.show(log)[0]["text"] == " 12% é!\nend"
    assert len(cell.shown()) == 1


def test_a_redrawn_line_is_shown_from_its_beginning() -> None:
    log, cell = new_log(), Cell()
    log.print("stdout", "start\n 10%")
    cell.show(log)
    with somebody(cell) as outputs:
        outputs.clear()
    log.print("stdout", " é")
    assert cell.show(log)[0]["text"] == " é"
    log.print("stdout", "\r 20%")
    assert cell.show(log)[0]["text"] == " 20% é"
    log.print("stdout", " é!")
    assert cell.show(log)[0]["text"] == " 20% é!"


def test_output_grows_in_place_when_somebody_changes_other_outputs() -> None:
    log, cell = new_log(), Cell()
    log.add(display("a"), 10, "id")
    log.print("stdout", "one")
    cell.show(log)
    with somebody(cell) as outputs:
        outputs.insert(0, Map(display("theirs")))
        outputs.append(Map(display("theirs too")))
        outputs[1] = Map(display("instead of a"))
    log.update("id", {"text/plain": "late"}, {}, 10)
    log.print("stdout", " two")
    log.add(display("b"), 10)
    assert cell.show(log) == [
        display("theirs"),
        display("instead of a"),
        {"output_type": "stream", "name": "stdout", "text": "one two"},
        display("theirs too"),
        display("b"),
    ]


def test_outputs_that_are_not_maps_do_no_harm() -> None:
    log, cell = new_log(), Cell()
    log.add(display("a"), 10, "id")
    log.print("stdout", "one")
    cell.show(log)
    with somebody(cell) as outputs:
        outputs.insert(1, display("a plain object"))
        outputs.append(display("another"))
    log.update("id", {"text/plain": "b"}, {}, 10)
    log.print("stdout", " two")
    log.end()
    assert cell.show(log) == [
        display("b"),
        display("a plain object"),
        {"output_type": "stream", "name": "stdout", "text": "one two"},
        display("another"),
    ]


def test_a_foreign_output_of_the_same_length_is_left_alone() -> None:
    log, cell = new_log(), Cell()
    log.print("stdout", "aé")
    log.add(display("a"), 10, "id")
    cell.show(log)
    theirs = {"output_type": "stream", "name": "stdout", "text": "éa"}
    with somebody(cell) as outputs:
        outputs[0] = Map({**theirs, "text": Text("éa")})
        outputs[1] = Map(display("b"))
    log.update("id", {"text/plain": "late"}, {}, 10)
    log.end()
    assert cell.show(log) == [theirs, display("b")]


def test_output_continues_in_the_copy_that_a_move_creates() -> None:
    log, cell, moved = new_log(30), Cell(), Cell()
    log.print("stdout", "start\n 10% é")
    log.add(display(2**60), 10, "id")
    log.add(display("a"), 10)
    log.print("stderr", " 10% é")
    copies = cell.show(log)
    with somebody(moved) as outputs:
        for copy in copies:
            shared = {**copy, "text": Text(copy["text"])} if "text" in copy else copy
            outputs.append(Map(shared))
    log.update("id", {"text/plain": "b"}, {}, 10)
    log.print("stderr", "\r 20% é " + "x" * 20)
    log.end()
    assert moved.show(log) == expected(log, ended=True)
    assert len(moved.shown()) == 4


def test_a_finished_run_does_not_touch_the_output_of_another_run() -> None:
    log, cell = new_log(), Cell()
    log.add(display("a"), 10, "id")
    log.end()
    cell.show(log)
    with somebody(cell) as outputs:  # who ran the cell again, with the same result
        outputs.clear()
        outputs.append(Map(display("a")))
    assert log.update("id", {"text/plain": "b"}, {}, 10)
    assert cell.show(log) == [display("a")]


@pytest.mark.parametrize("what", ["moved", "cleared", "run again", "same again", "added to"])
def test_a_finished_run_knows_whether_a_cell_still_shows_it(what: str) -> None:
    log, cell = new_log(), Cell()
    assert log.is_still_in(cell.outputs, moved=False)
    log.print("stdout", "one")
    log.add(display("a"), 10)
    log.end()
    copies = cell.show(log)
    with somebody(cell) as outputs:
        if what == "added to":
            outputs.append(Map(display("theirs")))
        else:
            outputs.clear()
        if what in ("moved", "same again"):
            outputs.extend([Map({**copies[0], "text": Text("one")}), Map(copies[1])])
        elif what == "run again":
            outputs.append(Map({**copies[0], "text": Text("two")}))
    still = what in ("moved", "added to")
    assert log.is_still_in(cell.outputs, moved=what == "moved") is still
    if still:
        log.print("stdout", "late")
        assert cell.show(log)[-1]["text"] == "late"


def test_late_output_beyond_the_limit_is_announced_once() -> None:
    log, cell, files = new_log(stream=10, count=2), Cell(), Files()
    log.print("stdout", "0123456789ab")
    for name in "abc":
        log.add(display(name), 10)
    log.end()
    files.keep(log)
    text, _, dropped = cell.show(log)
    assert text["text"] == "0123456789\n[0: 12 B in all]\n"
    assert "2 more were left out" in str(dropped)
    for number in range(3):
        log.print("stderr", "late")
        log.add(display("late"), 10)
        files.keep(log)
        text, _, dropped = cell.show(log)
        assert text["text"] == "0123456789\n[0: more came after the end of the run]\n"
        assert "more are left out" in str(dropped)
        assert len(cell.updates) == 2, number
    assert files.content[0] == "0123456789ab" + 3 * "late"
    log.clear(wait=False)
    log.print("stdout", "anew")
    assert [output["text"] for output in cell.show(log)] == ["anew"]


SOMEBODY = st.one_of(
    st.tuples(st.just("print"), NAMES, st.sampled_from(["", "\n", "\r", "é😀"])),
    st.tuples(st.just("add"), st.none() | IDS),
    st.tuples(st.just("update"), IDS),
    st.tuples(st.just("write")),
    st.tuples(st.just("cleared")),
    st.tuples(st.just("removed"), st.integers(0, 5)),
    st.tuples(st.just("inserted"), st.integers(0, 5)),
    st.tuples(st.just("replaced"), st.integers(0, 5)),
)


@settings(max_examples=400)
@given(st.lists(SOMEBODY, max_size=30))
def test_no_output_is_duplicated_or_lost_whatever_people_do(steps: list[Sequence[Any]]) -> None:
    log, cell = new_log(), Cell()
    theirs: set[str] = set()
    late: set[str] = set()  # printed or added since people last did something

    def position(number: int) -> int:
        return number % len(cell.outputs)

    for number, step in enumerate(steps):
        word = f"<{number}>"
        match step:
            case ("print", name, ending):
                log.print(name, word + ending)
                if ending != "\r":  # otherwise it may be overwritten
                    late.add(word)
            case ("add", display_id):
                log.add(display(word), 10, display_id)
                if display_id is None:
                    late.add(word)
            case ("update", display_id):
                log.update(display_id, {"text/plain": f"<{number}>"}, {}, 10)
            case ("write",):
                cell.show(log)
            case _:
                late.clear()
                with somebody(cell) as outputs:
                    if step[0] == "cleared":
                        outputs.clear()
                        theirs.clear()
                    elif step[0] == "inserted" or not len(outputs):
                        outputs.insert(min(step[-1], len(outputs)), Map(display(word)))
                        theirs.add(word)
                    else:
                        gone = cell.shown()[position(step[1])].get("data", {})
                        theirs -= {gone.get("text/plain")}
                        if step[0] == "removed":
                            del outputs[position(step[1])]
                        else:
                            outputs[position(step[1])] = Map(display(word))
                            theirs.add(word)
    log.end()
    shown = cell.show(log)
    everything = "".join(
        output["text"] if "text" in output else output["data"]["text/plain"] for output in shown
    )
    words = re.findall(r"<\d+>", everything)
    in_streams = "".join(output.get("text", "") for output in shown)
    printed = re.findall(r"<\d+>", in_streams)
    assert len(printed) == len(set(printed))
    assert theirs <= set(words)
    assert all(words.count(word) == 1 for word in theirs)
    assert late <= set(words) | overwritten(log)


def overwritten(log: OutputLog) -> set[str]:
    """Words that are not on the screen any more."""
    there = "".join(output.get("text", "") for output in log.outputs())
    return {f"<{number}>" for number in range(40) if f"<{number}>" not in there} - {
        output["data"]["text/plain"] for output in log.outputs() if "data" in output
    }


# -- speed -----------------------------------------------------------------------------------


def test_many_prints_take_linear_time() -> None:
    line = "x" * 38 + "é\n"

    def print_lines(count: int) -> None:
        log, cell = new_log(10_000_000), Cell()
        for number in range(1, count + 1):
            log.print("stdout", line)
            if number % 1000 == 0:
                cell.show(log)
        assert len(cell.texts()[0]) == 40 * count

    assert growth(print_lines, 10_000) < 10


@pytest.mark.parametrize("text", ["x" * 39 + "\n", "é"])
def test_one_large_print_takes_linear_time(text: str) -> None:
    def print_once(size: int) -> None:
        log, cell = OutputLog(OutputLimits(), notice), Cell()
        log.print("stdout", text * (size // len(text)))
        assert len(cell.show(log)[0]["text"]) < 1_000_100

    assert growth(print_once, 2_500_000) < 10
