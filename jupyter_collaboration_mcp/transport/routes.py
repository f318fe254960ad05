"""Where MCP is served inside Jupyter Server, and which other extension would answer there."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.routing import PathMatches, Router, Rule, RuleRouter
from tornado.web import Application, authenticated


class EndpointInfo(APIHandler):
    """Whether MCP is served here, where, and what is wrong; `doctor` asks."""

    auth_resource = "mcp"

    def initialize(self, info: Callable[[], Mapping[str, Any]]) -> None:
        self._info = info

    @authenticated
    @authorized
    def get(self) -> None:
        self.finish(dict(self._info()))


def handlers_at(application: Application, base_url: str, path: str) -> list[type]:
    """The handlers that claim a path below the base URL, in the order in which Tornado asks them.

    One that takes any path, such as the 404 page, claims none.
    """
    anything = re.sub(r"[^/]+", secrets.token_hex(8), path)
    return [
        rule.target
        for rule in _rules(application.default_router)
        if isinstance(rule.matcher, PathMatches)
        and rule.matcher.regex.match(base_url + path)
        and not rule.matcher.regex.match(base_url + anything)
    ]


def _rules(router: Router) -> Iterator[Rule]:
    if isinstance(router, RuleRouter):
        for rule in router.rules:
            if isinstance(rule.target, Router):
                yield from _rules(rule.target)
            else:
                yield rule
