from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.table_text import describe, entire
from jupyter_collaboration_mcp.documents.tables import table

#: Seconds of work, for what takes one on an idle machine; work that grows with the square of such
#: an input takes minutes.
_HANG = 30

STYLE = "<style scoped>\n    .dataframe tbody tr th { vertical-align: top; }\n</style>\n"


def pandas(head: str, body: str, after: str = "") -> dict[str, Any]:
    html = (
        f'<div>\n{STYLE}<table border="1" class="dataframe">\n  <thead>\n{head}  </thead>\n'
        f"  <tbody>\n{body}  </tbody>\n</table>\n{after}</div>"
    )
    return {"text/html": html, "text/plain": "   a\n0  1"}


def row(*cells: str, tag: str = "td", index: int = 1) -> str:
    made = [f"<th>{cell}</th>" for cell in cells[:index]]
    made += [f"<{tag}>{cell}</{tag}>" for cell in cells[index:]]
    return "<tr>\n" + "\n".join(made) + "\n</tr>\n"


def heads(*names: str) -> str:
    return row(*names, tag="th")


LONG = pandas(
    heads("", "a", "b"),
    "".join(row(str(n), str(n * 2), f"text {n}") for n in range(5))
    + row("...", "...", "...")
    + "".join(row(str(n), str(n * 2), f"text {n}") for n in range(995, 1000)),
    "<p>1000 rows × 2 columns</p>\n",  # noqa: RUF001
)

POLARS = (
    "<div><style>\n.dataframe > thead > tr {\n  text-align: right;\n}\n</style>\n"
    '<small>shape: (1_000, 2)</small><table border="1" class="dataframe"><thead><tr><th>a</th>'
    "<th>b</th></tr><tr><td>i64</td><td>str</td></tr></thead><tbody><tr><td>0</td>"
    "<td>&quot;x&quot;</td></tr><tr><td>1</td><td>&quot;y&quot;</td></tr><tr><td>&hellip;</td>"
    "<td>&hellip;</td></tr><tr><td>999</td><td>&quot;x&quot;</td></tr></tbody></table></div>"
)

STYLER = (
    '<style type="text/css">\n#T_78ffb td {\n  color: red;\n}\n</style>\n<table id="T_78ffb">\n'
    '  <caption>cap</caption>\n  <thead>\n    <tr>\n      <th class="blank level0" >&nbsp;</th>\n'
    '      <th id="T_78ffb_level0_col0" class="col_heading level0 col0" >a</th>\n    </tr>\n'
    '  </thead>\n  <tbody>\n    <tr>\n      <th class="row_heading level0 row0" >p</th>\n'
    '      <td id="T_78ffb_row0_col0" class="data row0 col0" >1.5</td>\n    </tr>\n  </tbody>\n'
    "</table>\n"
)

IRKERNEL = (
    '<table class="dataframe">\n<caption>A data.frame: 2 × 2</caption>\n<thead>\n'  # noqa: RUF001
    "\t<tr><th></th><th scope=col>mpg</th><th scope=col>cyl</th></tr>\n"
    "\t<tr><th></th><th scope=col>&lt;dbl&gt;</th><th scope=col>&lt;int&gt;</th></tr>\n"
    "</thead>\n<tbody>\n\t<tr><th scope=row>Mazda RX4</th><td>21.0</td><td>6</td></tr>\n"
    "\t<tr><th scope=row>Datsun 710</th><td>22.8</td><td>4</td></tr>\n</tbody>\n</table>\n"
)


def shown(data: dict[str, Any], limit: int = 2_000) -> str:
    found = table(data)
    assert found
    made = describe(found, limit)
    return "\n".join(part for part in made[:2] if part)


