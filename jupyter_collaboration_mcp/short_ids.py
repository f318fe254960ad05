"""Ids that tell things apart, and keep nothing secret.

To ask the operating system for random numbers would take longer than all else in making one,
and each edit makes two.
"""

from __future__ import annotations

import os
import random

_random = random.Random()  # our own: nobody else can seed it
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def short_id(prefix: str, digits: int) -> str:
    """A new id of so many hexadecimal digits."""
    return f"{prefix}-{_random.getrandbits(4 * digits):0{digits}x}"
