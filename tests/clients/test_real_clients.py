"""What Codex, Claude Code and Gemini CLI show their models of our answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import scenario
from .__main__ import driven
from .driving import CLIENTS, WAYS, Session
from .reading import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.clients]


@pytest.fixture(
    scope="module",
    params=[(client, way) for client in CLIENTS for way in WAYS],
    ids=lambda pair: f"{pair[0].title}-{pair[1]}",
)
async def session(request: pytest.FixtureRequest, anyio_backend: str) -> Session:
    """A client that was driven through the whole scenario."""
    session = await driven(*request.param)
    assert session.finished, session.output
    return session


def answers(session: Session, tool: str, **arguments: object) -> Iterator[Answer]:
    """The answers to the calls with these arguments, among others."""
    for exchange in session.exchanges:
        if exchange.call.tool == tool and arguments.items() <= exchange.call.arguments.items():
            yield exchange.answer


def ran(session: Session, cell: str) -> Answer:
    (answer,) = answers(session, "execute_notebook_cell", cell_id=cell)
    return answer


def test_the_text_of_a_notebook_and_of_a_kernel_arrives(session: Session) -> None:
    (read,) = answers(session, "get_notebook", path=scenario.STORY)
    assert scenario.GREETING in read.text
    assert read.first_line.startswith(scenario.STORY)
    assert scenario.PRINTED in ran(session, "text").text


def test_a_plot_arrives_as_an_image(session: Session) -> None:
    answer = ran(session, "plot")
    (picture,) = answer.pictures
    assert picture.width > picture.height > 300
    assert "1600 x 1200" in answer.text


def test_the_error_of_a_cell_arrives_with_its_place(session: Session) -> None:
    answer = ran(session, "error")
    assert "FAILED" in answer.first_line
    assert f"LookupError: {scenario.REASON}" in answer.text
    assert "line 1" in answer.text


def test_a_failed_call_says_what_to_do_next(session: Session) -> None:
    (answer,) = answers(session, "get_notebook", path=scenario.NOWHERE)
    assert "document_not_found" in answer.text
    assert "Next: " in answer.text


def test_long_output_arrives_as_head_and_tail_with_a_link_to_all_of_it(session: Session) -> None:
    answer = ran(session, "much")
    assert "printed line 0\n" in answer.text
    assert "printed line 9999\n" in answer.text
    assert len(answer.text) < 5000
    assert len(answer.links) == 1


def test_a_long_run_continues_and_can_be_waited_for(session: Session) -> None:
    started = ran(session, "slow")
    assert "still running" in started.first_line
    assert "get_run" in started.first_line
    (finished,) = answers(session, "get_run")
    assert "completed" in finished.first_line
    assert scenario.END_OF_LONG_RUN in finished.text


def test_each_page_of_a_long_file_arrives_whole(session: Session) -> None:
    pages = [page.text for page in answers(session, "get_document", path=scenario.LINES)]
    shown = set().union(*map(scenario.lines_in, pages))
    assert missing(shown, range(1, scenario.LINE_COUNT + 1)) == []


def test_the_outline_of_a_large_notebook_arrives_whole(session: Session) -> None:
    pages = [page.text for page in answers(session, "get_notebook", path=scenario.MANY)]
    shown = set().union(*map(scenario.cells_in, pages))
    assert missing(shown, range(scenario.CELLS)) == []


@pytest.mark.parametrize(
    ("tool", "path"), [("get_document", scenario.LINES), ("get_notebook", scenario.MANY)]
)
def test_the_first_line_tells_how_to_continue(session: Session, tool: str, path: str) -> None:
    pages = [*answers(session, tool, path=path)]
    assert len(pages) > 1 or path == scenario.MANY
    for page in pages[:-1]:
        assert scenario.going_on(page.first_line), page.first_line
    assert scenario.going_on(pages[-1].first_line) == {}


def test_a_client_connects_only_to_this_machine(session: Session) -> None:
    assert session.elsewhere == []


def missing(shown: set[int], wanted: range) -> list[int]:
    """Some of the numbers that are not there, which is enough to see where a text was cut."""
    return [number for number in wanted if number not in shown][:5]
