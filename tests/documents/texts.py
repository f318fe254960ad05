"""Texts to try things on that compare texts or change them."""

from __future__ import annotations

import random
import string

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
ANY = st.text(CHARACTERS, max_size=60)
#: Few letters, so that the two sides have much in common in confusing places.
NARROW = st.text(st.sampled_from("ab \n\ré😀\u0301"), max_size=40)
LINES = st.lists(
    st.sampled_from(["x = 1\n", "x = 2\n", "\n", "def é():\r\n", "    return 😀\n", "print(x)"]),
    max_size=12,
).map("".join)
TEXTS = st.one_of(ANY, NARROW, LINES)

NUMBERED = [f"line {number} {number * 7919 % 10007}\n" for number in range(400_000)]


def scribble(length: int, seed: int) -> str:
    """A line that has little in common with one of another seed, and takes long to compare."""
    letters = random.Random(seed).choices(string.ascii_lowercase + "     ", k=length)
    return "".join(letters)
