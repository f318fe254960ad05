# %% [markdown]
# # Beam search
#
# Build an answer step by step and keep the few best unfinished ones: for long sequences of choices
# where the greedy choice is often wrong and trying everything is impossible.
#
# The example splits text without spaces into words. For a problem of your own, replace `expand`
# (the next choices and what each adds to the score) and `is_done`.

# %% tags=["parameters"]
text = "themendinehere"  # letters to split into words
width = 3  # unfinished answers that are kept at each step
frequencies = {  # words, and how often they occur
    "the": 300, "them": 400, "theme": 5, "men": 60, "mend": 2, "end": 50, "dine": 4, "in": 300,
    "he": 90, "here": 70, "her": 80, "ere": 1, "me": 60, "din": 1, "eh": 1, "re": 1,
}

# %%
import heapq
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    choices: tuple = ()
    score: float = 0.0  # a sum of logarithms: higher is better


def beam_search(expand, is_done, width, most_steps=100):
    """The best finished candidates, the best first, and a trace of each step."""
    beam, finished, trace = [Candidate()], [], []
    for _ in range(most_steps):
        candidates = [
            Candidate((*each.choices, choice), each.score + gain)
            for each in beam
            for choice, gain in expand(each)
        ]
        finished += [each for each in candidates if is_done(each)]
        open_ones = [each for each in candidates if not is_done(each)]
        beam = heapq.nlargest(width, open_ones, key=lambda each: each.score)
        trace.append((len(candidates), beam))
        if not beam:
            break
    return sorted(finished, key=lambda each: each.score, reverse=True), trace


# %% [markdown]
# ## The problem

# %%
total = sum(frequencies.values())


def expand(candidate):
    """Words that the rest of the text begins with; an unknown letter is possible, but costs a lot."""
    rest = text[sum(map(len, candidate.choices)) :]
    for word, count in frequencies.items():
        if rest.startswith(word):
            yield word, math.log(count / total)
    yield rest[:1], math.log(1e-6)


def is_done(candidate):
    return sum(map(len, candidate.choices)) >= len(text)


# %% [markdown]
# ## The search, and how much the width matters

# %%
finished, trace = beam_search(expand, is_done, width)
for step, (count, beam) in enumerate(trace, 1):
    kept = "; ".join(" ".join(each.choices) for each in beam) or "-"
    print(f"Step {step}: {count} candidates, kept: {kept}")

# %%
for each in finished[:5]:
    print(f"{each.score:8.2f}  {' '.join(each.choices)}")

# %%
for other in sorted({1, width, 2 * width, 10 * width}):
    best = beam_search(expand, is_done, other)[0][0]
    print(f"width {other:3}: {best.score:8.2f}  {' '.join(best.choices)}")
