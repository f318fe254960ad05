"""Ids that tell things apart, also in processes that are forks of one."""

from __future__ import annotations

import os
import random
import re
import sys

import pytest

from jupyter_collaboration_mcp.short_ids import short_id


def test_ids_have_a_form_and_differ() -> None:
    random.seed(1)  # as a library may do that is imported into the server
    made = {short_id("c", 8) for _ in range(1_000)}
    random.seed(1)
    made |= {short_id("c", 8) for _ in range(1_000)}
    assert len(made) == 2_000
    assert all(re.fullmatch("c-[0-9a-f]{8}", each) for each in made)
    assert re.fullmatch("call-[0-9a-f]{12}", short_id("call", 12))


@pytest.mark.skipif(sys.platform == "win32", reason="it has no forks")
def test_forks_do_not_make_the_same_ids() -> None:
    made = set()
    for _ in range(3):
        end, begin = os.pipe()
        if os.fork() == 0:
            os.write(begin, short_id("c", 8).encode())
            os._exit(0)
        os.wait()
        os.close(begin)
        made.add(os.read(end, 100))
        os.close(end)
    assert len(made) == 3
