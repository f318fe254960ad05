"""Small faults for a module, and whether its tests notice them: what `./scripts/mutants` runs.

A fault is a swapped comparison, a number that is off by one, an inverted condition, `and` for `or`,
`+` for `-`, or another constant. Each is written into a copy of the repository, where the tests
nearest to the module run until the first one fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "jupyter_collaboration_mcp"

#: A fault that makes the code loop for ever is noticed, too. In seconds.
LIMIT = 180.0

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Another text for a part of a source."""

    line: int
    start: int
    """In bytes of the source, as `end`."""
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        lines = self.applied(source).decode().splitlines()
        return f"{self.line}: {lines[self.line - 1].strip()}"


def faults(source: bytes) -> list[Fault]:
    """Every fault that can be put into a source, in the order of its lines."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    def between(left: ast.expr, right: ast.expr, sign: str, other: str) -> Iterator[Fault]:
        """The operator between two operands."""
        assert left.end_lineno is not None
        assert left.end_col_offset is not None
        begin, end = at(left.end_lineno, left.end_col_offset), at(right.lineno, right.col_offset)
        found = source.find(sign.encode(), begin, end)
        if found >= 0:
            yield Fault(source.count(b"\n", 0, found) + 1, found, found + len(sign), other)

    def whole(node: ast.expr, text: str) -> Fault:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        return Fault(node.lineno, begin, end, text)

    def of(node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Compare(left, operators, operands):
                for operator, (before, after) in zip(
                    operators, pairwise([left, *operands]), strict=True
                ):
                    kind = type(operator)
                    yield from between(before, after, _SIGNS[kind], _COMPARISONS[kind])
            case ast.BoolOp(joined, values):
                sign, other = ("and", "or") if isinstance(joined, ast.And) else ("or", "and")
                for before, after in pairwise(values):
                    yield from between(before, after, sign, other)
            case ast.BinOp(left, sum_or_product, right) if type(sum_or_product) in _ARITHMETIC:
                if not _is_text(left) and not _is_text(right):
                    yield from between(left, right, *_ARITHMETIC[type(sum_or_product)])
            case ast.UnaryOp(ast.Not(), operand):
                yield whole(node, f"({ast.unparse(operand)})")
            case ast.Constant(bool() as value):
                yield whole(node, str(not value))
            case ast.Constant(int() as number):
                yield whole(node, str(number + 1))
            case ast.If(test) | ast.While(test) | ast.IfExp(test):
                if not isinstance(test, ast.Compare | ast.Constant | ast.UnaryOp):
                    yield whole(test, f"(not ({ast.unparse(test)}))")

    found = [fault for node in _code(tree) for fault in of(node)]
    return sorted(found, key=lambda fault: (fault.start, fault.end))


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs: no annotation, and nothing that only type checkers read."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_for_types(child):
                yield child
                yield from _code(child)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def nearest_tests(module: Path) -> list[str]:
    """The tests that a reader of a module would look for: of its name, and beside it those that
    import it."""
    inside = module.relative_to(PACKAGE).with_suffix("")
    folder = Path("tests") / inside.parent
    own = folder / f"test_{inside.name}.py"
    dotted = ".".join([PACKAGE, *inside.parts])
    parent, _, name = dotted.rpartition(".")
    beside = sorted(
        path.relative_to(REPOSITORY)
        for path in (REPOSITORY / folder).rglob("test_*.py")
        if dotted in (text := path.read_text()) or f"from {parent} import {name}" in text
    )
    found = [own, *beside] if (REPOSITORY / own).exists() else beside
    return list(dict.fromkeys(map(str, found or [folder])))


class Copies:
    """Copies of the repository, in which one fault at a time is tried."""

    def __init__(self, directory: Path, module: Path, tests: Sequence[str]) -> None:
        self._directory = directory
        self._module = module
        self._tests = tests

    def notices(self, worker: int, source: bytes) -> bool:
        """Whether a test fails with this source."""
        copy = self._directory / str(worker)
        if not copy.exists():
            self._make(copy)
        (copy / self._module).write_bytes(source)
        environment = {
            **{key: value for key, value in os.environ.items() if key != "COVERAGE_PROCESS_START"},
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        options = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
        command = [sys.executable, "-m", "pytest", *options, *self._tests]
        try:
            ended = subprocess.run(
                command, cwd=copy, env=environment, timeout=LIMIT, capture_output=True, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return ended.returncode != 0

    def _make(self, copy: Path) -> None:
        for folder in (PACKAGE, "tests", "docs", "bench", "scripts"):
            ignored = shutil.ignore_patterns("__pycache__", "node_modules", ".hypothesis")
            shutil.copytree(REPOSITORY / folder, copy / folder, ignore=ignored)
        shutil.copy(REPOSITORY / "pyproject.toml", copy)
        modules = REPOSITORY / "tests" / "node" / "node_modules"
        if modules.exists():
            (copy / "tests" / "node" / "node_modules").symlink_to(modules)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("module", help="such as documents/merge")
    parser.add_argument("tests", nargs="*", help="what to run; by default the nearest tests")
    parser.add_argument("--count", type=int, default=25, help="how many faults (25)")
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument("--seed", type=int, default=1, help="which faults (1)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    given = parser.parse_args()
    module = Path(PACKAGE) / given.module.removeprefix(f"{PACKAGE}/").removesuffix(".py")
    module = module.with_suffix(".py")
    if not (REPOSITORY / module).is_file():
        parser.error(f"there is no {module}")
    tests = given.tests or nearest_tests(module)
    source = (REPOSITORY / module).read_bytes()
    every = faults(source)
    sample = every
    if not given.all and len(every) > given.count:
        sample = random.Random(given.seed).sample(every, given.count)
        sample.sort(key=lambda fault: fault.start)
    print(f"{module}: {len(sample)} of {len(every)} faults; {' '.join(tests)}")
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies = Copies(Path(directory), module, tests)
        if copies.notices(0, source):
            sys.exit("The tests fail without any fault.")
        free = list(range(given.jobs))

        def tried(fault: Fault) -> bool:
            worker = free.pop()
            try:
                return copies.notices(worker, fault.applied(source))
            finally:
                free.append(worker)

        with ThreadPoolExecutor(given.jobs) as pool:
            noticed = list(pool.map(tried, sample))
    for fault, was_noticed in zip(sample, noticed, strict=True):
        if not was_noticed:
            print(f"  not noticed: {fault.shown(source)}")
    share = 100 * sum(noticed) // max(1, len(sample))
    print(f"{module}: {sum(noticed)} of {len(sample)} noticed ({share} %)", flush=True)


if __name__ == "__main__":
    main()
