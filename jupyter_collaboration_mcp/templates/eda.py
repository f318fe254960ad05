# %% [markdown]
# # First look at a table
#
# What is in a CSV file, and what is wrong with it: types, missing values, duplicates, outliers,
# distributions and correlations. Without a file, it looks at some sample data.
#
# It needs only the standard library; plots appear where matplotlib is installed.

# %% tags=["parameters"]
path = ""  # a CSV file; empty: sample data
target = ""  # a column that the others may explain
max_rows = 100_000  # rows that are read
delimiter = ""  # empty: found out

# %%
import csv
import math
import random
import statistics
from collections import Counter
from itertools import combinations, islice

MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}


def sample():
    """Sales of a shop, with the usual faults."""
    chance = random.Random(7)
    for day in range(200):
        shop, price = chance.choice(["North", "South", "East"]), chance.uniform(2, 9)
        sold = max(0, round(120 - 9 * price + chance.gauss(0, 8)))
        yield {
            "day": str(day),
            "shop": "" if day % 40 == 3 else shop,
            "price": f"{price:.2f}",
            "sold": "" if day % 25 == 4 else str(sold * (20 if day == 77 else 1)),
        }


def read():
    if not path:
        yield from sample()
        return
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        head = file.read(20_000)
        file.seek(0)
        try:
            dialect = csv.Sniffer().sniff(head, delimiter or ",;\t|")
        except csv.Error:
            dialect = csv.excel
        reader = csv.DictReader(file, dialect=dialect)
        if delimiter:
            reader.reader = csv.reader(file, dialect, delimiter=delimiter)
        yield from reader


def number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


rows = list(islice(read(), max_rows))
columns = [name for name in rows[0] if name is not None] if rows else []
texts = {name: [(row.get(name) or "").strip() for row in rows] for name in columns}
missing = {name: sum(t.lower() in MISSING for t in texts[name]) for name in columns}
numbers = {}
for name in columns:
    values = [None if t.lower() in MISSING else number(t) for t in texts[name]]
    known = sum(value is not None for value in values)
    if known and known == len(rows) - missing[name]:
        numbers[name] = values
if target and target not in columns:
    raise ValueError(f"There is no column {target!r}; there are: {', '.join(columns)}")
print(f"{len(rows):,} rows{' (there may be more)' if len(rows) == max_rows else ''}, ", end="")
print(f"{len(columns)} columns, {len(numbers)} of them numbers; {path or 'sample data'}")

# %% [markdown]
# ## Columns

# %%
for name in columns:
    line = f"{name}: {missing[name] / max(1, len(rows)):.0%} missing, "
    if name in numbers:
        known = sorted(value for value in numbers[name] if value is not None)
        low, median, high = known[0], statistics.median(known), known[-1]
        spread = statistics.pstdev(known)
        line += f"from {low:g} to {high:g}, median {median:g}, "
        line += f"mean {statistics.fmean(known):.4g}, standard deviation {spread:.4g}"
    else:
        counts = Counter(t for t in texts[name] if t.lower() not in MISSING)
        top = ", ".join(f"{text[:30]!r} {count}" for text, count in counts.most_common(4))
        line += f"{len(counts)} different: {top}"
    print(line)

# %% [markdown]
# ## What may be wrong

# %%
faults = []
repeated = len(rows) - len({tuple(row.get(name) for name in columns) for row in rows})
if repeated:
    faults.append(f"{repeated} rows occur more than once.")
for name in columns:
    if missing[name] > 0.2 * len(rows):
        faults.append(f"{name}: {missing[name]} of {len(rows)} values are missing.")
    if len(set(texts[name])) == 1:
        faults.append(f"{name}: all values are the same.")
    if name not in numbers:
        as_number = sum(number(t) is not None for t in texts[name])
        if as_number > 0.5 * len(rows):
            odd = next(t for t in texts[name] if t.lower() not in MISSING and number(t) is None)
            faults.append(f"{name}: nearly all are numbers, but not {odd[:30]!r}.")
for name, values in numbers.items():
    known = [value for value in values if value is not None]
    if len(known) >= 8:
        first, _, third = statistics.quantiles(known, n=4)
        reach = 3 * (third - first)
        far = [value for value in known if not first - reach <= value <= third + reach]
        if far and reach:
            faults.append(f"{name}: {len(far)} far outside, such as {far[0]:g}.")
print("\n".join(faults) or "Nothing that catches the eye.")

# %% [markdown]
# ## How columns go together


# %%
def correlation(a, b):
    pairs = [(x, y) for x, y in zip(a, b) if x is not None and y is not None]
    try:
        return statistics.correlation(*map(list, zip(*pairs))) if len(pairs) > 2 else None
    except statistics.StatisticsError:  # one of them never changes
        return None


found = []
for a, b in combinations(numbers, 2):
    if not target or target in (a, b):
        r = correlation(numbers[a], numbers[b])
        if r is not None:
            found.append((r, a, b))
for r, a, b in sorted(found, key=lambda each: -abs(each[0]))[:15]:
    print(f"{r:+.2f}  {a}, {b}")
if target in numbers:
    for name in (name for name in columns if name not in numbers):
        groups = {}
        for text, value in zip(texts[name], numbers[target]):
            if value is not None and text.lower() not in MISSING:
                groups.setdefault(text, []).append(value)
        if 1 < len(groups) <= 20:
            means = sorted((statistics.fmean(v), g) for g, v in groups.items())
            print(f"{target} by {name}: " + ", ".join(f"{g[:20]} {mean:.4g}" for mean, g in means))

# %% [markdown]
# ## Distributions

# %%
try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None
shown = list(numbers)[:9]
if plt and shown:
    across = min(3, len(shown))
    down = math.ceil(len(shown) / across)
    figure, axes = plt.subplots(down, across, figsize=(4 * across, 2.5 * down), squeeze=False)
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, shown):
        axis.hist([value for value in numbers[name] if value is not None], bins=30)
        axis.set_title(name)
    figure.tight_layout()
    plt.show()
else:
    for name in shown:
        known = [value for value in numbers[name] if value is not None]
        low, width = min(known), (max(known) - min(known)) / 10 or 1
        bins = Counter(min(9, int((value - low) / width)) for value in known)
        print(name)
        for i in range(10):
            bar = "#" * round(40 * bins[i] / max(bins.values()))
            print(f"  {low + i * width:12.4g} {bar} {bins[i] or ''}")
