from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.images import ImageLimits
from jupyter_collaboration_mcp.documents.output_summary import OutputSummary, summarize
from tests.harness.growth import growth

from .test_outputs import LIBRARY_ERROR, stream

MIMES = {
    "plain": "text/plain", "html": "text/html", "markdown": "text/markdown", "latex": "text/latex",
    "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml", "json": "application/json",
    "widget": "application/vnd.jupyter.widget-view+json", "javascript": "application/javascript",
    "plotly": "application/vnd.plotly.v1+json", "vega": "application/vnd.vegalite.v5+json",
    "pdf": "application/pdf", "audio": "audio/wav",
}  # fmt: skip


def display(**data: Any) -> dict[str, Any]:
    named = {MIMES[name]: value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


def result(**data: Any) -> dict[str, Any]:
    return display(**data) | {"output_type": "execute_result", "execution_count": 1.0}


def error(name: str, value: str, *traceback: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(traceback)}


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(height * (width + 1))))
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")
    ).decode()  # fmt: skip


def link(number: int) -> str:
    return f"notebook://sales.ipynb/cells/0a1b2c3d/outputs/{number}"


def summary_of(*outputs: Any, **options: Any) -> OutputSummary:
    return summarize(outputs, link=link, **options)


def shown(*outputs: Any, **options: Any) -> str:
    return summary_of(*outputs, **options).text


LINES = "".join(f"line {number}\n" for number in range(10_000))


