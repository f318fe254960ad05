"""One MCP server of what is registered as toolsets, resources and prompts."""

from __future__ import annotations

from ..prompts import PROMPTS
from ..resources import RESOURCES
from ..tools import TOOLSETS
from ..tools.registration import modules

#: All that serving needs. With the SDK it takes more than a second to import, so that is done in a
#: thread before the first request is served.
MODULES = (f"{__name__}.server", *modules(TOOLSETS, RESOURCES, PROMPTS))