class TestPandas:
    def test_a_long_frame_has_its_shape_and_first_rows(self) -> None:
        assert shown(LONG) == (
            "table 1,000 rows x 2 columns: the first 5 rows\n"
            "\ta\tb\n0\t0\ttext 0\n1\t2\ttext 1\n2\t4\ttext 2\n3\t6\ttext 3\n4\t8\ttext 4"
        )

    def test_a_small_frame_is_shown_whole(self) -> None:
        found = table(pandas(heads("", "a", "b"), row("p", "1", "&lt;b&gt;")))
        assert found
        assert (found.rows, found.columns, found.names) == (1, 2, ["a", "b"])
        made = describe(found, 500)
        assert made == ("table 1 row x 2 columns", "\ta\tb\np\t1\t<b>", True)
        assert made == entire(found)
        assert not describe(found, 4).whole

    def test_only_rows_before_the_ellipsis_are_shown(self) -> None:
        body = row("0", "1") + row("...", "...") + row("99", "1")
        data = pandas(heads("", "a"), body, "<p>100 rows × 1 columns</p>")  # noqa: RUF001
        assert shown(data) == "table 100 rows x 1 column: the first row\n\ta\n0\t1"

    def test_the_index_name_comes_before_the_columns(self) -> None:
        data = pandas(heads("", "a", "b") + heads("id", "", ""), row("p", "1", "x"))
        assert shown(data) == "table 1 row x 2 columns\nid\ta\tb\np\t1\tx"

    def test_multiple_header_levels_are_joined_and_repeated(self) -> None:
        head = (
            '<tr>\n<th></th>\n<th>top</th>\n<th colspan="2" halign="left">u</th>\n'
            '<th colspan="2" halign="left">v</th>\n</tr>\n'
            + heads("", "low", "1", "2", "1", "2")
            + heads("k", "n", "", "", "", "")
        )
        body = (
            '<tr>\n<th rowspan="2" valign="top">a</th>\n<th>1</th>\n'
            "<td>0</td>\n<td>1</td>\n<td>2</td>\n<td>3</td>\n</tr>\n"
            + row("2", "4", "5", "6", "7")
            + row("b", "1", "8", "9", "10", "11", index=2)
        )
        assert shown(pandas(head, body)) == (
            "table 3 rows x 4 columns\nk\tn\tu / 1\tu / 2\tv / 1\tv / 2\n"
            "a\t1\t0\t1\t2\t3\na\t2\t4\t5\t6\t7\nb\t1\t8\t9\t10\t11"
        )

    def test_an_empty_frame_has_its_columns(self) -> None:
        assert shown(pandas(heads("", "a"), "")) == "table 0 rows x 1 column\n\ta"

    def test_many_columns_are_counted(self) -> None:
        cells = [f"column-{n}" for n in range(100)]
        text = shown(pandas(heads("", *cells), row("x", *cells)))
        assert text.startswith("table 1 row x 100 columns: the first 30 columns\n\tcolumn-0\t")
        assert text.endswith("\tcolumn-29")
        assert max(map(len, text.splitlines())) <= 300

    def test_columns_that_pandas_left_out_are_not_counted_as_shown(self) -> None:
        data = pandas(
            heads("", "a", "...", "z"),
            row("0", "1", "...", "2"),
            "<p>1 rows × 50 columns</p>",  # noqa: RUF001
        )
        assert shown(data).splitlines()[0] == (
            "table 1 row x 50 columns: 2 of the columns; the kernel sent no more, select others in "
            "code"
        )

    def test_a_styled_frame_is_a_table(self) -> None:
        plain = "<pandas.io.formats.style.Styler at 0x7f0000000000>"
        data = {"text/html": STYLER, "text/plain": plain}
        assert shown(data) == "table 1 row x 1 column\n\ta\np\t1.5"

    def test_a_shape_inside_a_cell_is_ignored(self) -> None:
        data = pandas(heads("", "a"), row("0", "<p>9 rows × 9 columns</p>"))  # noqa: RUF001
        assert shown(data).startswith("table 1 row x 1 column\n")

    def test_unread_rows_are_counted(self) -> None:
        body = "".join(row(str(n), "1") for n in range(5_000))
        assert shown(pandas(heads("", "a"), body)).startswith("table 5,000 rows x 1 column: ")


class TestOthers:
    def test_a_polars_frame_has_types_and_a_leading_shape(self) -> None:
        assert shown({"text/html": POLARS, "text/plain": "shape: (1_000, 2)"}) == (
            'table 1,000 rows x 2 columns: the first 2 rows\na (i64)\tb (str)\n0\t"x"\n1\t"y"'
        )

    def test_a_polars_series_has_one_column(self) -> None:
        html = POLARS.replace("(1_000, 2)", "(1_000,)")
        assert shown({"text/html": html}).startswith("table 1,000 rows x 1 column: ")

    def test_an_r_frame_has_its_shape_in_the_caption(self) -> None:
        assert shown({"text/html": IRKERNEL, "text/plain": "  mpg cyl"}) == (
            "table 2 rows x 2 columns\n\tmpg (dbl)\tcyl (int)\nMazda RX4\t21.0\t6\n"
            "Datsun 710\t22.8\t4"
        )

    def test_a_plain_table_needs_neither_classes_nor_end_tags(self) -> None:
        html = "<TABLE><TR><TH>a<TH>b<TR><TD>1<TD>2<TR><TD>3<TD>4<br>5</TABLE>"
        assert shown({"text/html": html}) == "table 2 rows x 2 columns\na\tb\n1\t2\n3\t4 5"

    def test_a_table_without_headings_has_no_names(self) -> None:
        html = "<table><tr><td>1</td><td>2</td></tr></table>"
        assert shown({"text/html": html}) == "table 1 row x 2 columns\n1\t2"

    def test_a_nested_table_is_shown_as_text(self) -> None:
        html = (
            "<table><tr><th>a</th><th>b</th></tr><tr><td><table><tr><td>in</td></tr></table></td>"
            "<td>2</td></tr></table>"
        )
        assert shown({"text/html": html}).endswith("\na\tb\nin\t2")

    def test_an_unknown_number_of_rows_is_not_stated(self) -> None:
        body = "<tr><td>1</td><td>2</td></tr>" * 20 + "<tr><td>...</td><td>...</td></tr>"
        html = f"<table><tr><th>a</th><th>b</th></tr>{body}</table>"
        assert shown({"text/html": html}).startswith("table of 2 columns: the first 5 rows\n")

    @pytest.mark.parametrize(
        "data",
        [
            {},
            {"text/plain": "<table>"},
            {"text/html": "<b>no</b>"},
            {"text/html": "<table></table>"},
            {"text/html": "<script>x = '<table><tr><td>1<td>2'</script>"},
            {"text/html": "<table><tr><td>layout</td></tr></table>"},
            {"text/html": "<table><tr><td>a<td>b</table>", "text/plain": "Estimator()"},
        ],
    )
    def test_data_that_is_not_a_table_is_not_parsed(self, data: dict[str, Any]) -> None:
        assert table(data) is None


