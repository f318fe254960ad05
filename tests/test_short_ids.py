"""Ids that tell things apart, also in processes that are forks of one."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from jupyter_collaboration_mcp.short_ids import short_id

#: Prints an id, and one of a fork.
FORKED = """
import os
from jupyter_collaboration_mcp.short_ids import short_id
child = os.fork()
if child:
    os.waitpid(child, 0)
print(short_id("c", 12), flush=True)
os._exit(0)
"""


def test_ids_have_a_form_and_differ() -> None:
    random.seed(1)  # as a library may do that is imported into the server
    one = [short_id("c", 8) for _ in range(10)]
    random.seed(1)
    other = [short_id("c", 8) for _ in range(10)]
    assert one != other
    assert all(re.fullmatch("c-[0-9a-f]{8}", each) for each in one + other)
    assert re.fullmatch("call-[0-9a-f]{12}", short_id("call", 12))


@pytest.mark.skipif(sys.platform == "win32", reason="it has no forks")
def test_forks_do_not_make_the_same_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True)
    one, other = done.stdout.split()
    assert one != other
