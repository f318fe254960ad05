# %% [markdown]
# # Orchestration
#
# Choose how to work on a task: which patterns and tools fit it, in which order, and with how much
# of the time each. Use it before a task that is large enough to deserve a plan.
#
# Describe the task, and rate its traits from 0 to 1 where the words alone do not tell. Edit
# `PATTERNS` to add tools of your own.

# %% tags=["parameters"]
task = "Find out why sales forecasts got worse in March, and report it to the team"
minutes = 90  # for everything
most = 4  # patterns in the plan
traits = {}  # such as {"stakes": 0.9}; see TRAITS below

# %%
#: Words that suggest a trait of a task.
TRAITS = {
    "data": "data csv table dataset sales metric measure distribution column rows",
    "model": "model predict forecast classifier regression accuracy score train",
    "communicate": "report present explain summarise summarize write team slides",
    "choices": "choose decide option alternative design plan versus or which",
    "sequence": "schedule route steps order sequence path generate",
    "opponent": "game negotiate compete react uncertain simulate risk",
    "conflict": "contradict conflict argument evidence reasons trade-off why cause",
    "moving": "incident outage live changing monitor urgent now alert",
    "stakes": "production critical irreversible migrate delete security bug fix",
}

#: Patterns: when they come in a plan, which traits they are for, and what they give.
PATTERNS = {
    "ooda_loop": (1, {"moving": 1.0, "conflict": 0.5}, "hypotheses, updated with each observation"),
    "eda": (1, {"data": 1.0, "model": 0.3}, "what the data are like, and what is wrong with them"),
    "graph_of_thought": (2, {"conflict": 1.0, "choices": 0.3}, "arguments, linked and weighed"),
    "tree_of_thought": (2, {"choices": 1.0, "sequence": 0.3}, "alternatives, judged step by step"),
    "beam_search": (2, {"sequence": 1.0}, "a good sequence out of very many"),
    "mcts": (2, {"opponent": 1.0, "sequence": 0.2}, "the next move, by simulation"),
    "model_evaluation": (3, {"model": 1.0}, "how good predictions are, and where they fail"),
    "ulysses_protocol": (3, {"stakes": 1.0}, "a risky change with limits set in advance"),
    "report": (4, {"communicate": 1.0, "data": 0.2}, "findings that others can use"),
}

# %%
import re

unknown = set(traits) - set(TRAITS)
if unknown:
    raise ValueError(f"Unknown traits: {', '.join(sorted(unknown))}; there are {', '.join(TRAITS)}")
words = re.findall(r"[a-z-]+", task.lower())


def found(trait):
    return [w for w in words if any(w.startswith(part) for part in TRAITS[trait].split())]


rated = {trait: float(traits.get(trait, min(1.0, 0.6 * len(found(trait))))) for trait in TRAITS}
for trait, value in sorted(rated.items(), key=lambda each: -each[1]):
    if value:
        print(f"{value:4.1f}  {trait:12} {', '.join(found(trait)) or 'as given'}")

# %% [markdown]
# ## What fits, and a plan

# %%
fit = {
    name: sum(weight * rated[trait] for trait, weight in wanted.items())
    for name, (_, wanted, _) in PATTERNS.items()
}
ranked = sorted(fit, key=fit.get, reverse=True)
for name in ranked:
    print(f"{fit[name]:4.1f}  {name:18} {PATTERNS[name][2]}")

# %%
chosen = [name for name in ranked if fit[name] >= 0.3][:most] or ["tree_of_thought"]
chosen.sort(key=lambda name: PATTERNS[name][0])
total = sum(fit[name] for name in chosen) or 1.0
print(f"Plan for {minutes} minutes: {task}")
for step, name in enumerate(chosen, 1):
    share = round(minutes * (fit[name] / total if sum(fit.values()) else 1 / len(chosen)))
    print(f"{step}. {name} ({share} min): {PATTERNS[name][2]}")