class TestResource:
    DATA: ClassVar[dict[str, Any]] = {
        "schema": {
            "fields": [{"name": "index", "type": "integer"}, {"name": "a", "type": "number"}],
            "primaryKey": ["index"],
        },
        "data": [{"index": number, "a": number / 2} for number in range(7)],
    }

    def test_the_schema_names_columns_and_types(self) -> None:
        assert shown({"application/vnd.dataresource+json": self.DATA}) == (
            "table 7 rows x 1 column\n\ta (number)\n"
            "0\t0.0\n1\t0.5\n2\t1.0\n3\t1.5\n4\t2.0\n5\t2.5\n6\t3.0"
        )

    def test_the_row_count_comes_from_the_accompanying_text(self) -> None:
        data = {
            "application/vnd.dataresource+json": self.DATA,
            "text/plain": "...\n\n[1000 rows x 1 columns]",
        }
        assert shown(data).startswith("table 1,000 rows x 1 column: the first 5 rows\n")

    def test_a_malformed_resource_falls_back_to_the_html(self) -> None:
        data = {"application/vnd.dataresource+json": {"schema": []}, "text/html": POLARS}
        assert shown(data).startswith("table 1,000 rows x 2 columns")


class TestBounds:
    def test_a_cell_is_one_short_line(self) -> None:
        data = pandas(heads("", "a"), row("0", "x\ny\tz " + "w" * 100))
        text = shown(data)
        assert text.splitlines()[2].startswith("0\tx y z www")
        assert len(text.splitlines()[2]) <= 2 + 60
        found = table(data)
        assert found
        assert not describe(found, 500).whole
        everything = entire(found)
        assert everything
        assert everything.body.endswith("w" * 100)

    def test_rows_are_left_out_before_columns(self) -> None:
        assert shown(LONG, 30) == (
            "table 1,000 rows x 2 columns: the first 2 rows\n\ta\tb\n0\t0\ttext 0\n1\t2\ttext 1"
        )
        assert shown(LONG, 5).splitlines()[0].endswith(": none of the rows")

    def test_columns_are_left_out_before_rows_while_lines_stay_readable(self) -> None:
        cells = [f"value-{n:02}" for n in range(30)]
        data = pandas(heads("", *cells), "".join(row(str(n), *cells) for n in range(20)))
        lines = shown(data, 3_000).splitlines()
        assert lines[0] == "table 20 rows x 30 columns: the first 15 columns"
        assert len(lines) == 22
        lines = shown(data, 500).splitlines()
        assert lines[0] == "table 20 rows x 30 columns: the first 3 rows and the first 13 columns"

    def test_large_styles_and_scripts_take_no_time(self) -> None:
        html = f"<style>{'a { b: c }' * 300_000}</style>{STYLER}{'<i>x</i>' * 200_000}"
        begun = time.process_time()
        assert shown({"text/html": html}).startswith("table ")
        assert time.process_time() - begun < _HANG

    @pytest.mark.parametrize(
        "piece", ["<", "<a ", "<!--", "<![", "</", "<a\n", "<tr>", "<td>", "<table>",
                  "<td colspan=99999 rowspan=99999>", "<thead><tr><th>", "&", "<caption>x"],
    )  # fmt: skip
    def test_malformed_html_takes_bounded_time(self, piece: str) -> None:
        begun = time.process_time()
        found = table({"text/html": "<table><tr><td>1<td>2" + piece * (3_000_000 // len(piece))})
        assert not found or describe(found, 500)
        assert time.process_time() - begun < _HANG

    @given(
        st.lists(
            st.sampled_from(
                ["<table>", "<thead>", "</thead>", "<tr>", "<th>", "<td rowspan=2>", "<td>",
                 "<td colspan=3>", "</td>", "</table>", "...", "a", "\n\t", "<!x", "<small>shape: "
                 "(1, 2)</small>", "<p>3 rows x 4 columns</p>", "<script>", "</script>"]
            ),
            max_size=30,
        ),
        st.integers(0, 200),
    )  # fmt: skip
    def test_any_html_is_described_within_its_limit(self, pieces: list[str], limit: int) -> None:
        found = table({"text/html": "<table>" + "".join(pieces)})
        if found:
            made = describe(found, limit)
            assert len(made.body) <= limit
            assert len(made.title) <= 120

    @given(st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["schema", "data", "fields", "name", "type", "primaryKey"]), inner),
        max_leaves=12,
    ))  # fmt: skip
    def test_any_resource_can_be_read(self, resource: Any) -> None:
        found = table({"application/vnd.dataresource+json": resource})
        assert not found or describe(found, 100)
