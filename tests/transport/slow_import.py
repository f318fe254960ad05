"""A module that takes as long to import as a test wants."""

import os

exec(os.environ["WHILE_IMPORTING"])
