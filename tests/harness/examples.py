"""How many examples Hypothesis tries: fewer by default, as many as a release needs with `--all`."""

from __future__ import annotations

from hypothesis import settings

_everything = False


def choose(everything: bool) -> None:
    """Called before any test is collected."""
    global _everything
    _everything = everything


def examples(few: int, many: int) -> settings:
    """Settings for a slow test: it must fail without the feature at the smaller number, too."""
    return settings(max_examples=many if _everything else few, deadline=None)
