# %% [markdown]
# # Report
#
# Findings in a form that others can use: the answer first, then each claim with its evidence and
# how sure it is, what it does not cover, and what to do next.
#
# Fill in the parameters and run the cells; name an `output` file to keep the report as Markdown.

# %% tags=["parameters"]
title = "Why forecasts got worse in March"
question = "What changed, and what should we do?"
answer = "Two shops changed their opening hours; the model does not know opening hours."
findings = [
    {"claim": "The error doubled in two shops only", "evidence": "MAE by shop, cells 4 to 6",
     "confidence": 0.95},
    {"claim": "Both shops open on Sundays since March", "evidence": "Shop calendar",
     "confidence": 0.9},
    {"claim": "Opening hours explain most of the error", "evidence": "Refit with hours: -70 %",
     "confidence": 0.7},
]
limits = ["Data end on 31 March", "Only shops with more than a year of data"]
next_steps = ["Add opening hours to the model", "Compare again at the end of April"]
author = ""
output = ""  # a file for the report, such as report.md

# %%
from datetime import date

WORDS = [(0.9, "almost certain"), (0.7, "likely"), (0.4, "possible"), (0.0, "doubtful")]


def sure(confidence):
    return next(word for least, word in WORDS if confidence >= least)


unsupported = [each["claim"] for each in findings if not str(each.get("evidence", "")).strip()]
wrong = [each for each in findings if not 0 <= float(each.get("confidence", 0.5)) <= 1]
if wrong:
    raise ValueError(f"A confidence must be from 0 to 1: {wrong[0]}")

# %%
ranked = sorted(findings, key=lambda each: -float(each.get("confidence", 0.5)))
lines = [f"# {title}", "", f"{date.today():%Y-%m-%d}{f', {author}' if author else ''}", ""]
lines += [f"**{question}** {answer}", "", "| finding | evidence | |", "| --- | --- | --- |"]
for each in ranked:
    cells = [each["claim"], each.get("evidence") or "**none**"]
    cells.append(f"{sure(float(each.get('confidence', 0.5)))}")
    lines.append("| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |")
if limits:
    lines += ["", "## Limits", "", *(f"- {each}" for each in limits)]
if next_steps:
    lines += ["", "## Next steps", "", *(f"{n}. {each}" for n, each in enumerate(next_steps, 1))]
text = "\n".join(lines) + "\n"

# %%
from IPython.display import Markdown, display

display(Markdown(text))

# %% [markdown]
# ## Before you send it

# %%
if unsupported:
    print("Without evidence: " + "; ".join(unsupported))
weak = [each["claim"] for each in findings if float(each.get("confidence", 0.5)) < 0.4]
if weak:
    print("Doubtful, say so or leave it out: " + "; ".join(weak))
if output:
    from pathlib import Path

    Path(output).write_text(text, encoding="utf-8")
    print(f"Written to {output}.")
if not (unsupported or weak):
    print("Each finding has evidence and none is doubtful.")
