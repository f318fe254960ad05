# %% [markdown]
# # Graph of thought
#
# Write thoughts down with what they build on, then combine, check and rank them: for questions
# where several lines of reasoning meet, or contradict each other.
#
# Give your own thoughts as the parameter. `support` is how sure you are of a thought by itself
# (0 to 1), `from` what it builds on, `against` what it contradicts.

# %% tags=["parameters"]
question = "Should we cache the results of the report query?"
thoughts = {
    "slow": {"text": "The query takes 9 s at noon", "support": 0.95},
    "same": {"text": "Most users ask for the same week", "support": 0.8},
    "stale": {"text": "Numbers may not be older than an hour", "support": 0.9},
    "index": {"text": "An index would make it fast enough", "support": 0.4, "from": ["slow"]},
    "cache": {"text": "Cache for 30 minutes", "support": 0.9, "from": ["slow", "same", "stale"]},
    "night": {"text": "Compute once a night", "support": 0.8, "from": ["same"], "against": ["stale"]},
}

# %%
from graphlib import CycleError, TopologicalSorter

sources = {name: list(each.get("from", [])) for name, each in thoughts.items()}
opposed = {name: list(each.get("against", [])) for name, each in thoughts.items()}
unknown = {
    other
    for named in (sources, opposed)
    for others in named.values()
    for other in others
    if other not in thoughts
}
if unknown:
    raise ValueError(f"Not among the thoughts: {', '.join(sorted(unknown))}")
try:
    order = list(TopologicalSorter(sources).static_order())
except CycleError as error:
    raise ValueError(f"These thoughts build on each other: {' -> '.join(error.args[1])}") from None
print(f"{len(order)} thoughts, {sum(map(len, sources.values()))} links. {question}")

# %% [markdown]
# ## How sure is each thought, with all that it builds on and all that speaks against it?

# %%
belief = {}
for name in order:
    belief[name] = float(thoughts[name].get("support", 0.5))
    for other in sources[name]:
        belief[name] *= belief[other]
against = {name: list(opposed[name]) for name in order}
for name in order:
    for other in opposed[name]:
        against[other].append(name)
net = {
    name: belief[name] * (1 - max((belief[other] for other in against[name]), default=0.0))
    for name in order
}
for name in order:
    built = f" <- {', '.join(sources[name])}" if sources[name] else ""
    versus = f" (against {', '.join(against[name])})" if against[name] else ""
    print(f"{net[name]:5.2f}  {name:8} {thoughts[name]['text']}{built}{versus}")

# %% [markdown]
# ## Conclusions: thoughts that nothing builds on, and what to check first

# %%
used = {other for others in sources.values() for other in others}
conclusions = sorted((n for n in order if n not in used), key=net.get, reverse=True)
for name in conclusions:
    chain, queue = set(), [name]
    while queue:
        each = queue.pop()
        if each not in chain:
            chain.add(each)
            queue += sources[each]
    weakest = min(chain, key=lambda each: float(thoughts[each].get("support", 0.5)))
    print(f"{net[name]:5.2f}  {thoughts[name]['text']}; check first: {thoughts[weakest]['text']!r}")

# %%
from IPython.display import Markdown, display

ids = {name: f"t{number}" for number, name in enumerate(order)}
lines = [f'    {ids[n]}["{str(thoughts[n]["text"]).replace(chr(34), chr(39))}"]' for n in order]
lines += [f"    {ids[a]} --> {ids[b]}" for b in order for a in sources[b]]
lines += [f"    {ids[a]} -. against .- {ids[b]}" for a in order for b in opposed[a]]
display(Markdown("```mermaid\ngraph TD\n" + "\n".join(lines) + "\n```"))
