# %% [markdown]
# # Ulysses protocol
#
# Make a risky change with limits that you set while you are calm: what success is, how many
# attempts there are, and when to stop and roll back. For fixes in production, migrations, and bugs
# that invite one more try.
#
# Replace `check` and the attempts by your own, and run the cells in order. A gate raises an error
# instead of letting you pass unprepared.

# %% tags=["parameters"]
problem = "Totals differ from the ledger by a few cents"
success = "All totals equal the ledger"  # must be checkable
rollback = "Restore the function from the last release"
most_attempts = 3  # then stop, whatever it feels like
minutes = 60  # the same for time

# %%
import time
from dataclasses import dataclass, field
from decimal import Decimal


class GateClosed(Exception):
    """You are about to break what you promised yourself."""


@dataclass
class Protocol:
    problem: str
    success: str
    rollback: str
    most_attempts: int
    minutes: float
    started: float = field(default_factory=time.monotonic)
    facts: list = field(default_factory=list)
    log: list = field(default_factory=list)
    solved: bool = False

    def learn(self, fact):
        """Phase 1, reconnaissance: what is known, before anything is changed."""
        self.facts.append(fact)

    def attempt(self, hypothesis, change, undo, check):
        """Phase 3, one controlled change: checked at once, and undone if it fails."""
        if len(self.facts) < 2:
            raise GateClosed("Learn at least two facts before you change anything.")
        if not (self.success and self.rollback):
            raise GateClosed("Write down what success is and how to roll back.")
        if self.solved:
            raise GateClosed("It is solved. Do not improve it now.")
        if len(self.log) >= self.most_attempts:
            raise GateClosed(f"{len(self.log)} attempts were made. Ask somebody: {self.rollback}")
        if time.monotonic() - self.started > 60 * self.minutes:
            raise GateClosed(f"The time is over. Stop: {self.rollback}")
        change()
        self.solved = bool(check())
        if not self.solved:
            undo()
        self.log.append((hypothesis, self.solved))
        return self.solved

    def report(self):
        yield f"Problem: {self.problem}. Success: {self.success}."
        yield from (f"Known: {fact}" for fact in self.facts)
        for number, (hypothesis, worked) in enumerate(self.log, 1):
            yield f"Attempt {number}: {hypothesis}: {'worked' if worked else 'failed, undone'}"
        left = self.most_attempts - len(self.log)
        yield "Solved." if self.solved else f"Not solved; {left} attempts left. {self.rollback}."


protocol = Protocol(problem, success, rollback, most_attempts, minutes)

# %% [markdown]
# ## 1. Reconnaissance: look, change nothing

# %%
amounts, ledger = ["0.10", "0.20", "0.30"], "0.60"
total = lambda: sum(float(amount) for amount in amounts)  # this is what is broken
protocol.learn(f"The sum is {total()!r}, the ledger says {ledger}")
protocol.learn("Single amounts are equal; only sums differ")

# %% [markdown]
# ## 2. Commitment: how success is checked


# %%
def check():
    return Decimal(str(total())) == Decimal(ledger)


print(f"Before: {'solved' if check() else 'broken'}")

# %% [markdown]
# ## 3. Attempts: one change each

# %%
before = total


def use(new):
    """A change that replaces the function."""

    def change():
        global total
        total = new

    return change


for hypothesis, new in [
    ("Amounts are in the wrong order", lambda: sum(float(a) for a in sorted(amounts))),
    ("Binary fractions are not exact", lambda: sum(map(Decimal, amounts))),
]:
    if len(protocol.log) < most_attempts and not protocol.solved:
        protocol.attempt(hypothesis, use(new), use(before), check)

# %% [markdown]
# ## 4. What happened

# %%
print("\n".join(protocol.report()))
