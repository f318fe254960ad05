from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents import outputs
from tests.harness.growth import growth

#: As IPython sends it, colours and all.
LIBRARY_ERROR: dict[str, Any] = {
    "output_type": "error",
    "ename": "KeyError",
    "evalue": "'b'",
    "traceback": [
        "\x1b[31m---------------------------------------------------------------------------\x1b[39m",
        "\x1b[31mKeyError\x1b[39m                 Traceback (most recent call last)",
        "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[7]\x1b[39m\x1b[32m, line 3\x1b[39m\n"
        "      1 frame = load()\n      2 total = 0\n\x1b[32m----> 3\x1b[39m total += frame['b']\n"
        "      4 print(total)\n",
        "\x1b[36mFile \x1b[39m\x1b[32m/lib/pandas/frame.py:4102\x1b[39m, in "
        "\x1b[36mDataFrame.__getitem__\x1b[39m(self, key)\n"
        "   4100     pass\n-> 4102 raise KeyError\n",
        "\x1b[31mKeyError\x1b[39m: 'b'",
    ],
}


def stream(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> dict[str, Any]:
    mimes = {
        "plain": "text/plain", "html": "text/html", "markdown": "text/markdown",
        "latex": "text/latex", "png": "image/png", "svg": "image/svg+xml",
        "json": "application/json", "widget": "application/vnd.jupyter.widget-view+json",
    }  # fmt: skip
    named = {mimes[name]: value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


PNG = base64.b64encode(bytes(12_345)).decode()


class TestStreams:
    def test_lists_of_strings_are_joined(self) -> None:
        assert outputs.describe(stream(["a\n", "b\n"]), 100) == "a\nb"

    def test_stderr_is_marked(self) -> None:
        assert outputs.describe(stream("careful", "stderr"), 100) == "stderr:\ncareful"

    def test_colours_and_links_are_stripped(self) -> None:
        text = "\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b[2K\x1b[38;5;4mblue"
        assert outputs.describe(stream(text), 100) == "red link blue"
        text = "\x9b31mred\x9b0m \x9d8;;http://x\x9clink\x9d8;;\x9c\x84 a\x85b"
        assert outputs.describe(stream(text), 100) == "red link a\x85b"

    def test_a_progress_bar_is_shown_as_last_drawn(self) -> None:
        text = "start\n  0%|   |\r 50%|=  | é\r100%|===| 😀\r\nend\n"
        assert outputs.describe(stream(text), 100) == "start\n100%|===| 😀\nend"

    def test_a_long_text_keeps_its_head_and_tail(self) -> None:
        text = "".join(f"line {number}\n" for number in range(10_000))
        described = outputs.describe(stream(text), 200)
        assert len(described) <= 200
        assert described.startswith("line 0\nline 1\n")
        assert described.endswith("line 9998\nline 9999")
        assert " characters cut ..." in described


class TestErrors:
    def test_an_error_shows_the_users_frame_and_where_it_was_raised(self) -> None:
        assert outputs.describe(LIBRARY_ERROR, 1_000) == (
            "KeyError: 'b'\n"
            "Cell In[7], line 3\n"
            "      2 total = 0\n"
            "----> 3 total += frame['b']\n"
            "raised in File /lib/pandas/frame.py:4102, in DataFrame.__getitem__(self, key)"
        )

    def test_a_syntax_error_shows_the_line(self) -> None:
        error = {
            "output_type": "error", "ename": "SyntaxError",
            "evalue": "invalid syntax (1.py, line 1)",
            "traceback": ["  \x1b[36mCell In[2]\x1b[39m, line 1\n    x ===\n        ^\n"
                          "SyntaxError: invalid syntax\n"],
        }  # fmt: skip
        assert outputs.describe(error, 500) == (
            "SyntaxError: invalid syntax (1.py, line 1)\nCell In[2], line 1\n    x ===\n        ^"
        )

    def test_an_error_without_a_traceback_shows_its_name_and_value(self) -> None:
        error = {"output_type": "error", "ename": "NameError", "evalue": "name 'x' is not defined"}
        assert outputs.describe(error, 500) == "NameError: name 'x' is not defined"

    def test_a_name_alone_is_enough(self) -> None:
        error = {
            "output_type": "error",
            "ename": "KeyboardInterrupt",
            "evalue": "",
            "traceback": [],
        }
        assert outputs.describe(error, 500) == "KeyboardInterrupt"

    def test_a_long_message_is_cut(self) -> None:
        error = {"output_type": "error", "ename": "E", "evalue": "x" * 100_000, "traceback": []}
        assert len(outputs.describe(error, 500)) <= 500


class TestData:
    def test_a_result_is_its_text(self) -> None:
        result = {"output_type": "execute_result", "execution_count": 3.0,
                  "data": {"text/plain": ["4", "2"]}, "metadata": {}}  # fmt: skip
        assert outputs.describe(result, 100) == "42"

    def test_an_image_is_named_with_its_size_and_never_shown(self) -> None:
        described = outputs.describe(display(png=PNG, plain="<Figure size 640x480>"), 100)
        assert described == "<Figure size 640x480>\nimage/png 12.3 kB"

    def test_html_beside_text_is_only_named(self) -> None:
        described = outputs.describe(display(html="<table>" + "x" * 2_000, plain="   a\n0  1"), 100)
        assert described == "   a\n0  1\ntext/html 2.0 kB"

    @pytest.mark.parametrize(
        ("output", "expected"),
        [
            (display(html="<b>é</b>"), "text/html 9 B"),
            (display(html="<b>", plain="<IPython.core.display.HTML object>"), "text/html 3 B"),
            (display(latex="$x$"), "text/latex 3 B"),
            (display(json={"a": 1.0}), "application/json 10 B"),
            (display(svg="<svg/>"), "image/svg+xml 6 B"),
            (display(markdown="**é**", plain="<IPython.core.display.Markdown object>"), "**é**"),
            (display(plain="<IPython.core.display.HTML object>"),
             "<IPython.core.display.HTML object>"),
            (display(widget={"model_id": "m", "version_major": 2.0}),
             "application/vnd.jupyter.widget-view+json 39 B"),
            (display(png="A" * 4_000_000), "image/png 3.0 MB"),
            (display(), "empty output"),
            (display(plain=""), "empty output"),
            ({"output_type": "display_data"}, "empty output"),
            ({"output_type": "strange\nthing"}, 'output of unknown type "strange\\nthing"'),
            ({}, 'output of unknown type "None"'),
            ({"output_type": "display_data", "data": {"x/y\n[0] cell": 1.0}}, "x/y_0_cell 3 B"),
        ],
    )  # fmt: skip
    def test_other_types_are_described_in_one_line(
        self, output: dict[str, Any], expected: str
    ) -> None:
        assert outputs.describe(output, 100) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (stream("x"), "text"),
        (stream("x", "stderr"), "stderr"),
        (LIBRARY_ERROR, "error"),
        (display(png=PNG, plain="<Figure>"), "image/png"),
        (display(html="<table>", plain="a"), "table"),
        (display(html="<b>", plain="a"), "html"),
        (display(plain="a"), "text"),
        (display(latex="$x$", plain="x"), "latex"),
        (display(widget={}, plain="x"), "widget"),
        (display(), "empty"),
        ({"output_type": "display_data", "data": {"application/vnd.plotly.v1+json": {}}}, "plotly"),
        ({"output_type": "display_data", "data": {"application/x-new": {}}}, "application/x-new"),
    ],
)
def test_each_kind_has_a_short_name(output: dict[str, Any], expected: str) -> None:
    assert outputs.kinds([output, output]) == [expected]


def test_the_first_error_is_named() -> None:
    assert outputs.error_name([stream("x"), LIBRARY_ERROR]) == "KeyError"
    assert outputs.error_name([stream("x")]) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


MIMES = st.sampled_from(["text/plain", "text/html", "image/png", "application/json"])
TYPES = st.sampled_from(["stream", "error", "display_data", "execute_result", "?"])


@given(
    st.fixed_dictionaries(
        {"output_type": TYPES},
        optional={
            "text": VALUES, "name": VALUES, "ename": VALUES, "evalue": VALUES,
            "traceback": st.lists(st.text(max_size=30)) | st.text(max_size=30),
            "data": st.dictionaries(MIMES, VALUES),
        },
    )
)  # fmt: skip
def test_any_kernel_output_can_be_described(output: dict[str, Any]) -> None:
    assert len(outputs.describe(output, 100)) <= 310
    assert outputs.kinds([output])


def test_incomplete_escape_sequences_take_linear_time() -> None:
    def describe(size: int) -> None:
        outputs.describe(stream("\x1b[" * size + "\x1b]" * size + "\r" * size), 100)

    assert growth(describe, 100_000) < 10
