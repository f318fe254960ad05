"""What a client is driven through: text, a plot, errors, much output, a long run, long reads."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

from tests.harness import notebooks

from .reading import Answer, Call

STORY, MANY, LINES = "story.ipynb", "many.ipynb", "lines.txt"
NOWHERE = "nowhere.ipynb"

CELLS = 500
LINE_COUNT = 5000

#: In seconds; the call that starts it waits for one.
LONG_RUN = 4

GREETING = "A story that a model reads"
PRINTED = "This was printed by a kernel."
REASON = "no such door"
END_OF_LONG_RUN = "The long run is over."

_PLOT = """
from io import BytesIO
from IPython.display import Image, display
from PIL import Image as Drawing
content = BytesIO()
Drawing.new("RGB", (1600, 1200), "navy").save(content, "PNG")
display(Image(content.getvalue(), format="png"))
"""

_LONG_RUN = f"""
import time
for second in range({LONG_RUN}):
    print("second", second, flush=True)
    time.sleep(1)
print({END_OF_LONG_RUN!r})
"""

_STORY = [
    notebooks.markdown("greeting", f"# {GREETING}"),
    notebooks.code("text", f"print({PRINTED!r})"),
    notebooks.code("plot", _PLOT.strip()),
    notebooks.code("error", f"raise LookupError({REASON!r})"),
    notebooks.code("much", "for n in range(10_000):\n    print('printed line', n)"),
    notebooks.code("slow", _LONG_RUN.strip()),
]


def write_files(root: Path) -> None:
    """What the scenario reads and runs."""
    notebooks.write(root / STORY, notebooks.notebook(_STORY))
    many = [
        notebooks.code(f"{n * 2654435761 % 2**32:08x}-long", f"value_{n} = compute(number={n})")
        for n in range(CELLS)
    ]
    notebooks.write(root / MANY, notebooks.notebook(many))
    (root / LINES).write_text("".join(f"{_line(n)}\n" for n in range(1, LINE_COUNT + 1)))


def script() -> Generator[Call, Answer, None]:
    """The calls of the scenario; pages are turned as the answers say."""
    yield Call("get_notebook", {"path": STORY})
    for cell in ("text", "plot", "error", "much"):
        yield Call("execute_notebook_cell", {"path": STORY, "cell_id": cell})
    slow = {"path": STORY, "cell_id": "slow", "timeout": 1}
    started = yield Call("execute_notebook_cell", slow)
    yield Call("get_run", {"run_id": run_id(started), "wait": 60})
    yield Call("get_notebook", {"path": NOWHERE})
    yield from _pages(Call("get_notebook", {"path": MANY, "format": "outline"}))
    yield from _pages(Call("get_document", {"path": LINES}))


def going_on(text: str) -> dict[str, int]:
    """The argument with which an answer says to read on; empty if there is nothing more."""
    found = re.search(r"\b(start_index|start_line|start_position)=(\d+)", text)
    return {found[1]: int(found[2])} if found else {}


def run_id(answer: Answer) -> str:
    """The run that an answer names; a made-up one if it does not, to go on with the script."""
    found = re.search(r"\brun-\w+", answer.text)
    return found[0] if found else "unknown"


def cells_in(text: str) -> set[int]:
    """The cells of the large notebook that a text shows."""
    return {int(number) for number in re.findall(r"\bvalue_(\d+) = compute\(number=\1\)", text)}


def lines_in(text: str) -> set[int]:
    """The lines of the long file that a text shows whole."""
    found = re.findall(r"Line (\d+) of the long file,", text)
    return {number for number in map(int, found) if _line(number) in text}


def _pages(call: Call) -> Generator[Call, Answer, None]:
    answer = yield call
    further: dict[str, int] = {}
    # Also where it is not in the first line: whether it is there is for a test to say.
    while (then := going_on(answer.text)) and then != further:
        further = then
        answer = yield Call(call.tool, {**call.arguments, **further})


def _line(number: int) -> str:
    return f"Line {number} of the long file, which says nothing else but is read page by page."
