"""What a listing says of what is not in it."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.tools.listings import FileListing
from jupyter_collaboration_mcp.workspace.survey import Survey


@pytest.mark.parametrize(
    ("complete", "more", "first"),
    [
        (True, False, "Nothing is there."),
        # A search that gave up has no place to go on from.
        (False, False, "Not all folders were searched; narrow the path."),
    ],
)
def test_only_an_incomplete_listing_says_so(complete: bool, more: bool, first: str) -> None:
    found = FileListing([], 0, complete, more, Survey())
    assert found.text("Nothing is there.").splitlines()[0] == first
    assert found.facts == {"complete": complete}
