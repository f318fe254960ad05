"""Orders of a shop, with tables and plots that look as those of the usual libraries do.

The notebooks of the day import it; it is copied beside them.
"""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from IPython.display import display


class Table:
    """Rows and columns, shown as a data frame is: at most twenty columns, wrapped at 80."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.columns, self.rows = columns, rows

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        if name not in self.columns:
            raise KeyError(name)
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def by(self, name: str) -> Table:
        groups: dict[str, list[int]] = {}
        for row in self.rows:
            groups.setdefault(row[self.columns.index(name)], []).append(row[-1])
        sums = [(key, len(v), sum(v), max(v)) for key, v in sorted(groups.items())]
        return Table([name, "orders", "total", "largest"], sums)

    def __repr__(self) -> str:
        texts = [[str(cell) for cell in row] for row in self._shown()]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        blocks, start = [], 1
        while start < len(widths):
            end, width = start, widths[0]
            while end < len(widths) and width + widths[end] + 2 <= 80:
                width += widths[end] + 2
                end += 1
            lines = [_line(row, widths, [0, *range(start, end)]) for row in texts]
            lines[0] += "  \\" if end < len(widths) else ""
            blocks.append("\n".join(lines))
            start = end
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        names, *rows = self._shown()
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows
        )
        return f'<table border="1" class="dataframe"><thead><tr>{head}</tr></thead>{body}</table>'

    def _shown(self) -> list[list[Any]]:
        shown = [["", *self.columns], *([n, *row] for n, row in enumerate(self.rows))]
        if len(self.columns) > 20:
            for row in shown:
                row[11:-10] = ["..."]
        return shown


def _line(row: list[str], widths: list[int], columns: list[int]) -> str:
    return "  ".join(row[at].rjust(widths[at]) for at in columns)


def orders(region: str) -> Table:
    """A year's orders of a region; always the same."""
    made = random.Random(region)
    months = [f"2026-{month:02d}" for month in range(1, 13)]
    rows = []
    for _ in range(240):
        customer = f"c{made.randrange(40):03d}"
        rows.append((made.choice(months), customer, made.randrange(1, 9), made.randrange(400)))
    return Table(["month", "customer", "items", "amount"], rows)


def features(count: int, rows: int) -> Table:
    """Random numbers in many columns; always the same."""
    made = random.Random(count)
    names = [f"feature_{n:02d}" for n in range(count)]
    return Table(names, [[round(made.gauss(0, 1), 4) for _ in names] for _ in range(rows)])


def plot(values: Sequence[float], width: int = 640, height: int = 480) -> None:
    """Show values as bars."""
    pixels = [bytearray(b"\xff" * width * 3) for _ in range(height)]
    made, top = random.Random(len(values)), max(values)
    for x in range(width):
        value = values[x * len(values) // width]
        for y in range(height - int(value / top * height * 0.9), height):
            pixels[y][x * 3 : x * 3 + 3] = bytes((31, 119, 180 + made.randrange(20)))
    rows = b"".join(b"\0" + bytes(row) for row in pixels)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows),
        b"IEND": b"",
    }
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks.items())
    shown = {
        "image/png": base64.b64encode(png).decode(),
        "text/plain": "<Figure size 640x480 with 1 Axes>",
    }
    display(shown, raw=True)  # type: ignore[no-untyped-call]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
