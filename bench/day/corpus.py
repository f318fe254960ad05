"""The notebooks of the day, as a person left them: run, with an error here and scratch cells there."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import from_dict, write

from tests.harness.notebooks import code, markdown, notebook

SALES, REPORT, TRAINING = "sales.ipynb", "report.ipynb", "training.ipynb"

REGIONS = [
    "Harbour",
    "Northgate",
    "Millbrook",
    "Ashford",
    "Lakeside",
    "Riverton",
    "Eastfield",
    "Westbury",
    "Oakham",
    "Stonebridge",
    "Fairview",
    "Kingsley",
    "Marston",
    "Newport",
    "Thornton",
    "Upland",
    "Valley",
    "Winslow",
    "Yarrow",
]

#: What the notebooks import: tables and pictures as data people make them, without their libraries.
SHOP = '''\
"""Orders of a shop, with tables and plots that look as they do everywhere."""

import base64
import random
import struct
import zlib

from IPython.display import display


class Table:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows

    def __len__(self):
        return len(self.rows)

    def column(self, name):
        if name not in self.columns:
            raise KeyError(name)
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def by(self, name):
        groups = {}
        for row in self.rows:
            groups.setdefault(row[self.columns.index(name)], []).append(row[-1])
        sums = [(key, len(v), sum(v), max(v)) for key, v in sorted(groups.items())]
        return Table([name, "orders", "total", "largest"], sums)

    def shown(self):
        columns, rows = list(self.columns), [[n, *row] for n, row in enumerate(self.rows)]
        if len(columns) > 20:
            columns[10:-10] = ["..."]
            for row in rows:
                row[11:-10] = ["..."]
        return [["", *columns], *rows]

    def __repr__(self):
        cells = self.shown()
        texts = [[str(cell) for cell in row] for row in cells]
        widths = [max(map(len, column)) for column in zip(*texts)]
        blocks, start = [], 1
        while start < len(widths):
            end, width = start, widths[0]
            while end < len(widths) and width + widths[end] + 2 <= 80:
                width += widths[end] + 2
                end += 1
            shown = [0, *range(start, max(end, start + 1))]
            lines = ["  ".join(row[at].rjust(widths[at]) for at in shown) for row in texts]
            more = "  \\\\" if shown[-1] < len(widths) - 1 else ""
            blocks.append("\\n".join([lines[0] + more, *lines[1:]]))
            start = shown[-1] + 1
        return "\\n\\n".join(blocks)

    def _repr_html_(self):
        names, *rows = self.shown()
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\\n" for row in rows
        )
        return f'<table border="1" class="dataframe"><thead><tr>{head}</tr></thead>{body}</table>'


def orders(region):
    made = random.Random(region)
    months = [f"2026-{month:02d}" for month in range(1, 13)]
    rows = [
        (made.choice(months), f"c{made.randrange(40):03d}", made.randrange(1, 9), made.randrange(400))
        for _ in range(240)
    ]
    return Table(["month", "customer", "items", "amount"], rows)


def features(count, rows):
    made = random.Random(count)
    names = [f"feature_{n:02d}" for n in range(count)]
    return Table(names, [[round(made.gauss(0, 1), 4) for _ in names] for _ in range(rows)])


def plot(values, width=640, height=480):
    pixels = [bytearray(b"\\xff" * width * 3) for _ in range(height)]
    made, top = random.Random(len(values)), max(values) or 1
    for x in range(width):
        value = values[x * len(values) // width]
        for y in range(height - int(value / top * height * 0.9), height):
            pixels[y][x * 3 : x * 3 + 3] = bytes((31, 119, 180 + made.randrange(20)))
    raw = zlib.compress(b"".join(b"\\0" + bytes(row) for row in pixels))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", raw) + chunk(b"IEND", b"")
    data = {"image/png": base64.b64encode(png).decode(), "text/plain": "<Figure size 640x480 with 1 Axes>"}
    display(data, raw=True)
'''


def sales() -> dict[str, Any]:
    """A hundred cells: five to set up, then five for each of nineteen regions."""
    cells = [
        markdown(
            "sales-title", "# Sales by region\n\nOrders of 2026, one section for each region."
        ),
        code("sales-import", "from shop import Table, features, orders, plot"),
        code("sales-rates", "discount = 0.05\nvat = 0.19\nshipping_fee = 4.9\ncurrency = 'EUR'"),
        code(
            "sales-net",
            "def net(amount, discount):\n"
            '    """What is left of an amount after discount and tax."""\n'
            "    return round(amount * (1 - discount) / (1 + vat), 2)",
        ),
        code("sales-try", "# scratch\nnet(100, discount)"),
    ]
    for number, region in enumerate(REGIONS):
        cells += _section(number, region)
    return notebook(cells)


def _section(number: int, region: str) -> list[dict[str, Any]]:
    name = region.lower()
    rate = "discount" if number % 3 == 0 else "0"
    column = "price" if region == "Stonebridge" else "amount"
    scratch = "# scratch\n" if number % 5 == 1 else ""
    fee = f"\nfees_{name} = shipping_fee * len(orders_{name})" if number in (4, 11) else ""
    return [
        markdown(
            f"{name}-head",
            f"## {region}\n\nOrders of {region} by month. The forecast takes the last months and "
            "carries on with their mean; see the notes of the sales team.",
        ),
        code(
            f"{name}-load",
            f"orders_{name} = orders('{region}')\nprint(len(orders_{name}), 'orders')",
        ),
        code(f"{name}-month", f"months_{name} = orders_{name}.by('month')\nmonths_{name}"),
        code(
            f"{name}-net",
            f"amounts = orders_{name}.column('{column}')\n"
            f"net_{name} = sum(net(amount, {rate}) for amount in amounts){fee}\n"
            f"largest = max(amounts)\n"
            f"print(f'{region}: {{net_{name}:.2f}} {{currency}} net, largest {{largest}}')",
        ),
        code(
            f"{name}-forecast",
            f"{scratch}def forecast_{name}(ahead=3, window=6):\n"
            f"    totals = months_{name}.column('total')[-window:]\n"
            "    for _ in range(ahead):\n"
            "        totals.append(round(sum(totals[-window:]) / window))\n"
            "    return totals[-ahead:]\n\n"
            f"forecast_{name}()",
        ),
    ]


def report() -> dict[str, Any]:
    """Sixteen cells of prose and small computations."""
    parts = [
        ("Load", "Here we recieve the orders of two regions.", "north, south = orders('Northgate'), orders('Upland')\nlen(north), len(south)"),
        ("Months", "The totals of each month.", "by_month = north.by('month')\nby_month"),
        ("Customers", "Who did recieve most goods.", "best = sorted(north.by('customer').rows, key=lambda row: -row[2])[:5]\nfor name, count, total, _ in best:\n    print(name, count, total)"),
        ("Growth", "From the first half to the second.", "totals = by_month.column('total')\ngrowth = sum(totals[6:]) / sum(totals[:6]) - 1\nprint(f'{growth:+.1%}')"),
        ("Returns", "Goods that we recieve back.", "returned = [row for row in south.rows if row[3] < 20]\nlen(returned)"),
    ]  # fmt: skip
    cells = [
        markdown("report-title", "# Yearly report\n\nFor the board."),
        code("report-import", "from shop import Table, features, orders, plot"),
    ]
    for title, text, source in parts:
        name = title.lower()
        cells += [
            markdown(f"report-{name}", f"## {title}\n\n{text}"),
            code(f"report-{name}-code", source),
        ]
    cells += [
        code(
            "report-notes",
            "The figures of the south are preliminary.\nAsk the sales team before you publish.",
        ),
        markdown("report-conclusion", "## Conclusion\n\nA good year in the north."),
        code("report-plot", "plot(totals)"),
        markdown("report-end", "Made by the data team; we recieve comments until Friday."),
    ]
    return notebook(cells)


def training() -> dict[str, Any]:
    """Twelve cells: features, a model that is trained, a log; its last run stopped in the middle."""
    train = (
        "import time\n\nlosses = []\nfor epoch in range(1, 121):\n"
        "    losses.append(round(2 / epoch**0.5, 4))\n"
        "    print(f'epoch {epoch:3d}/120 loss {losses[-1]:.4f}', flush=True)\n"
        "    time.sleep(0.03)"
    )
    return notebook(
        [
            markdown("train-title", "# Training\n\nA model on 60 features."),
            code("train-import", "from shop import Table, features, orders, plot"),
            code("train-data", "data = features(60, 40)\nlen(data)"),
            code("train-scale", "def scale(values):\n    low, high = min(values), max(values)\n    return [(value - low) / (high - low) for value in values]"),
            code("train-scaled", "scaled = {name: scale(data.column(name)) for name in data.columns}\nlen(scaled)"),
            code("train-mean", "means = {name: sum(column) / len(colum) for name, column in scaled.items()}\nprint(len(means), 'means')"),
            markdown("train-fit", "## Fit"),
            code("train-loop", train),
            code("train-losses", "plot(losses)"),
            code("train-log", "for step in range(4_000):\n    print(f'step {step:05d} lr=0.001 gradient={step % 97 / 97:.6f} ok')\nprint('finished: 4000 steps, 0 skipped')"),
            code("train-wide", "data"),
            code("train-best", "best = min(losses)\nprint('best loss', best)"),
        ]
    )  # fmt: skip


def make(root: Path) -> None:
    """Write all of it into a folder, run by a kernel of this environment."""
    (root / "shop.py").write_text(SHOP)
    for path, content, stops in ((SALES, sales(), False), (REPORT, report(), False), (TRAINING, training(), True)):  # fmt: skip
        _run(root, path, content, stops)


def _run(root: Path, path: str, content: dict[str, Any], stops: bool) -> None:
    for cell in content["cells"]:
        # As JupyterLab makes them.
        cell["id"] = str(uuid5(NAMESPACE_URL, cell["id"]))
    node = from_dict(content)
    client = NotebookClient(
        node,
        allow_errors=not stops,
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(root)}},
    )
    try:
        client.execute()
    except CellExecutionError:
        if not stops:
            raise
    write(node, root / path)
