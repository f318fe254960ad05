"""Notebooks that are opened at once compile the schema once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.jupyter import REPOSITORY

OPENED_AT_ONCE = """
import threading

import fastjsonschema
import nbformat
from nbformat.v4 import new_notebook

from jupyter_collaboration_mcp.backends.upstream.notebook_schemas import (
    NotebookSchemas,
    compile_schemas_once,
)

{apply}
compile, compiled = fastjsonschema.compile, []


def note(schema):
    compiled.append(schema)
    return compile(schema)


fastjsonschema.compile = note
text = nbformat.writes(new_notebook())
nbformat.validator.validators.clear()
compiled.clear()
start = threading.Barrier(4)


def read():
    start.wait()
    nbformat.reads(text, as_version=4)


threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(compiled), NotebookSchemas().check(None))
"""


@pytest.mark.parametrize(
    ("apply", "once"), [("compile_schemas_once()\ncompile_schemas_once()", True), ("", False)]
)
def test_the_schema_is_compiled_once(apply: str, once: bool) -> None:
    script = OPENED_AT_ONCE.format(apply=apply)
    command = [sys.executable, "-W", "ignore", "-c", script]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    count, problems = said.stdout.split(maxsplit=1)
    assert problems == "[]\n"
    assert (int(count) == 1) == once
