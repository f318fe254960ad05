"""What a document can hold, against what pycrdt really takes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Map

from jupyter_collaboration_mcp.documents import json_values
from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.panics import is_panic

NUMBERS = st.integers() | st.integers(-(2**80), 2**80) | st.floats() | st.booleans()
TEXTS = st.text(st.sampled_from("ab.é😀\ud83d\ude00"), max_size=4)
VALUES = st.recursive(
    st.none() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def held(value: Any) -> Any:
    """The value as a document gives it back."""
    shared: Map[Any] = Doc[Any]().get("map", type=Map)
    shared["value"] = value
    return shared["value"]


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(VALUES)
def test_a_value_without_a_flaw_is_stored_unchanged(value: Any) -> None:
    if json_values.flaw(value) is None:
        assert held(value) == value
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@given(VALUES)
def test_storable_turns_any_kernel_value_into_one_without_a_flaw(value: Any) -> None:
    made = json_values.storable(value)
    assert json_values.flaw(made, floats=math.inf) is None
    if json_values.flaw(value) is None:
        assert made == value
    held(made)


@given(VALUES)
def test_rounding_changes_only_large_integers(value: Any) -> None:
    whole = {"cell": [value]}
    before = json.dumps(whole)
    places = json_values.round_integers(whole)
    if not places:
        assert json.dumps(whole) == before
    if json_values.flaw(value, math.inf, None) is None:
        held(whole)  # all that pycrdt panics at is halves of characters


def test_every_rounded_place_is_named() -> None:
    value = {"a": [1, {"b": 2**64}], "c": -(2**63) - 1, "d": 2**63 - 1, "e": True, "f": 10**400}
    assert json_values.round_integers(value) == [".a[1].b", ".c"]
    assert value == {
        "a": [1, {"b": 2.0**64}],
        "c": -(2.0**63),
        "d": 2**63 - 1,
        "e": True,
        "f": 10**400,
    }


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [0, {"b": 2**70}]}, "metadata.a[1].b is 1180591620717411303424, an integer of 71"),
        ({"a": -(2**53) - 1}, "metadata.a is -9007199254740993, an integer of 54 bits"),
        ({"a": 10**400}, "metadata.a is an integer of 1329 bits"),
        ({"a": float("nan")}, "metadata.a is NaN"),
        ({"a": [float("-inf")]}, "metadata.a[0] is -Infinity"),
        ({"a": 1e300}, "metadata.a is 1e+300"),
        ({"a": "x\ud83d"}, "metadata.a has half of a surrogate pair"),
        ({"a": {"\ude00": 1}}, "metadata.a has a key with half of a surrogate pair"),
        ({"a": {1: 2}}, "metadata.a has a key that is not a string: 1"),
        ({"a": nested(150)}, "is nested more than 150 levels deep"),
        ({"a": b"bytes"}, "metadata.a is not JSON: bytes"),
    ],
)
def test_an_error_names_the_place_and_the_reason(value: Any, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        json_values.require_storable(value, "metadata")
    assert says in refused.value.happened
    assert "Nothing was changed" in refused.value.happened
    assert len(refused.value.happened) < 300


def test_values_at_the_limit_are_accepted() -> None:
    value = {"a": [2**53 - 1, -(2**53), 0.1, True, None, "é😀"], "b": nested(149)}
    json_values.require_storable(value, "metadata")
    assert held(value) == value


@pytest.mark.parametrize("value", [2**63, "\ud83d", {1: 2}])
def test_pycrdt_still_panics_at_refused_values(value: Any) -> None:
    """If this fails, pycrdt has been fixed, and less has to be refused."""
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        held({"value": value})
    assert is_panic(raised.value)
