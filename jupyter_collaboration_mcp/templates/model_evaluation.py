# %% [markdown]
# # How good are the predictions?
#
# Compare what a model predicted with what is true: accuracy and errors with their uncertainty, a
# baseline to beat, and the cases in which it is wrong. Works for classes and for numbers.
#
# Give a CSV file with a column for each of the two. Without a file, it evaluates a sample.

# %% tags=["parameters"]
path = ""  # a CSV file; empty: sample data
actual = "actual"  # the column with what is true
predicted = "predicted"  # the column with what was predicted
kind = "auto"  # classes, numbers, or auto
group = ""  # a column by which to compare, such as a region
resamples = 500  # for the uncertainty
seed = 0

# %%
import csv
import math
import random
import statistics
from collections import Counter

chance = random.Random(seed)


def sample():
    source = random.Random(3)
    for number in range(300):
        truth = source.random() < 0.3
        right = source.random() < (0.75 if truth else 0.92)
        answer = truth if right else not truth
        names = {True: "churn", False: "stay"}
        yield {actual: names[truth], predicted: names[answer], "region": "NSEW"[number % 4]}


if path:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = list(csv.DictReader(file))
else:
    rows = list(sample())
if not rows:
    raise ValueError(f"{path!r} has no rows.")
for name in filter(None, (actual, predicted, group)):
    if name not in rows[0]:
        raise ValueError(f"There is no column {name!r}; there are: {', '.join(rows[0])}")
complete = [row for row in rows if (row[actual] or "").strip() and (row[predicted] or "").strip()]


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


if not complete:
    raise ValueError("No row has both an actual and a predicted value.")
truths = [row[actual].strip() for row in complete]
answers = [row[predicted].strip() for row in complete]
if kind == "auto":
    many = len(set(truths)) > 20
    kind = "numbers" if many and all(map(is_number, truths + answers)) else "classes"
if kind == "numbers":
    truths, answers = [float(t) for t in truths], [float(a) for a in answers]
pairs = list(zip(truths, answers))
print(f"{len(pairs):,} predictions of {kind}; {len(rows) - len(pairs)} rows are incomplete")

# %% [markdown]
# ## In one number, and compared with a baseline

# %%
if kind == "classes":
    common = Counter(truths).most_common(1)[0][0]
    measure, better = "accuracy", "higher"

    def score(pairs):
        return sum(t == a for t, a in pairs) / len(pairs)

    baseline = score([(t, common) for t in truths])
    simple = f"always {common!r}"
else:
    middle = statistics.median(truths)
    measure, better = "mean absolute error", "lower"

    def score(pairs):
        return statistics.fmean(abs(t - a) for t, a in pairs)

    baseline = score([(t, middle) for t in truths])
    simple = f"always the median, {middle:.4g}"

drawn = sorted(score(chance.choices(pairs, k=len(pairs))) for _ in range(max(40, resamples)))
low, high = drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn))]
print(f"{measure}: {score(pairs):.4g} ({low:.4g} to {high:.4g} with 95 % confidence)")
print(f"baseline ({simple}): {baseline:.4g}; {better} is better")
beats = low > baseline if kind == "classes" else high < baseline
print("It beats the baseline." if beats else "It does not clearly beat the baseline.")

# %% [markdown]
# ## Where it is wrong

# %%
if kind == "classes":
    labels = sorted(set(truths) | set(answers))
    counts = Counter(pairs)
    for label in labels[:30]:
        hits = counts[label, label]
        said = sum(counts[other, label] for other in labels)
        there = sum(counts[label, other] for other in labels)
        precision, recall = hits / said if said else 0.0, hits / there if there else 0.0
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        print(f"{label}: precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}, {there} cases")
    wrong = Counter({pair: n for pair, n in counts.items() if pair[0] != pair[1]})
    for (truth, answer), count in wrong.most_common(10):
        print(f"  {count} times {truth!r} was taken for {answer!r}")
else:
    errors = [a - t for t, a in pairs]
    squares = sum(e * e for e in errors)
    mean = statistics.fmean(truths)
    around = sum((t - mean) ** 2 for t in truths)
    print(f"RMSE {math.sqrt(squares / len(errors)):.4g}, bias {statistics.fmean(errors):+.4g}", end="")
    print(f", R2 {1 - squares / around:.3f}" if around else "")
    for truth, answer in sorted(pairs, key=lambda p: -abs(p[0] - p[1]))[:5]:
        print(f"  {truth:g} was predicted as {answer:g}")

# %% [markdown]
# ## By group

# %%
if group:
    parts = {}
    for row, pair in zip(complete, pairs):
        parts.setdefault(row[group], []).append(pair)
    for name, part in sorted(parts.items(), key=lambda each: score(each[1]))[:30]:
        print(f"{name}: {measure} {score(part):.4g}, {len(part)} cases")
else:
    print("Give the parameter group to compare parts of the data.")
