"""What a client may render: harmless markup stays, and nothing in it runs or loads."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.safe_markup import (
    safe_data,
    safe_html,
    safe_markdown,
    safe_output,
    safe_svg,
)


@pytest.mark.parametrize(
    ("html", "safe"),
    [
        ("<b>é😀</b>", "<b>é😀</b>"),
        ('<table border="1"><tr><td>1</td></tr></table>',) * 2,
        ("<table><tr><td>1</table>", "<table><tr><td>1</td></tr></table>"),
        ('<a href="https://x.org?a=1&amp;b">a</a>',) * 2,
        ('<img src="data:image/png;base64,AA==" alt="x">',) * 2,
        ("&lt;script&gt; &amp; 1 &lt; 2",) * 2,
        ("1 < 2", "1 &lt; 2"),
        ("a<!-- <script> -->b", "ab"),
        ("</b>x", "x"),
        ("<b>x", "<b>x</b>"),
        ("<custom-tag>kept text</custom-tag>", "kept text"),
        ("<b onclick=alert(1)>x</b>", "<b>x</b>"),
        ("<b style='background:url(//x)'>x</b>", "<b>x</b>"),
        ("a<script>alert(1)</script>b", "ab"),
        ("a<script/>b</script>c", "ac"),
        ("<img src=x onerror=alert(1)>", "<img>"),
        ("<img src='data:image/svg+xml;base64,AA=='>", "<img>"),
        ("<a href='java\nscript:alert(1)'>a</a>", "<a>a</a>"),
        ("<a href=' javascript:alert(1)'>a</a>", "<a>a</a>"),
        ("<a href='data:text/html,x'>a</a>", "<a>a</a>"),
        ("<iframe src=//x></iframe>b", "b"),
        ("<svg><script>1</script></svg>b", "b"),
        ("<svg/><b>x</b>", "<b>x</b>"),
        ("<style>@import 'x'</style>b", "b"),
        ("<noscript><p title='</noscript><img src=x onerror=1>'>", ""),
        ("<scr<script>ipt>alert(1)</script>", "ipt&gt;alert(1)"),
        ("<meta http-equiv=refresh content=0>b", "b"),
        ("<form action=//x><input name=a>b</form>", "b"),
        ('<b title="<script>">x</b>', '<b title="&lt;script&gt;">x</b>'),
        ("<b id=body name=cookie>x</b>", "<b>x</b>"),
        ("<!--><img src=x onerror=1>--><b>x</b>", "<b>x</b>"),
        ("<!-- --!><img src=x onerror=1>-->x", "x"),
        ("<![CDATA[<img src=x onerror=1>]]>x", "]]&gt;x"),
        ("<math><mtext><table><mglyph><style><img src=x onerror=1></style></math>x", "x"),
        ("<svg></p><style><a title='</style><img src=x onerror=1>'></svg>x", "x"),
        ("<form><math><mtext></form><form><mglyph><style></math><img src onerror=1>", ""),
        ("<select><template><style><!--</style><img src=x onerror=1>--></select>", ""),
        (
            "<table><a href='https://x'><td>x</a></table>",
            '<table><a href="https://x"><td>x</td></a></table>',
        ),
        ("<a href='jav&#x09;ascript:1'>a</a>", "<a>a</a>"),
        ("<a href='&#1;javascript:1'>a</a>", "<a>a</a>"),
        ("<a href=vbscript:1>a</a>", "<a>a</a>"),
        ("<a href=//evil.org>a</a>", "<a>a</a>"),
        ("<img/src=x/onerror=1>", "<img>"),
        ("<img src='https://x' srcset='x' onerror='1'", ""),
        ('<img alt="`<script>" src="https://x">', '<img alt="`&lt;script&gt;" src="https://x">'),
        ("<b\x00 onclick=1>x</b>", "x"),
        ("<b\xa0onclick=1>x</b>", "<b>x</b>"),
        ("<base href=//x><link rel=stylesheet href=//x>x", "x"),
    ],
)
def test_html_is_written_anew_without_what_could_run(html: str, safe: str) -> None:
    assert safe_html(html) == safe


class Seen(HTMLParser):
    """Notes what is in a text of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names.update(name for name, _ in attrs)
        self.urls += [value or "" for name, value in attrs if name in ("href", "src")]


PIECES = st.sampled_from(
    [
        "<script>",
        "</script>",
        "<b ",
        "onclick=x",
        ">",
        "<",
        "'",
        '"',
        "<!--",
        "-->",
        "<svg>",
        "/",
        "javascript:",
        "href=",
        "src=",
        "<a ",
        "<img ",
        "<![CDATA[",
        "]]>",
        "&lt;",
        "<style>",
        "x",
        "</style>",
        "<textarea>",
        "<title>",
        "</title>",
        "<plaintext>",
        "<math>",
        "\x00",
        "é",
        " ",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join) | st.text())
