"""In the way of a library that takes longer to import than all else a Jupyter server imports.

It builds a parser for addresses in the schemas of events. jsonschema does without it where it is
not installed, and so do the servers of tests.
"""

raise ImportError("left out of tests")
