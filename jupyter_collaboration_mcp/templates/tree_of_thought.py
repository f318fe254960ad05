# %% [markdown]
# # Tree of thought
#
# Explore several lines of thought at once, judge each partial one, and pursue only the best: for
# problems where the first idea is often a dead end and partial answers can be judged.
#
# The example makes a target from some numbers. For a problem of your own, replace `propose` (the
# next thoughts after a thought), `evaluate` (how promising a thought is) and `is_solved`.

# %% tags=["parameters"]
numbers = [4, 9, 10, 13]  # each is used once
target = 24  # what to reach with + - * /
breadth = 30  # thoughts that are pursued at each level
shown = 3  # of them, how many to print

# %%
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations


@dataclass(frozen=True)
class Thought:
    """A partial solution: what is left to combine, and the steps that led here."""

    left: tuple
    steps: tuple = ()


def start():
    return Thought(tuple(Fraction(str(number)) for number in numbers))


# %% [markdown]
# ## The problem: next thoughts, and how good they are


# %%
def propose(thought):
    """All thoughts that are one step further: combine any two of what is left."""
    for i, j in combinations(range(len(thought.left)), 2):
        a, b = thought.left[i], thought.left[j]
        rest = tuple(x for n, x in enumerate(thought.left) if n not in (i, j))
        results = {f"{a} + {b}": a + b, f"{a} * {b}": a * b}
        results |= {f"{a} - {b}": a - b, f"{b} - {a}": b - a}
        results |= {f"{a} / {b}": a / b} if b else {}
        results |= {f"{b} / {a}": b / a} if a else {}
        for step, value in results.items():
            yield Thought((*rest, value), (*thought.steps, f"{step} = {value}"))


def evaluate(thought):
    """Higher is better: how near the best last step would come to the target."""
    goal = Fraction(str(target))
    if len(thought.left) == 1:
        return -abs(thought.left[0] - goal)
    if len(thought.left) == 2:
        return max(-abs(each.left[0] - goal) for each in propose(thought))
    return -min(abs(x - goal) for x in thought.left)


def is_solved(thought):
    return thought.left == (Fraction(str(target)),)


# %% [markdown]
# ## The search: level by level, the most promising thoughts only

# %%
level, solution, judged = [start()], None, 0
for depth in range(1, len(numbers)):
    candidates = {each.left: each for thought in level for each in propose(thought)}.values()
    judged += len(candidates)
    level = sorted(candidates, key=evaluate, reverse=True)[:breadth]
    print(f"Level {depth}: {len(candidates)} thoughts, {len(level)} pursued. The best:")
    for thought in level[:shown]:
        print(f"  {float(evaluate(thought)):8.2f}  {'; '.join(thought.steps)}")
    solution = next((thought for thought in level if is_solved(thought)), None)
    if solution:
        break

# %%
if solution:
    print(f"Solved after judging {judged} thoughts:")
    print("\n".join(f"  {step}" for step in solution.steps))
else:
    print(f"Not solved among {judged} thoughts. Try a larger breadth, or a better evaluate().")