def test_whatever_the_html_nothing_in_it_runs(html: str) -> None:
    safe = safe_html(html)
    seen = Seen()
    seen.feed(safe)
    seen.close()
    assert not seen.tags & {"script", "style", "svg", "math", "iframe", "object", "template"}
    assert not any(name.startswith("on") or name == "style" for name in seen.names)
    assert all(re.match(r"https?:|mailto:|#|data:image/", url, re.I) for url in seen.urls)
    assert safe_html(safe) == safe


def test_svg_keeps_its_shapes_and_loses_what_could_run() -> None:
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1 1" onload="x()">'
        "<script>1</script><style>@import 'x'</style>"
        '<defs><linearGradient id="a"/></defs><g style="fill:url(#a)"><path d="M0 0"/></g>'
        '<use xlink:href="#a"/><use xlink:href="http://x/#a"/><g style="fill:url(http://x)"/>'
        '<a href="javascript:1"><text>q</text></a><image href="http://x"/>'
        "<foreignObject><b>x</b></foreignObject></svg>"
    )
    safe = safe_svg(svg)
    assert safe is not None
    for kept in ('viewBox="0 0 1 1"', "linearGradient", 'style="fill:url(#a)"', 'href="#a"'):
        assert kept in safe
    for gone in ("script", "onload", "import", "http://x", "javascript", "foreignObject", "image"):
        assert gone not in safe


@pytest.mark.parametrize("svg", ["<svg", "<b/>", "", "<svg><b></svg>", "\x00"])
def test_what_is_no_svg_is_shown_as_text(svg: str) -> None:
    assert safe_svg(svg) is None
    assert safe_data({"image/svg+xml": svg}) == {"text/plain": svg}


def test_markdown_loses_html_and_links_that_run() -> None:
    said = "<script>x</script> [a](javascript:alert(1)) 1 < 2 ![](data:image/png;base64,x) `<b>`"
    assert safe_markdown("Training data: 5 rows; note: all") == "Training data: 5 rows; note: all"
    assert safe_markdown(said) == (
        "&lt;script>x&lt;/script> [a](unsafe:alert(1)) 1 < 2 ![](data:image/png;base64,x) `&lt;b>`"
    )


def test_scripts_become_text_unless_there_is_a_text() -> None:
    assert safe_data({"application/javascript": "alert(1)"}) == {"text/plain": "alert(1)"}
    beside = {"application/javascript": "alert(1)", "text/plain": "said"}
    assert safe_data(beside) == {"text/plain": "said"}
    assert safe_data(dict(reversed(beside.items()))) == {"text/plain": "said"}
    assert safe_data({"text/html; charset=utf-8": "<script>1</script>x"}) == {
        "text/html; charset=utf-8": "x"
    }


def test_markup_that_is_too_long_is_shown_as_its_source() -> None:
    html = "<b>x</b>" * 200_000
    assert safe_data({"text/html": html}) == {"text/plain": html}


def test_texts_of_outputs_have_no_colours() -> None:
    red = "\x1b[31mred\x1b[0m"
    assert safe_output({"output_type": "stream", "text": f"{red}\n"})["text"] == "red\n"
    error = {"output_type": "error", "ename": "E", "evalue": red, "traceback": [red]}
    assert safe_output(error) == {**error, "evalue": "red", "traceback": ["red"]}
    shown = {"output_type": "display_data", "data": {"text/plain": red, "image/png": "AA=="}}
    assert safe_output(shown)["data"] == {"text/plain": "red", "image/png": "AA=="}


@pytest.mark.parametrize(
    "part",
    [
        "<!--",
        "<!",
        "<?",
        "<a",
        "<a ",
        "<a x=",
        "<a x='",
        "</",
        "</a",
        "<b>",
        "&#",
        "<script>",
        "<svg>",
    ],
)
def test_cleaning_takes_no_longer_for_malformed_html(part: str) -> None:
    """A hundred times as much may take some hundred times as long, and not ten thousand times."""
    times = []
    for count in (2_000, 200_000):
        began = time.process_time()
        safe_html(part * count + "</i>" * count)
        times.append(time.process_time() - began)
    assert times[1] < max(2.0, 1_000 * times[0])


@pytest.mark.parametrize(
    "value",
    [
        r"fill:\75rl(http://x/y)",
        "background:image-set(&quot;http://x/y&quot; 1x)",
        "background:image( 'http://x/y')",
        "fill:url( http://x/y )",
        "fill:url(#a) url(//x/y)",
    ],
)
def test_svg_loads_nothing_however_its_style_is_written(value: str) -> None:
    assert safe_svg(f'<svg><rect style="{value}"/></svg>') == "<svg><rect/></svg>"
    kept = '<svg><rect style="fill:url(#a); stroke: rgb(0, 0, 0)"/></svg>'
    assert safe_svg(kept) == kept


