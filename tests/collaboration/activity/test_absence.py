"""An agent that was away reads who changed which cells, in a sentence."""

from __future__ import annotations

import time
from typing import Any

from jupyter_collaboration_mcp.collaboration.activity.absence import Absence
from jupyter_collaboration_mcp.collaboration.activity.activity import Activity, now
from jupyter_collaboration_mcp.collaboration.change_log import ChangeLog
from jupyter_collaboration_mcp.documents.cell_mirror import CellChange
from jupyter_collaboration_mcp.documents.members import Member

ANA, BOB = Member("ana", "Ana"), Member.agent("Bob <token>", "Bob")


def label(cell: str) -> str:
    return f"[{cell[-1]}] {cell}"


def edit(who: Member, changes: dict[str, list[str]], count: int | None = None, **more: Any) -> Any:
    cells = [cell for ids in changes.values() for cell in ids]
    return Activity.of("edit", who, "", cells=cells, cell_count=count, changes=changes, **more)


def said(*activities: Activity) -> str:
    text = Absence(now(), activities).describe(label)
    return text.partition(" UTC: ")[2]


def test_nobody_did_anything() -> None:
    assert Absence(now(), ()).describe(label) == ""


def test_what_one_person_did_is_put_together() -> None:
    first = edit(ANA, {"edited": ["cell-1"], "inserted": ["cell-2"]}, added=3, removed=1)
    second = edit(ANA, {"edited": ["cell-1", "cell-2", "cell-3"]}, added=2000)
    assert said(first, second) == (
        "Ana edited [1] cell-1, [3] cell-3, inserted [2] cell-2 "
        "(2,003 characters added, 1 removed)."
    )


def test_people_with_the_same_name_and_agents_are_told_apart() -> None:
    edits = [edit(who, {"edited": ["cell-1"]}) for who in (ANA, Member("other", "Ana"), BOB)]
    run = Activity.of("run", BOB, "", cells=["cell-2"])
    assert said(*edits, run) == (
        "Ana edited [1] cell-1; Ana edited [1] cell-1; "
        "Bob (agent) edited [1] cell-1, ran [2] cell-2."
    )


def test_of_many_cells_and_people_the_first_are_named() -> None:
    cells = [f"cell-{number}" for number in range(20)]
    text = said(
        edit(ANA, {"edited": cells}, 10_000, removed=5),
        *(edit(Member(str(number), "X"), {"deleted": ["cell-1"]}) for number in range(7)),
    )
    assert text.startswith("Ana edited [0] cell-0, [1] cell-1, [2] cell-2, [3] cell-3, [4] cell-4")
    assert " and 9,995 more (5 characters removed); X deleted [1] cell-1; " in text
    assert text.endswith("; and 3 more did something.")


def test_an_odd_name_stays_one_name_and_nobody_is_somebody() -> None:
    odd = Member("odd", "Ana left; Bob deleted")
    text = said(edit(odd, {"edited": ["cell-1"]}), edit(Member("", ""), {"moved": ["cell-2"]}))
    assert text == "'Ana left; Bob deleted' edited [1] cell-1; somebody moved [2] cell-2."


def test_another_day_is_named() -> None:
    yesterday = now() - 24 * 3600 * 1000
    day = time.strftime("%Y-%m-%d", time.gmtime(yesterday / 1000))
    absence = Absence(yesterday, [edit(ANA, {"edited": ["cell-1"]})])
    assert absence.describe(label).startswith(f"While you were away since {day} ")


def test_a_person_with_the_name_of_an_agent_is_somebody_else() -> None:
    changes = ChangeLog(0)
    changes.add(1, Member("person", "Bob"), [CellChange("edited", "cell-1")])
    changes.add(2, BOB, [CellChange("edited", "cell-2")])
    expected = "Since you last looked, others changed by Bob: [1] cell-1 edited."
    assert changes.summary(0, BOB.id, label) == expected
    assert changes.summary(0, BOB.id, label, "Away.") == f"Away. {expected}"


def test_an_agent_that_looked_before_our_time_is_told_so_unless_more_is_known() -> None:
    changes = ChangeLog(10)
    assert "You were away for a while" in (changes.summary(5, BOB.id, label) or "")
    assert changes.summary(5, BOB.id, label, "") is None
    assert changes.summary(5, BOB.id, label, "Away.") == "Away."
    assert changes.summary(10, BOB.id, label) is None
    changes.add(11, ANA, [CellChange("edited", "cell-1")])
    assert "(and more before that)" in (changes.summary(5, BOB.id, label) or "")
    assert "(and more before that)" not in (changes.summary(5, BOB.id, label, "") or "")
