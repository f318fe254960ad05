# %% [markdown]
# # OODA loop
#
# Observe, orient, decide, act, and again: for situations that change while you work on them, such
# as an incident. Each observation updates how likely each hypothesis is, until one is likely enough
# to act on.
#
# Give your own hypotheses and observations. A likelihood is how probable the observation would be
# if the hypothesis were true.

# %% tags=["parameters"]
situation = "Nightly job takes three times as long as last week"
hypotheses = {"more data": 0.4, "slow disk": 0.3, "new release": 0.3}  # how likely at first
observations = [
    {"seen": "Row counts are as last week",
     "likelihood": {"more data": 0.05, "slow disk": 0.9, "new release": 0.9}},
    {"seen": "Only one of five steps is slower",
     "likelihood": {"more data": 0.2, "slow disk": 0.1, "new release": 0.8}},
    {"seen": "That step was rewritten in the release",
     "likelihood": {"more data": 0.1, "slow disk": 0.1, "new release": 0.9}},
]
actions = {"more data": "Partition the table", "slow disk": "Move to the other volume",
           "new release": "Roll the step back"}
threshold = 0.9  # how likely a hypothesis must be to act on it

# %%
import math

if not hypotheses or min(hypotheses.values()) < 0 or not sum(hypotheses.values()):
    raise ValueError("Give at least one hypothesis that is possible at all.")
total = sum(hypotheses.values())
belief = {name: value / total for name, value in hypotheses.items()}


def orient(belief, likelihood):
    """Bayes: what is believed after an observation."""
    weights = {name: value * likelihood.get(name, 0.5) for name, value in belief.items()}
    total = sum(weights.values())
    if not total:
        raise ValueError("No hypothesis explains this observation: add one that does.")
    return {name: weight / total for name, weight in weights.items()}


def doubt(belief):
    """In bits: 0 if only one hypothesis is left."""
    return -sum(value * math.log2(value) for value in belief.values() if value > 0)


# %% [markdown]
# ## The loop

# %%
log = []
print(f"{situation}\nAt first: " + ", ".join(f"{n} {v:.0%}" for n, v in belief.items()))
for cycle, observation in enumerate(observations, 1):
    before = doubt(belief)
    belief = orient(belief, observation["likelihood"])
    best = max(belief, key=belief.get)
    decision = "act" if belief[best] >= threshold else "observe more"
    log.append((cycle, observation["seen"], best, belief[best], decision))
    print(f"\n{cycle}. Observe: {observation['seen']} ({before - doubt(belief):+.2f} bits learnt)")
    print("   Orient:  " + ", ".join(f"{n} {v:.0%}" for n, v in belief.items()))
    print(f"   Decide:  {decision}")
    if decision == "act":
        print(f"   Act:     {actions.get(best, 'Decide what to do about: ' + best)}")
        break

# %% [markdown]
# ## What to do now

# %%
best = max(belief, key=belief.get)
if belief[best] >= threshold:
    print(f"{best} ({belief[best]:.0%}): {actions.get(best, 'no action is given for it')}.")
    print("Then observe whether that helped, and begin again if it did not.")
else:
    second = sorted(belief, key=belief.get)[-2:][0]
    print(f"Nothing is sure yet: {best} has {belief[best]:.0%}, of {threshold:.0%} needed.")
    print(f"Next, look for something that {best!r} and {second!r} predict differently.")