class TestStreams:
    def test_a_short_stream_is_shown_whole(self) -> None:
        made = summary_of(stream("a\nb\n"))
        assert made.text == "stdout\n```\na\nb\n```"
        assert made.facts == [
            {"index": 0, "type": "stream", "kind": "text", "length": 4, "lines": 2, "text": "a\nb"}
        ]
        assert not made.cut

    def test_stderr_is_marked(self) -> None:
        made = summary_of(stream(["care", "ful"], "stderr"))
        assert made.text == "stderr\n```\ncareful\n```"
        assert made.facts[0]["kind"] == "stderr"

    def test_three_thousand_characters_are_shown_whole(self) -> None:
        text = ("x" * 99 + "\n") * 30
        made = summary_of(stream(text))
        assert made.facts[0]["text"] == text[:-1]
        assert not made.cut

    def test_a_long_stream_shows_both_ends_in_whole_lines(self) -> None:
        made = summary_of(stream(LINES))
        assert made.cut
        title, head, gap, tail, end = made.text.split("```")
        assert title == f"stdout; full: {link(0)}\n"
        assert head.startswith("\nline 0\nline 1\n")
        assert gap == "\n... 9,859 of 10,000 lines (97,693 characters) left out ...\n"
        assert tail.startswith("\nline 9960\n")
        assert tail.endswith("\nline 9998\nline 9999\n")
        assert not end

    def test_ten_thousand_lines_cost_little(self) -> None:
        made = summary_of(stream(LINES))
        facts = json.dumps(made.facts, separators=(",", ":"))
        assert len(made.text) + len(facts) < 3_400
        assert made.facts[0]["length"] == len(LINES)
        assert made.facts[0]["lines"] == 10_000

    def test_a_stream_that_was_cut_before_is_summarized_like_the_whole(self) -> None:
        cut = {"tail": LINES[-5_000:], "length": float(len(LINES)), "lines": 10_000.0}
        made = summary_of(stream(LINES[:5_000]) | {"cut": cut})
        assert made == summary_of(stream(LINES))

    def test_a_short_beginning_and_a_short_end_are_both_shown(self) -> None:
        cut = {"tail": "the end\n", "length": 1_000_000, "lines": 20_000}
        made = summary_of(stream("the beginning\n") | {"cut": cut})
        assert made.facts[0]["text"] == (
            "the beginning\n... 19,998 of 20,000 lines (999,980 characters) left out ...\nthe end"
        )
        assert made.facts[0]["uri"] == link(0)

    def test_a_long_line_is_cut_in_the_middle(self) -> None:
        made = summary_of(stream("x" * 1_000_000))
        assert "\n... 998,800 characters left out ...\n" in made.text
        assert len(made.text) < 1_500

    def test_colours_and_progress_bars_are_shown_as_on_screen(self) -> None:
        bar = "".join(f"\r\x1b[31m{number}%\x1b[0m" for number in range(101))
        assert shown(stream(f"a\r\nb\n{bar}\n")) == "stdout\n```\na\nb\n100%\n```"

    def test_a_long_progress_bar_is_one_line(self) -> None:
        bar = "".join(f"\r\x1b[31m{number:>8}|\x1b[0m\x1b[K" for number in range(100_000))
        assert shown(stream(f"begin\n{bar}\nend\n")) == "stdout\n```\nbegin\n   99999|\nend\n```"

    @pytest.mark.parametrize(
        "text",
        ["x", "\n", LINES[:40], "\x1b[31ma\x1b[0m\n", "\x1b[31m\r", "\r", "\x1b]", "\r\n"],
    )
    def test_a_megabyte_takes_linear_time(self, text: str) -> None:
        assert growth(lambda size: summary_of(stream(text * (size // len(text)))), 250_000) < 10

    def test_an_empty_stream_is_marked_as_empty(self) -> None:
        assert shown(stream("")) == "stdout, empty"


class TestErrors:
    def test_an_error_shows_the_line_that_failed(self) -> None:
        made = summary_of(
            error("ZeroDivisionError", "division by zero",
                  "\x1b[31m-----------------------------------------------------\x1b[39m",
                  "\x1b[31mZeroDivisionError\x1b[39m        Traceback (most recent call last)",
                  "\x1b[36mCell\x1b[39m \x1b[32mIn[1]\x1b[39m\x1b[32m, line 2\x1b[39m\n"
                  "      1 x = 0\n"
                  "\x1b[32m----> \x1b[39m\x1b[32m2\x1b[39m \x1b[30;43m1\x1b[39;49m/x\n",
                  "\x1b[31mZeroDivisionError\x1b[39m: division by zero")
        )  # fmt: skip
        assert made.text == (
            "error\n```\nZeroDivisionError: division by zero\n"
            "Cell In[1], line 2\n      1 x = 0\n----> 2 1/x\n```"
        )
        assert made.facts == [{
            "index": 0, "type": "error", "kind": "error", "ename": "ZeroDivisionError",
            "evalue": "division by zero",
            "text": "Cell In[1], line 2\n      1 x = 0\n----> 2 1/x",
        }]  # fmt: skip
        assert not made.cut

    def test_frames_of_libraries_are_counted(self) -> None:
        library = "File /usr/lib/python3.11/json/{}.py:{}, in {}(s)\n--> 9 raise\n"
        made = shown(
            error("JSONDecodeError", "Expecting value: line 1",
                  "JSONDecodeError                Traceback (most recent call last)",
                  "Cell In[3], line 4\n      2 import json\n----> 4 load()\n",
                  "File ~/work/helper.py:7, in load()\n      6 def load():\n"
                  "----> 7     loads('x')\n",
                  library.format("__init__", 346, "loads"),
                  library.format("decoder", 337, "decode"),
                  library.format("decoder", 355, "raw_decode"),
                  "JSONDecodeError: Expecting value: line 1")
        )  # fmt: skip
        assert made == (
            f"error; full: {link(0)}\n```\nJSONDecodeError: Expecting value: line 1\n"
            "Cell In[3], line 4\n      2 import json\n----> 4 load()\n"
            "File ~/work/helper.py:7, in load()\n      6 def load():\n----> 7     loads('x')\n"
            "raised in File /usr/lib/python3.11/json/decoder.py:355, in raw_decode(s)\n"
            "... 2 library frames left out ...\n```"
        )

    def test_the_cause_of_a_chained_error_is_mentioned(self) -> None:
        made = shown(
            error("ValueError", "bad",
                  "KeyError                Traceback (most recent call last)",
                  "Cell In[4], line 2\n      1 try:\n----> 2     {}['a']\n", "KeyError: 'a'",
                  "\nDuring handling of the above exception, another exception occurred:\n",
                  "ValueError                Traceback (most recent call last)",
                  "Cell In[4], line 4\n      3 except KeyError:\n"
                  "----> 4     raise ValueError('bad')\n",
                  "ValueError: bad")
        )  # fmt: skip
        assert made == (
            f"error; full: {link(0)}\n```\nValueError: bad\n"
            "Cell In[4], line 4\n      3 except KeyError:\n----> 4     raise ValueError('bad')\n"
            "while handling KeyError: 'a' (Cell In[4], line 2)\n```"
        )

    def test_a_recursion_is_short(self) -> None:
        frame = "Cell In[6], line 1, in f(n)\n----> 1 def f(n): return f(n+1)\n"
        made = shown(
            error("RecursionError", "maximum recursion depth exceeded",
                  "Cell In[6], line 2\n----> 2 f(0)\n", frame, *[frame] * 9,
                  "    [... skipping similar frames: f at line 1 (987 times)]\n", frame,
                  "RecursionError: maximum recursion depth exceeded")
        )  # fmt: skip
        assert "... 9 frames left out ..." in made
        assert "(987 times)" in made

    def test_a_syntax_error_shows_the_line(self) -> None:
        traceback = (
            "  \x1b[36mCell\x1b[39m \x1b[32mIn[2]\x1b[39m\x1b[32m, line 1\x1b[39m\n"
            "\x1b[31m    x ===\x1b[39m\n        ^\n\x1b[31mSyntaxError\x1b[39m: invalid syntax\n"
        )
        assert shown(error("SyntaxError", "invalid syntax (1.py, line 1)", traceback)) == (
            "error\n```\nSyntaxError: invalid syntax (1.py, line 1)\n"
            "Cell In[2], line 1\n    x ===\n        ^\n```"
        )

    def test_notes_of_an_exception_are_shown(self) -> None:
        made = shown(error("E", "v\nw", "Cell In[1], line 1\n----> 1 f()\n", "E: v\nw\ntry this"))
        assert made.endswith("\n----> 1 f()\ntry this\n```")

    def test_the_frame_format_of_old_notebooks_is_understood(self) -> None:
        made = shown(
            error("ZeroDivisionError", "division by zero",
                  "<ipython-input-5-9e1622b385b6> in <module>\n----> 1 f(0)\n",
                  "/usr/lib/python3.7/x.py in f(n)\n" + "      8 # no more\n" * 20
                  + "----> 9 1/0\n",
                  "ZeroDivisionError: division by zero")
        )  # fmt: skip
        assert "<ipython-input-5-9e1622b385b6> in <module>\n----> 1 f(0)\nraised in /usr" in made

    def test_a_plain_python_traceback_is_understood(self) -> None:
        traceback = (
            'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\n    f()\n'
            '  File "/app/x.py", line 2, in f\n    1/0\n    ~^~\n'
            "ZeroDivisionError: division by zero\n"
        )
        made = shown(error("ZeroDivisionError", "division by zero", traceback))
        assert 'File "<stdin>", line 1, in <module>\n    f()\nFile "/app/x.py", line 2' in made
        assert made.count("division by zero") == 1

    def test_tracebacks_of_other_kernels_are_kept(self) -> None:
        made = shown(error("ERROR", "object 'x' not found",
                           "Error in eval(expr, envir, enclos): object 'x' not found\nTraceback:\n",
                           "1. print(x)"))  # fmt: skip
        assert made == (
            "error\n```\nERROR: object 'x' not found\n"
            "Error in eval(expr, envir, enclos): object 'x' not found\nTraceback:\n1. print(x)\n```"
        )

    def test_a_name_alone_is_enough(self) -> None:
        assert shown(error("KeyboardInterrupt", "")) == "error\n```\nKeyboardInterrupt\n```"

    def test_a_long_message_is_cut(self) -> None:
        made = summary_of(error("E", "x" * 100_000))
        assert made.cut
        assert made.facts[0]["uri"] == link(0)
        assert len(made.text) < 1_200


TABLE = (
    '<table border="1" class="dataframe"><thead><tr><th></th><th>a</th></tr></thead><tbody>'
    "<tr><th>0</th><td>1</td></tr>{}</tbody></table>"
)


class TestTables:
    def test_a_table_is_shown_by_shape_columns_and_rows(self) -> None:
        html = TABLE.format("<tr><th>...</th><td>...</td></tr>") + "<p>1000 rows × 1 columns</p>"  # noqa: RUF001
        made = summary_of(result(html=html, plain="    a\n0   1\n.. ..\n\n[1000 rows x 1 columns]"))
        assert made.text == (
            "table 1,000 rows x 1 column: the first row; the kernel sent no more, select others in "
            "code\n```\n\ta\n0\t1\n```"
        )
        assert made.facts == [{
            "index": 0, "type": "execute_result", "kind": "table", "shape": [1000, 1],
            "text": "\ta\n0\t1",
        }]  # fmt: skip

    def test_a_small_table_is_shown_whole(self) -> None:
        made = summary_of(result(html=TABLE.format(""), plain="   a\n0  1"))
        assert made.text == "table 1 row x 1 column\n```\n\ta\n0\t1\n```"
        assert not made.cut

    def test_rows_are_dropped_before_the_whole_table_is(self) -> None:
        rows = "".join(f"<tr><th>{n}</th><td>{'x' * 50}</td></tr>" for n in range(4))
        made = summary_of(result(html=TABLE.format(rows)), stream("y" * 2_000), max_length=1_000)
        assert made.text.startswith("table 5 rows x 1 column")
        assert len(made.text) <= 1_000


class TestImages:
    def test_an_image_that_fits_is_passed_on_unchanged(self) -> None:
        data = png(640, 480)
        made = summary_of(display(png=data, plain="<Figure size 640x480 with 1 Axes>"))
        assert made.text == "image/png 640 x 480 (image 1)"
        assert [picture.data for picture in made.pictures] == [data]
        assert made.facts == [{
            "index": 0, "type": "display_data", "kind": "image", "mime": "image/png",
            "width": 640, "height": 480, "image": 1,
        }]  # fmt: skip
        assert not made.cut

    def test_a_scaled_image_says_so(self) -> None:
        made = summary_of(stream("x"), display(png=png(2000, 1500)))
        assert made.text.endswith("image/png 700 x 504 (image 1), scaled from 2000 x 1500")
        assert made.facts[1]["note"] == "scaled from 2000 x 1500"

    def test_text_next_to_an_image_is_shown(self) -> None:
        made = shown(display(png=png(1, 1), plain="Axes(0.1)"))
        assert made == "image/png 1 x 1 (image 1)\n```\nAxes(0.1)\n```"

    def test_no_more_images_are_shown_than_the_limit_allows(self) -> None:
        made = summary_of(*[display(png=png(9, 9))] * 4, images=ImageLimits(most=2))
        assert len(made.pictures) == 2
        assert made.text.splitlines()[2:] == [
            f"image/png 9 x 9, {len(base64.b64decode(png(9, 9)))} B, not shown: 2 images at most; "
            f"full: {link(number)}"
            for number in (2, 3)
        ]

    def test_no_images_are_shown_if_none_are_wanted(self) -> None:
        made = summary_of(display(png=png(9, 9)), images=None)
        assert made.pictures == []
        assert ", not shown; full: " in made.text

    def test_the_first_readable_format_is_shown(self) -> None:
        made = summary_of(display(png="broken", jpeg=png(9, 9)))
        assert made.text == "image/png 9 x 9 (image 1)"

    def test_a_broken_image_is_only_named(self) -> None:
        made = summary_of(display(png=png(9, 9)[:-8]))
        assert made.pictures == []
        assert "image/png 9 x 9, 63 B, not shown: it cannot be read; full: " in made.text

    def test_the_texts_of_an_svg_are_shown(self) -> None:
        svg = (
            '<?xml version="1.0"?><svg width="461.7pt" height="345.6pt" viewBox="0 0 461 345">'
            "<title>Sales</title><path d='M 0 0'/><text x='1'>in <tspan>2024</tspan></text></svg>"
        )
        assert shown(display(svg=svg)) == (
            f'image/svg+xml 462 x 346, 165 B; its texts: "Sales | in 2024"; full: {link(0)}'
        )

    def test_texts_that_matplotlib_draws_as_paths_are_shown_too(self) -> None:
        comments = '<!-- Created with matplotlib (x) --><!-- Sales "x" -->'
        svg = f'<svg viewBox="0 0 4 5">{comments}<g/></svg>'
        assert '4 x 5, 87 B; its texts: "Sales \\"x\\""; full' in shown(display(svg=svg))


class TestOtherData:
    @pytest.mark.parametrize(
        ("output", "expected"),
        [
            (result(plain="42"), "result\n```\n42\n```"),
            (display(plain=["a\n", "b"]), "display\n```\na\nb\n```"),
            (display(plain="<Figure size 1x1>"), "display\n```\n<Figure size 1x1>\n```"),
            (display(), "display, empty"),
            (result(plain=" "), "result, empty"),
            ({"output_type": "display_data"}, "display, empty"),
            (display(latex="$x^2$", plain="x**2"), "text/latex\n```\n$x^2$\n```"),
            (display(markdown="# a\n```py\nb\n```", plain="<IPython.core.display.Markdown object>"),
             "text/markdown\n````\n# a\n```py\nb\n```\n````"),
            (display(json={"a": [1.0, None]}),
             'application/json 18 B\n```\n{"a": [1.0, null]}\n```'),
        ],
    )  # fmt: skip
    def test_readable_data_is_shown(self, output: dict[str, Any], expected: str) -> None:
        made = summary_of(output)
        assert made.text == expected
        assert not made.cut

    @pytest.mark.parametrize(
        ("output", "expected"),
        [
            (display(html="<style>b{}</style><b>Hi</b> &amp;\n<p>all</p><script>x()</script>",
                     plain="<IPython.core.display.HTML object>"), 'text/html 64 B: "Hi & all"'),
            (display(html="<img src='data:image/png;base64,AAAA' alt='a plot'>"),
             'text/html 51 B: "[image: a plot]"'),
            (display(html="<i></i>"), "text/html 7 B"),
            (display(widget={"model_id": "m"}), "application/vnd.jupyter.widget-view+json 17 B"),
            (display(plotly={"data": []}), "application/vnd.plotly.v1+json 12 B"),
            (display(vega={}, plain="<VegaLite 5 object>"), "application/vnd.vegalite.v5+json 2 B"),
            (display(javascript="x()", plain="<IPython.core.display.Javascript object>"),
             "application/javascript 3 B"),
            (display(pdf="AAAA"), "application/pdf 3 B"),
            (display(audio="AAAA" * 1_000), "audio/wav 3.0 kB"),
            ({"output_type": "display_data", "data": {"x/y\n[0] cell": 1.0}}, "x/y_0_cell 3 B"),
            ({"output_type": "new\n"}, 'output of unknown type "new"'),
            ({}, 'output of unknown type "None"'),
            (None, 'output of unknown type "None"'),
        ],
    )  # fmt: skip
    def test_other_data_is_described_in_one_line(self, output: Any, expected: str) -> None:
        made = summary_of(output)
        assert made.text == f"{expected}; full: {link(0)}"
        assert made.facts[0]["uri"] == link(0)
        assert made.cut

    def test_text_is_preferred_to_html_that_says_less(self) -> None:
        made = summary_of(
            result(html="<div>LogisticRegression</div>", plain="LogisticRegression()")
        )
        assert made.text == (
            f"text/html 29 B, as text; full: {link(0)}\n```\nLogisticRegression()\n```"
        )
        assert made.facts[0] == {
            "index": 0, "type": "execute_result", "kind": "html", "mime": "text/html",
            "text": "LogisticRegression()", "uri": link(0),
        }  # fmt: skip

    def test_long_html_and_json_are_cut(self) -> None:
        made = summary_of(display(html="<p>word</p>" * 100_000), display(json=list(range(100_000))))
        assert len(made.text) < 1_800
        assert '"word word' in made.text
        assert " characters left out ..." in made.text

    def test_the_readable_part_of_malformed_html_is_shown(self) -> None:
        assert '"before"' in shown(display(html="<p>before</p><![<![ after"))

    def test_no_base64_is_ever_shown(self) -> None:
        code = base64.b64encode(bytes(range(256)) * 40).decode()
        image = f"data:image/png;base64,{code}"
        made = summary_of(
            display(markdown=f"![plot]({image})"), display(json={"image": code, "uri": image}),
            display(html=f"<p>{image}</p>"), display(plain=f"x = '{image}'"), stream(image),
            display(png=code), display(audio=code), display(pdf=code), display(svg=f"<svg>{image}"),
            display(latex=code * 3),
        )  # fmt: skip
        assert code[:50] not in made.text + json.dumps(made.facts)
        assert code[-50:] not in made.text + json.dumps(made.facts)
        assert all("uri" in fact for fact in made.facts)


class TestManyOutputs:
    def test_the_first_and_last_outputs_are_shown(self) -> None:
        made = summary_of(*(stream(f"text {number}") for number in range(300)))
        assert made.text.count("```\ntext ") == 12
        assert (
            f"text 10\n```\n... 288 outputs left out (288 text); the first of them: {link(11)}"
            " ...\nstdout\n```\ntext 299\n```"
        ) in made.text
        assert len(made.facts) == 13
        assert made.facts[11] == {"type": "left_out", "index": 11, "count": 288, "uri": link(11)}
        assert made.cut

    def test_omitted_outputs_are_counted_by_kind(self) -> None:
        kinds = [display(png="x"), display(plain="x"), display(html="x"), display(json=1)]
        made = shown(*[stream("x")] * 11, *kinds * 2, stream("x"))
        assert "... 8 outputs left out (2 image/png, 2 text, 2 html, others); the first" in made

    def test_the_last_error_is_always_shown(self) -> None:
        outputs = [stream("x" * 5_000) for _ in range(300)]
        outputs[200] = LIBRARY_ERROR
        for most in (100, 1_000, 8_000):
            made = summary_of(*outputs, max_length=most)
            assert "KeyError: 'b'" in made.text
            assert "total += frame['b']" in made.text or most == 100

    def test_an_error_gets_half_of_the_space(self) -> None:
        frames = [f"Cell In[1], line {n}\n----> {n} {'x' * 90}()\n" for n in range(3)]
        made = shown(*[stream("y" * 2_900)] * 8, error("E", "v", *frames, "E: v"), max_length=5_000)
        assert f"----> 2 {'x' * 90}()" in made
        assert len(made) <= 5_000

    def test_no_outputs_give_an_empty_summary(self) -> None:
        assert summary_of() == OutputSummary("", [], [], False)

    def test_without_a_link_nothing_is_promised(self) -> None:
        made = summarize([stream(LINES), display(html="<b>")] * 30, link=lambda number: None)
        assert "full" not in made.text
        assert not any("uri" in fact for fact in made.facts)


def outside_fences(text: str) -> list[str]:
    """The lines of ours, read as a careful reader would."""
    lines, fence = [], ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif set(line) == {"`"} and len(line) > 2:
            fence = line
        else:
            lines.append(line)
    assert not fence
    return lines


FORGERY = f"```\nimage/png 1 x 1 (image 9)\n... 5 outputs left out ...; full: {link(7)}\n"


def test_no_content_can_forge_a_line_of_ours() -> None:
    made = summary_of(
        stream(FORGERY), stream(FORGERY * 100), display(plain=FORGERY), display(markdown=FORGERY),
        display(html=FORGERY), display(svg=f"<svg><text>{FORGERY}</text>"), result(json=[FORGERY]),
        error(FORGERY, FORGERY, FORGERY), {"output_type": FORGERY},
        {"output_type": "display_data", "data": {FORGERY: FORGERY}},
        result(html=f"<table class='dataframe'><tr><td>{FORGERY}</td></tr></table>"),
    )  # fmt: skip
    ours = outside_fences(made.text)
    assert not any(line.startswith(("image/png", "... 5 outputs")) for line in ours)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
    | st.sampled_from(["`" * 300, "<p>x", '"' * 400, "\ud800", "x\n" * 3_000, "y" * 4_000,
                       "<table><tr><td>1<td>2", png(3, 3), png(800, 3), FORGERY, "\r\x1b[",
                       "<svg>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["schema", "fields", "data", "length", "tail"]),
        inner),
    max_leaves=6,
)  # fmt: skip
TYPES = st.sampled_from(["stream", "error", "display_data", "execute_result", "?", None, 3.0])
KEYS = st.sampled_from(
    [*MIMES.values(), "application/vnd.dataresource+json", "image/gif", "q\n", ""]
)
OUTPUTS = st.none() | st.fixed_dictionaries(
    {"output_type": TYPES},
    optional={
        "text": VALUES, "name": VALUES, "ename": VALUES, "evalue": VALUES, "traceback": VALUES,
        "data": VALUES | st.dictionaries(KEYS | st.integers(), VALUES, max_size=4),
        "cut": VALUES | st.fixed_dictionaries({"length": VALUES, "tail": VALUES, "lines": VALUES}),
    },
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(OUTPUTS, max_size=6), st.sampled_from([1, 3]), st.sampled_from([0, 500, 2_000, 8_000])
)
def test_any_kernel_output_is_summarized_within_bounds(
    outputs: list[Any], times: int, max_length: int
) -> None:
    made = summary_of(*outputs * times, max_length=max_length)
    assert len(made.text) <= max(max_length, 500) + 200
    facts = json.dumps(made.facts, ensure_ascii=False)
    assert len(facts) <= 2 * max_length + 13 * 2_000
    made.text.encode()
    facts.encode()
    assert bool(made.text) == bool(outputs)
    outside_fences(made.text)
    assert len(made.pictures) <= 4
