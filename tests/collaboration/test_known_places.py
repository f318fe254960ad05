"""Where an agent believes cells to be follows what it was shown, inserted and deleted itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.collaboration.known_places import KnownPlaces
from tests.harness.examples import examples

EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 20), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 20), max_size=4), st.just(0)),
    ),
    max_size=8,
)


@examples(100, 400)
@given(count=st.integers(0, 12), edits=EDITS)
def test_an_agent_that_works_alone_knows_where_all_cells_are(count: int, edits: list) -> None:  # type: ignore[type-arg]
    cells = [f"cell {n}" for n in range(count)]
    places = KnownPlaces()
    places.show(enumerate(cells))
    for number, (kind, where, how_many) in enumerate(edits):
        if kind == "insert" and where <= len(cells):
            new = [f"new {number}.{n}" for n in range(how_many)]
            cells[where:where] = new
            places.insert(where, len(new))
            places.show((where + n, cell) for n, cell in enumerate(new))
        elif kind == "delete":
            gone = {index for index in where if index < len(cells)}
            cells = [cell for index, cell in enumerate(cells) if index not in gone]
            places.delete(gone)
        assert [places.get(n) for n in range(len(cells))] == cells
        assert places.get(len(cells)) is None


def test_what_was_never_shown_is_not_known() -> None:
    places = KnownPlaces()
    places.show([(3, "c")])
    assert places.get(2) is None
    places.insert(0, 2)
    assert (places.get(3), places.get(5)) == (None, "c")


def test_only_the_latest_places_are_remembered() -> None:
    places = KnownPlaces()
    places.show((n, str(n)) for n in range(20_001))
    assert (places.get(0), places.get(20_000)) == (None, "20000")
