"""Tables as text: small ones whole, of large ones the shape, the columns and the first rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .html_tables import DATA_FRAME, MOST_ROWS, from_html, shape_after
from .outputs import TABLE, compact, joined, says_something
from .table_text import Table, one_line


def table(data: Mapping[str, Any]) -> Table | None:
    """The table in a mime bundle, if it holds one."""
    resource = data.get(TABLE)
    if isinstance(resource, Mapping) and (found := _from_resource(resource, data)):
        return found
    return from_html(joined(data.get("text/html")), says_something(data))


def in_full(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What there is to read of a mime bundle: a data frame is in its plain text already."""
    html = joined(data.get("text/html"))
    start = html.find("<table")
    of_a_frame = start >= 0 and DATA_FRAME.match(html, start) and html.rfind("<table") == start
    repeats = ("text/html", TABLE) if of_a_frame and says_something(data) else ()
    return {mime: value for mime, value in data.items() if mime not in repeats}


# The table schema of frictionless data, which pandas can be told to send


def _from_resource(resource: Mapping[str, Any], data: Mapping[str, Any]) -> Table | None:
    schema, records = resource.get("schema"), resource.get("data")
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not isinstance(records, list):
        return None
    types = {
        str(entry.get("name")): str(entry.get("type") or "")
        for entry in fields
        if isinstance(entry, Mapping)
    }
    keys = schema.get("primaryKey") if isinstance(schema, Mapping) else None
    keys = [keys] if isinstance(keys, str) else keys if isinstance(keys, list) else []
    index = [str(key) for key in keys if str(key) in types]
    names = [name for name in types if name not in index]
    if not types:
        return None
    order = [*index, *names]
    values = [
        [_value(record.get(name)) for name in order]
        for record in records[:MOST_ROWS]
        if isinstance(record, Mapping)
    ]
    # pandas sends at most as many rows as it would show; the other forms say how many there are.
    shape = shape_after(joined(data.get("text/html"))) or _shape_in_plain(data)
    rows = shape[0] if shape else len(records)
    return Table(
        rows=rows,
        columns=len(names),
        names=[one_line(name) for name in names],
        first=[[one_line(value) for value in row] for row in values],
        types=[one_line(types[name]) for name in names],
        index_names=["" if name == "index" else one_line(name) for name in index],
        complete=len(values) == len(records),
    )


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return compact(value)
    return str(value)


def _shape_in_plain(data: Mapping[str, Any]) -> tuple[int, int] | None:
    found = re.search(r"\[(\d+) rows x (\d+) columns\]\s*$", joined(data.get("text/plain"))[-200:])
    return (int(found[1]), int(found[2])) if found else None
