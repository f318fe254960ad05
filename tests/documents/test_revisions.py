from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.revisions import revision


def test_a_revision_is_the_same_everywhere_and_for_ever() -> None:
    assert revision("code", "print('é😀')") == revision("code", "print('é😀')") == "4c1a41"


def test_type_and_source_both_count() -> None:
    assert len({revision("code", "x"), revision("raw", "x"), revision("code", "x ")}) == 3


def test_type_and_source_are_not_run_together() -> None:
    assert revision("code", "x") != revision("codex", "")


@given(st.sampled_from(["code", "markdown", "raw"]), st.text())
def test_a_revision_is_six_hexadecimal_characters(cell_type: str, source: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{6}", revision(cell_type, source))
