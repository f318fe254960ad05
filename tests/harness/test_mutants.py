"""The faults that show whether tests notice anything."""

from pathlib import Path

from .mutants import faults, nearest_tests

SOURCE = b"""
def clamp(number: int = 3, *, strict: bool = False) -> str:
    if strict and number >= 10:
        raise ValueError
    return "n" + str(number - 1) if not strict else ""
"""


def test_each_fault_changes_one_thing() -> None:
    changed = {fault.shown(SOURCE) for fault in faults(SOURCE)}
    assert changed == {
        "2: def clamp(number: int = 4, *, strict: bool = False) -> str:",
        "2: def clamp(number: int = 3, *, strict: bool = True) -> str:",
        "3: if strict or number >= 10:",
        "3: if strict and number > 10:",
        "3: if strict and number >= 11:",
        "3: if (not (strict and number >= 10)):",
        '5: return "n" + str(number + 1) if not strict else ""',
        '5: return "n" + str(number - 2) if not strict else ""',
        '5: return "n" + str(number - 1) if (strict) else ""',
    }


def test_every_fault_is_still_python() -> None:
    source = Path(__file__).with_name("mutants.py").read_bytes()
    found = faults(source)
    assert len(found) > 20
    for fault in found:
        compile(fault.applied(source), "faulty", "exec")
        assert fault.applied(source) != source


def test_types_are_left_alone() -> None:
    source = (
        b"from typing import TYPE_CHECKING, Literal\nif TYPE_CHECKING:\n    x = 1\ny: Literal[1]"
    )
    assert faults(source) == []


def test_the_nearest_tests_are_those_of_the_name() -> None:
    module = Path("jupyter_collaboration_mcp/documents/merge.py")
    assert nearest_tests(module)[0] == "tests/documents/test_merge.py"
