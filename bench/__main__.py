"""`python -m bench [BENCHMARK ...] [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .measuring import FULL, QUICK, Row, Sizes, table

BENCHMARKS = (
    "edit",
    "read",
    "execute",
    "flood",
    "stalls",
    "listing",
    "standalone",
    "hub",
    "noop",
    "rates",
    "crowd",
    "panel",
    "agents",
    "presence",
    "watching",
    "history",
    "memory",
    "tokens",
    "day",
    "start",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run benchmarks and print what they found; a goal that is missed is no failure."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="|".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="few calls: figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args(arguments)
    if unknown := set(options.benchmarks) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    # What is measured is a package as pip installs it, with its bytecode.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows: list[Row] = []
    loads: dict[str, tuple[float, float]] = {}
    for name in options.benchmarks or BENCHMARKS:
        found, loads[name] = _run(name, QUICK if options.quick else FULL)
        print(table(found), flush=True)
        rows += found
    if options.json is not None:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": loads}
        whole = {"machine": machine, "rows": [row.as_json() for row in rows]}
        options.json.write_text(json.dumps(whole, indent=1))


def _run(name: str, sizes: Sizes) -> tuple[list[Row], tuple[float, float]]:
    began, before = time.monotonic(), os.getloadavg()[0]
    rows: list[Row] = asyncio.run(importlib.import_module(f"bench.{name}").run(sizes))
    took, after = time.monotonic() - began, os.getloadavg()[0]
    print(f"{name}: {took:.0f} s, load {before:.2f} before, {after:.2f} after", file=sys.stderr)
    return rows, (before, after)


if __name__ == "__main__":
    main()
