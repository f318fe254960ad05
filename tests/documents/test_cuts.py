"""What is shown whole and what is cut: never where the cut saves less than it costs.

`frames.json` has what pandas 3.1 and polars 2.1 display in a kernel, each with its code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents import render
from jupyter_collaboration_mcp.documents.cell_view import CellView
from jupyter_collaboration_mcp.documents.output_summary import OutputSummary, summarize
from jupyter_collaboration_mcp.documents.tables import in_full

FRAMES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "frames.json").read_text(encoding="utf-8")
)

URI = (
    "notebook://7b2a53f0-8a0f-4f2a-9f9d-7f8d7c4f2e11/0b0c3f52-7d0f-41b6-8b4c-2f1e7f0f8c55/cells/"
    "8f2c41d0-4b0e-4c6e-9a51-0123456789ab/outputs/0?run=run-0123456789ab"
)


def summary_of(*outputs: dict[str, Any], max_length: int = 8_000) -> OutputSummary:
    return summarize(outputs, link=lambda _: URI, max_length=max_length)


def frame(name: str) -> dict[str, Any]:
    data = FRAMES[name]["data"]
    return {"output_type": "execute_result", "metadata": {}, "data": data, "execution_count": 1}


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def result(mime: str, value: Any) -> dict[str, Any]:
    return {"output_type": "execute_result", "metadata": {}, "data": {mime: value}}


def failure(*frames: str) -> dict[str, Any]:
    said = "ValueError: no"
    heading = "ValueError          Traceback (most recent call last)"
    lines = ["-" * 75, heading, "Cell In[1], line 1\n----> 1 f()", *frames, said]
    return {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": lines}


def rows(made: OutputSummary) -> list[str]:
    """The lines of a table, without the one that names its columns."""
    return made.text.split("```")[1].strip("\n").split("\n")[1:]


# -- tables ----------------------------------------------------------------------------------


def test_describe_is_shown_whole_and_without_a_link() -> None:
    made = summary_of(frame("describe"))
    assert made.text.startswith("table 8 rows x 3 columns\n```\n\theight\tweight\tage\ncount\t")
    assert [line.split("\t")[0] for line in rows(made)] == [
        "count", "mean", "std", "min", "25%", "50%", "75%", "max",
    ]  # fmt: skip
    assert not made.cut
    assert URI not in made.text


def test_a_table_of_twenty_rows_is_shown_whole() -> None:
    made = summary_of(frame("twenty_rows"))
    assert (len(rows(made)), made.cut) == (20, False)


def test_a_longer_table_is_whole_if_that_is_shorter_than_the_link() -> None:
    made = summary_of(frame("twenty_four_narrow_rows"))
    assert (len(rows(made)), made.cut) == (24, False)


def test_a_table_of_sixty_rows_shows_the_first_five_and_a_link() -> None:
    made = summary_of(frame("sixty_rows"))
    assert made.text.startswith(f"table 60 rows x 3 columns: the first 5 rows; full: {URI}\n")
    assert (len(rows(made)), made.cut) == (5, True)


@pytest.mark.parametrize(("name", "count"), [("five_hundred_rows", 500), ("polars", 30)])
def test_a_large_table_shows_what_the_kernel_sent_if_a_link_would_be_longer(
    name: str, count: int
) -> None:
    made = summary_of(frame(name))
    assert made.text.startswith(f"table {count} rows x ")
    assert ": the first 5 and the last 5 rows; the kernel sent no more" in made.text
    assert [line == "..." for line in rows(made)] == [False] * 5 + [True] + [False] * 5
    assert URI not in made.text


def test_a_wide_table_is_shown_whole_while_its_lines_are_readable() -> None:
    made = summary_of(frame("describe_wide"))
    assert made.text.startswith("table 8 rows x 18 columns\n")
    assert (len(rows(made)), made.cut) == (8, False)


def test_a_wider_table_loses_columns_and_keeps_its_rows() -> None:
    made = summary_of(frame("wide_and_long"))
    assert made.text.startswith(f"table 20 rows x 20 columns: the first 14 columns; full: {URI}\n")
    assert len(rows(made)) == 20
    assert {line.count("\t") for line in rows(made)} == {14}
    assert len(made.text) < 3_500


def test_columns_that_the_kernel_left_out_come_with_a_hint() -> None:
    made = summary_of(frame("fifty_columns"))
    assert made.text.startswith(
        "table 6 rows x 50 columns: 20 of the columns; the kernel sent no more, select others in "
        "code\n"
    )
    assert not made.cut


def read(name: str) -> str:
    """A cell with a table among its outputs, as get_notebook shows it."""
    cell = CellView(0, "a" * 8, "a" * 8, "code", "9ab1c2", "df", 1, "idle", [frame(name)], {})
    return render.source([cell], include_outputs=True, max_length=40_000).text


def test_reading_a_cell_shows_its_table_as_plain_text() -> None:
    assert FRAMES["sixty_rows"]["data"]["text/plain"] in read("sixty_rows")


def test_reading_a_cell_cuts_no_row_of_a_wide_table() -> None:
    text = read("describe_wide")
    assert "table 8 rows x 18 columns\n\tmeasure_0\t" in text
    assert "characters cut" not in text
    assert "\tmeasure_17\ncount\t" in text
    text = read("wide_and_long")
    assert "table 20 rows x 20 columns: the first 9 columns\n\tmeasurement_0\t" in text
    assert "\n19\t" in text


@pytest.mark.parametrize("name", FRAMES)
def test_the_full_output_has_the_plain_text_once(name: str) -> None:
    data = FRAMES[name]["data"]
    assert set(data) == {"text/plain", "text/html"}
    assert in_full(data) == {"text/plain": data["text/plain"]}


@pytest.mark.parametrize(
    ("html", "plain"),
    [
        ("<table class='dataframe'><tr><td>1</td></tr></table>", "<pandas.Styler at 0x7f>"),
        ("<b>a report</b> of many pages", "Report"),
        ("<table class='dataframe'></table><table class='dataframe'></table>", "two"),
    ],
)
def test_html_that_says_more_than_the_text_is_in_the_full_output(html: str, plain: str) -> None:
    data = {"text/html": html, "text/plain": plain}
    assert in_full(data) == data


# -- everything ------------------------------------------------------------------------------


def test_a_library_frame_that_is_shorter_than_the_notice_is_shown() -> None:
    made = summary_of(failure("File /usr/lib/python3.11/x.py:3, in f()\n----> 3 raise"))
    assert not made.cut
    assert "----> 3 raise" in made.text
    assert "-----\n" not in made.text


def test_long_library_frames_are_left_out() -> None:
    library = "File /usr/lib/python3.11/x.py:3, in f()\n" + "      2 # more\n" * 60
    made = summary_of(failure(library + "----> 3 raise"))
    assert made.text.startswith(f"error; full: {URI}\n```\nValueError: no\nCell In[1], line 1\n")


def test_json_that_is_barely_too_long_is_shown_whole() -> None:
    assert not summary_of(result("application/json", ["value"] * 85)).cut
    assert summary_of(result("application/json", ["value"] * 300)).cut


def test_few_short_outputs_are_not_left_out() -> None:
    texts = [f"'{number}'" for number in range(14)]
    made = summary_of(*(result("text/plain", text) for text in texts))
    assert not made.cut
    assert all(text in made.text for text in texts)


@given(
    st.one_of(
        st.builds(lambda n, m: stream(("x" * m + "\n") * n), st.integers(1, 200),
                  st.integers(0, 80)),
        st.builds(lambda n: result("text/plain", "word " * n), st.integers(1, 1_000)),
        st.builds(lambda n: result("application/json", list(range(n))), st.integers(0, 400)),
        st.builds(
            lambda n: failure("File /usr/lib/python3.11/x.py:3, in f()\n" + "   2 more\n" * n),
            st.integers(0, 100),
        ),
        st.sampled_from([frame(name) for name in FRAMES]),
    ),
    st.integers(400, 8_000),
)  # fmt: skip
def test_a_cut_never_costs_more_than_it_saves(output: dict[str, Any], room: int) -> None:
    made = summary_of(output, max_length=room)
    assert len(made.text) <= room
    if made.cut:
        content = output.get("text") or output.get("traceback") or output["data"]
        everything = "".join(content) if not isinstance(content, dict) else None
        if everything is None:
            value = content.get("text/plain", content.get("application/json"))
            everything = value if isinstance(value, str) else json.dumps(value)
        assert len(made.text) < len(everything) + len("stdout\n```\n\n```")
