"""Addresses of resources: what is written can be read again, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.addresses import (
    ADDRESSES,
    Address,
    CellOutput,
    ExecutionOutput,
    RunOutput,
)

#: Whatever a session, a file or a cell may be called.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)
numbers = st.integers(min_value=0, max_value=10**15 - 1)

#: What the types of fields stand for.
VALUES = {"str": names, "int": numbers, "str | None": st.none() | names}

addresses = st.one_of(
    *(
        st.builds(kind, *(VALUES[str(field.type)] for field in fields(kind)))  # type: ignore[arg-type]
        for kind in ADDRESSES
    )
)


@given(addresses)
def test_a_formatted_address_parses_as_its_own_kind_only(address: Address) -> None:
    read = [kind.parse(address.format()) for kind in ADDRESSES]
    assert [each for each in read if each is not None] == [address]


def test_the_format_of_addresses_is_stable() -> None:
    """Notebooks that are saved have them, and agents remember them."""
    cell = CellOutput("s-1", "f-2", "a b/c", 3, "run-0a", 40)
    assert cell.format() == "notebook://s-1/f-2/cells/a%20b%2Fc/outputs/3?run=run-0a&offset=40"
    execution = ExecutionOutput("s-1", "f-2", "run-0a", 0)
    assert execution.format() == "notebook://s-1/f-2/executions/run-0a/outputs/0"
    assert RunOutput("run-0a", 7).format() == "notebook://runs/run-0a/7"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "notebook:",
        "notebook://s/f/cells/c/outputs/",
        "notebook://s/f/cells/c/outputs/-1",
        "notebook://s/f/cells/c/outputs/²",
        "notebook://s/f/cells/c/outputs/1000000000000000",
        "notebook://s/f/cells/c/outputs/0?offset=x",
        "notebook://s/f/cells/c/outputs/0/more",
        "notebook://s/f/cell/c/outputs/0",
        "notebook://[/f/cells/c/outputs/0",
        "file://s/f/cells/c/outputs/0",
        "notebook://runs/run-0a",
        "notebook://",
        "notebook://s",
        "notebook://../f",
        "notebook://s/../f/json",
        "notebook://s/%2e%2E/cells/c",
        "notebook://s/f/cells/..",
        "notebook://s/f/executions/../outputs/0",
        "notebook://templates/..",
        "notebook://templates",
        "file:///etc/passwd",
        "file:///notebooks",
        "file:///notebooks/s",
        "file:///notebooks/s/.src.md",
        "file:///notebooks/s/../f.src.md",
        "file:///notebooks/../s/f.src.md",
        "file:///notebooks/s/f/cells/..",
        "file:///notebooks/s/f/cells/",
        "file://host/notebooks/s/f.src.md",
        "file:///notebooks/s/f.src.md?x=1",
    ],
)
def test_a_malformed_address_is_not_parsed(uri: str) -> None:
    assert [kind.parse(uri) for kind in ADDRESSES if kind.parse(uri) is not None] == []


ADDRESS = CellOutput("s", "f", "c", 2, "run-0a")


@pytest.mark.parametrize(
    "text",
    [
        f"[Only a part is kept here (1 MB in all). The whole, for 24 hours: {ADDRESS.format()}]\n",
        f"line\n[In any words, of any version: {ADDRESS.format()}]",
        f"line\n[{ADDRESS.format()}]  \n\n",
    ],
)
def test_a_notice_is_recognized_by_its_address(text: str) -> None:
    assert CellOutput.in_notice(text) == ADDRESS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "]",
        "[]",
        f"see {ADDRESS.format()}",
        f"[{ADDRESS.format()}]\nand more",
        f"printed: [{ADDRESS.format()}]",
        "[the whole: notebook://runs/run-0a/2]",
        "[the whole: https://example.org/f/cells/c/outputs/2]",
    ],
)
def test_a_text_that_only_mentions_an_address_is_not_a_notice(text: str) -> None:
    assert CellOutput.in_notice(text) is None
