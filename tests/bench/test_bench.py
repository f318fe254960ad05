"""The benchmarks run and report; what they report is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measuring import Goal, Row, Sizes, interleave, table
from tests.harness.jupyter import REPOSITORY

KEYS = {
    "bench",
    "case",
    "n",
    "unit",
    "floor",
    "floor_p95",
    "subject",
    "subject_p95",
    "figure",
    "goal",
    "met",
}


@pytest.mark.timeout(300)
def test_the_cheap_benchmarks_run_and_report(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    names = ["tokens", "edit", "day"]
    command = [sys.executable, "-m", "bench", *names, "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert set(report["machine"]["load"]) == set(names)
    assert {row["bench"] for row in report["rows"]} == set(names)
    for row in report["rows"]:
        assert set(row) == KEYS
        assert f"{row['subject']:.2f}" in done.stdout
    cases = [row["case"] for row in report["rows"] if row["bench"] == "edit"]
    assert len(cases) == len(set(cases)) == 8  # three sizes and the growth, in two eras
    others = [row for row in report["rows"] if row["bench"] != "day"]
    assert sum(row["goal"] is not None for row in others) == 13


def test_a_row_has_the_medians_and_their_ratio() -> None:
    row = Row.compare("edit", "a case", [1.0, 2.0, 9.0], [3.0, 4.0, 5.0], Goal(1.5))
    assert (row.n, row.floor, row.subject, row.figure) == (3, 2.0, 4.0, 2.0)
    assert row.as_json()["goal"] == "<= 1.5"
    assert row.as_json()["met"] is False
    assert Goal(1.5, at_least=True).met_by(row.figure)
    assert "MISSED" in table([row])


@pytest.mark.anyio
async def test_calls_are_timed_round_by_round_and_the_warm_up_is_left_out() -> None:
    made: list[str] = []

    async def first() -> None:
        made.append("first")

    async def second() -> None:
        made.append("second")

    times = await interleave({"first": first, "second": second}, Sizes(calls=4, warm_up=1))
    assert [len(sample) for sample in times.values()] == [4, 4]
    rounds = [set(made[at : at + 2]) for at in range(0, len(made), 2)]
    assert rounds == [{"first", "second"}] * 5
