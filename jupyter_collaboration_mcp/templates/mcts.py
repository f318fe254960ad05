# %% [markdown]
# # Monte Carlo tree search
#
# Choose the next move by playing many random games from it, more of them where the results are
# good: for decisions with many steps or an opponent, if an outcome can be simulated but not judged
# in advance.
#
# The example is the game of Nim: who takes the last stone wins. For a problem of your own, replace
# the class `State`.

# %% tags=["parameters"]
stones = 10  # at the start
most = 3  # stones that a player may take at once
iterations = 3000  # simulated games
exploration = 1.4  # higher: try more moves; lower: pursue good ones
seed = 0  # the same seed, the same result

# %%
import math
import random
from dataclasses import dataclass

chance = random.Random(seed)


@dataclass(frozen=True)
class State:
    """A situation, and whose turn it is: player 0 or 1."""

    stones: int
    player: int = 0

    def moves(self):
        return range(1, min(most, self.stones) + 1)

    def after(self, move):
        return State(self.stones - move, 1 - self.player)

    def reward(self):
        """For player 0 at the end: 1 for a win, 0 for a loss. The player before took the last."""
        return 1.0 if self.player == 1 else 0.0


# %% [markdown]
# ## The search: select, expand, simulate, learn


# %%
class Node:
    def __init__(self, state, parent=None, move=None):
        self.state, self.parent, self.move = state, parent, move
        self.children, self.untried = [], list(state.moves())
        self.visits, self.wins = 0, 0.0  # wins of the player who moved here

    def select(self):
        """The child that is good or little known (UCT)."""
        return max(
            self.children,
            key=lambda child: child.wins / child.visits
            + exploration * math.sqrt(math.log(self.visits) / child.visits),
        )

    def expand(self):
        move = self.untried.pop(chance.randrange(len(self.untried)))
        self.children.append(Node(self.state.after(move), self, move))
        return self.children[-1]


def search(state):
    root = Node(state)
    for _ in range(iterations):
        node = root
        while not node.untried and node.children:
            node = node.select()
        if node.untried:
            node = node.expand()
        end = node.state
        while moves := end.moves():
            end = end.after(chance.choice(moves))
        reward = end.reward()
        while node is not None:
            node.visits += 1
            node.wins += reward if node.state.player == 1 else 1 - reward
            node = node.parent
    return root


# %%
root = search(State(stones))
print(f"{iterations} simulated games from {stones} stones:")
for child in sorted(root.children, key=lambda child: child.visits, reverse=True):
    share = child.wins / child.visits
    print(f"  take {child.move}: {child.visits:5} visits, wins {share:.0%}")

# %% [markdown]
# ## The expected line of play

# %%
node, line = root, []
while node.children:
    node = max(node.children, key=lambda child: child.visits)
    line.append(f"player {1 - node.state.player} takes {node.move}")
print("; ".join(line) or "There is nothing to decide.")
