"""What the day's scripts read in answers, and what counts as the same notebook."""

from __future__ import annotations

from typing import Any, cast

import pytest
from mcp import Client

from bench.day.agreement import normal
from bench.day.intents import INTENTS
from bench.day.sides import Answer, Cost, Illegal, Ours, handles, newer


def test_a_day_has_thirty_different_requests() -> None:
    assert len({intent.name for intent in INTENTS}) == len(INTENTS) == 30


@pytest.mark.parametrize("shown", ["8f2c41d0 r:9ab1c2", "8f2c41d0@9ab1c2"])
def test_cells_are_found_however_an_answer_shows_them(shown: str) -> None:
    [handle] = handles(f"a.ipynb: 4 cells\n[3] {shown} code In[2]\nx[0] = 1")
    assert (handle.index, handle.id, handle.revision) == (3, "8f2c41d0", "9ab1c2")


def test_a_refused_edit_shows_the_current_revision() -> None:
    error = Answer("stale_revision: Cell [3] 8f2c41d0@9ab1c2 is not at 0000ff any more.", True)
    assert newer(error, "8f2c41d0@0000ff") == "8f2c41d0@9ab1c2"


@pytest.mark.anyio
async def test_an_agent_quotes_only_what_it_has_read() -> None:
    ours = Ours(cast("Client", None))
    ours.begin("Delete the cell 8f2c41d0.")
    for quoted in ({"cell_ids": ["9ab1c2d3"]}, {"updates": [{"old_text": "x = 1"}]}):
        with pytest.raises(Illegal, match="has not read"):
            await ours.call("batch_delete_notebook_cells", **quoted)
    assert ours.cost == Cost()


def test_notebooks_compare_equal_despite_execution_counts_and_output_chunks() -> None:
    def cell(count: int, *texts: str | list[str]) -> dict[str, Any]:
        outputs = [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]
        return {
            "id": str(count),
            "cell_type": "code",
            "source": "print(1)",
            "execution_count": count,
            "outputs": outputs,
        }

    assert normal([cell(1, "a\n", "b\n")]) == normal([cell(2, ["a\n", "b\n"])])
    assert normal([cell(1, "a\n")]) != normal([cell(1, "b\n")])
