"""The notebooks of the day, as a person left them: run, with errors and scratch cells."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import from_dict, write

from tests.harness.notebooks import code, markdown, notebook

SALES, REPORT, TRAINING = "sales.ipynb", "report.ipynb", "training.ipynb"

REGIONS = """
Harbour Northgate Millbrook Ashford Lakeside Riverton Eastfield Westbury Oakham Stonebridge
Fairview Kingsley Marston Newport Thornton Upland Valley Winslow Yarrow
"""

#: A hundred cells: these, and five for each region.
_SALES = '''
%% markdown
# Sales by region

Orders of 2026, one section for each region.
%% code
from shop import Table, features, orders, plot
%% code
discount = 0.05
vat = 0.19
shipping_fee = 4.9
currency = 'EUR'
%% code
def net(amount, discount):
    """What is left of an amount after discount and tax."""
    return round(amount * (1 - discount) / (1 + vat), 2)
%% code
# scratch
net(100, discount)
'''

_SECTION = """
%% markdown
## {region}

Orders of {region} by month. The forecast takes the last months and carries on with their mean; \
see the notes of the sales team.
%% code
orders_{name} = orders('{region}')
print(len(orders_{name}), 'orders')
%% code
months_{name} = orders_{name}.by('month')
months_{name}
%% code
amounts = orders_{name}.column('{column}')
net_{name} = sum(net(amount, {rate}) for amount in amounts){fee}
largest = max(amounts)
print(f'{region}: {{net_{name}:.2f}} {{currency}} net, largest {{largest}}')
%% code
{scratch}def forecast_{name}(ahead=3, window=6):
    totals = months_{name}.column('total')[-window:]
    for _ in range(ahead):
        totals.append(round(sum(totals[-window:]) / window))
    return totals[-ahead:]

forecast_{name}()
"""

#: Prose and small computations.
_REPORT = """
%% markdown
# Yearly report

For the board.
%% code
from shop import Table, features, orders, plot
%% markdown
## Load

Here we recieve the orders of two regions.
%% code
north, south = orders('Northgate'), orders('Upland')
len(north), len(south)
%% markdown
## Months

The totals of each month.
%% code
by_month = north.by('month')
by_month
%% markdown
## Customers

Who did recieve most goods.
%% code
best = sorted(north.by('customer').rows, key=lambda row: -row[2])[:5]
for name, count, total, _ in best:
    print(name, count, total)
%% markdown
## Growth

From the first half to the second.
%% code
totals = by_month.column('total')
growth = sum(totals[6:]) / sum(totals[:6]) - 1
print(f'{growth:+.1%}')
%% markdown
## Returns

Goods that we recieve back.
%% code
returned = [row for row in south.rows if row[3] < 20]
len(returned)
%% code
The figures of the south are preliminary.
Ask the sales team before you publish.
%% markdown
## Conclusion

A good year in the north.
%% code
plot(totals)
%% markdown
Made by the data team; we recieve comments until Friday.
"""

#: A model that is trained; the last run of the notebook stopped in the middle.
_TRAINING = """
%% markdown
# Training

A model on 60 features.
%% code
from shop import Table, features, orders, plot
%% code
data = features(60, 40)
len(data)
%% code
def scale(values):
    low, high = min(values), max(values)
    return [(value - low) / (high - low) for value in values]
%% code
scaled = {name: scale(data.column(name)) for name in data.columns}
len(scaled)
%% code
means = {name: sum(column) / len(colum) for name, column in scaled.items()}
print(len(means), 'means')
%% markdown
## Fit
%% code
import time

losses = []
for epoch in range(1, 121):
    losses.append(round(2 / epoch**0.5, 4))
    print(f'epoch {epoch:3d}/120 loss {losses[-1]:.4f}', flush=True)
    time.sleep(0.03)
%% code
plot(losses)
%% code
for step in range(4_000):
    print(f'step {step:05d} lr=0.001 gradient={step % 97 / 97:.6f} ok')
print('finished: 4000 steps, 0 skipped')
%% code
data
%% code
best = min(losses)
print('best loss', best)
"""


def make(root: Path) -> None:
    """Write all of it into a folder, run by a kernel of this environment."""
    shutil.copy(Path(__file__).parent / "shop.py", root)
    sections = (_section(number, region) for number, region in enumerate(REGIONS.split()))
    _run(root / SALES, _SALES + "".join(sections))
    _run(root / REPORT, _REPORT)
    _run(root / TRAINING, _TRAINING, stops=True)


def _section(number: int, region: str) -> str:
    name = region.lower()
    return _SECTION.format(
        region=region,
        name=name,
        column="price" if region == "Stonebridge" else "amount",
        rate="discount" if number % 3 == 0 else "0",
        fee=f"\nfees_{name} = shipping_fee * len(orders_{name})" if number in (4, 11) else "",
        scratch="# scratch\n" if number % 5 == 1 else "",
    )


def _run(file: Path, text: str, stops: bool = False) -> None:
    """Write a notebook of which all cells were run, or those up to the first error."""
    node = from_dict(notebook(_cells(file.stem, text)))  # type: ignore[no-untyped-call]
    client = NotebookClient(
        node,
        allow_errors=not stops,
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(file.parent)}},
    )
    try:
        client.execute()
    except CellExecutionError:
        if not stops:
            raise
    write(node, file)  # type: ignore[no-untyped-call]


def _cells(name: str, text: str) -> list[dict[str, Any]]:
    made = []
    _, *parts = re.split(r"^%% (code|markdown)\n", text, flags=re.MULTILINE)
    for number, (kind, source) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        # As JupyterLab makes ids.
        cell_id = str(uuid5(NAMESPACE_URL, f"{name}/{number}"))
        made.append((code if kind == "code" else markdown)(cell_id, source.strip("\n")))
    return made