@pytest.mark.parametrize(
    ("svg", "safe"),
    [
        ("<svg><g><b>x</b>y</g></svg>", "<svg><g>y</g></svg>"),
        ("<svg><desc>&lt;img onerror=1&gt;</desc></svg>",) * 2,
        ("<svg><text><![CDATA[<script>]]></text></svg>", "<svg><text>&lt;script&gt;</text></svg>"),
        ("<svg><!-- <script> --><?x <script>?></svg>", "<svg/>"),
        ("<svg><a href='javascript:1'><rect/></a></svg>", "<svg/>"),
        ("<svg><animate attributeName='href' to='javascript:1'/></svg>", "<svg/>"),
        ("<svg><style>*{background:url(//x)}</style></svg>", "<svg/>"),
        (
            "<svg><rect ONLOAD='1' onload='1' x='&quot; onload=&quot;1'/></svg>",
            '<svg><rect x="&quot; onload=&quot;1"/></svg>',
        ),
        ("<svg><rect style='position: fixed'/></svg>", "<svg><rect/></svg>"),
        ("<svg><rect style='position/**/:fixed'/></svg>", "<svg><rect/></svg>"),
        ("<svg><g xmlns='http://www.w3.org/1999/xhtml'/></svg>", "<svg><g/></svg>"),
        ("<svg><h:script xmlns:h='http://www.w3.org/1999/xhtml'>1</h:script></svg>", "<svg/>"),
        (
            "<svg><text>a&#10;b</text><g title='a&#10;b'/></svg>",
            '<svg><text>a\nb</text><g title="a&#10;b"/></svg>',
        ),
    ],
)
def test_svg_is_written_anew_without_what_could_run(svg: str, safe: str) -> None:
    assert safe_svg(svg) == safe
    assert safe_svg(safe) == safe


@pytest.mark.parametrize(
    "declared",
    ['<!ENTITY a "b">', '<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a "b"> %a;'],
)
def test_svg_that_declares_entities_is_shown_as_its_source(declared: str) -> None:
    svg = f"<!DOCTYPE svg [{declared}]><svg><text>x</text></svg>"
    assert safe_svg(svg) is None


def test_cleaning_takes_no_longer_for_svg_of_which_most_is_left_out() -> None:
    times = []
    for count in (500, 50_000):
        began = time.process_time()
        assert safe_svg(f"<svg>{'<g/>' * count}{'<b/>' * count}</svg>") is not None
        times.append(time.process_time() - began)
    assert times[1] < max(2.0, 1_000 * times[0])


def test_svg_that_is_nested_without_end_is_shown_as_its_source() -> None:
    deep = f"<svg>{'<g>' * 20_000}{'</g>' * 20_000}</svg>"
    assert safe_data({"image/svg+xml": deep}) == {"text/plain": deep}


@pytest.mark.parametrize(
    "link",
    [
        "[x](javascript&colon;alert(1))",
        "[x](java&#115;cript:alert(1))",
        "[x](jav&Tab;ascript:alert(1))",
        r"[x](javascript\:alert(1))",
        "[x](<&#106;avascript:alert(1)>)",
        "[x](\n&#106;avascript:alert(1))",
        "[x]: &#x6A;avascript:alert(1)",
        "![x](data:image/svg+xml,x)",
        "[x](data:text/html,x)",
        "[x](file:///etc/passwd)",
        "> [x](\n> &#106;avascript:alert(1))",
        "> > [x]:\n> > &#106;avascript:alert(1)",
        "[x](<&#106;ava\tscript:alert(1)>)",
        "[x](< &#106;avascript:alert(1)>)",
        "[y[x](b](&#106;avascript:alert(1))",
        "[y[x](<1](&#106;avascript:alert(1))",
        f"[x](&#106;ava{'&Tab;' * 100}script:alert(1))",
        "[x](&amp;#106;avascript:alert(1))",
        "[x](\x01javascript:alert(1))",
    ],
)
def test_a_link_of_markdown_does_not_run_however_its_scheme_is_written(link: str) -> None:
    assert "unsafe:" in safe_markdown(link)


@pytest.mark.parametrize(
    "said",
    ["[x](https://x/y?a=b:c)", "[x](mailto:a@b)", "[x](a.ipynb#b:c)", "![x](attachment:a.png)"],
)
def test_links_of_markdown_that_lead_somewhere_are_kept(said: str) -> None:
    assert safe_markdown(said) == said


@pytest.mark.parametrize(
    "mime",
    [
        "text/xml",
        "text/xsl",
        "application/xml",
        "application/xml-dtd",
        "application/x-javascript",
        "application/mathml+xml",
    ],
)
def test_markup_and_code_of_other_types_is_shown_as_its_source(mime: str) -> None:
    assert safe_data({mime: "<script>x</script>"}) == {"text/plain": "<script>x</script>"}
