"""Which server a URL of the service means, and for whom."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.backends.remote.hub_api import HubUser
from jupyter_collaboration_mcp.hub_service.answers import Refusal
from jupyter_collaboration_mcp.hub_service.routes import Route
from jupyter_collaboration_mcp.server.hub_scopes import LEVEL_SCOPE
from jupyter_collaboration_mcp.workspace.permissions import Level

ALL = HubUser("ana", frozenset({"access:servers"}))
OWN = HubUser("ana", frozenset({"access:servers!user=ana"}))
ONE = HubUser("ana", frozenset({"access:servers!server=ben/gpu"}))


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("", "user/ana/"),
        ("user/ana", "user/ana/"),
        ("user/ana/gpu/", "user/ana/gpu/"),
        ("user/ben@x.org", "user/ben@x.org/"),
        ("user/a b/c%d", "user/a%20b/c%25d/"),
        ("user/ana?x", "user/ana%3Fx/"),
    ],
)
def test_a_path_leads_to_a_server(path: str, leads_to: str) -> None:
    assert Route.of(path, ALL).path == leads_to


@pytest.mark.parametrize(
    "path", ["user", "user/", "user//", "user/a/b/c", "ana", "user/..", "user/ana/..", "user/./x"]
)
def test_nothing_else_leads_anywhere(path: str) -> None:
    with pytest.raises(Refusal) as refused:
        Route.of(path, ALL)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("who", "path", "may"),
    [
        (OWN, "", True),
        (OWN, "user/ana/gpu", True),
        (OWN, "user/ben", False),
        (OWN, "user/anabel", False),
        (ONE, "user/ben/gpu", True),
        (ONE, "user/ben", False),
        (ONE, "user/ben/gpu2", False),
        (ONE, "", False),
    ],
)
def test_a_scope_opens_what_it_names(who: HubUser, path: str, may: bool) -> None:
    if may:
        Route.of(path, who)
        return
    with pytest.raises(Refusal) as refused:
        Route.of(path, who)
    assert refused.value.status == 403
    assert "access:servers!user=" in refused.value.said


def test_a_scope_with_a_level_that_does_not_fit_opens_nothing() -> None:
    who = HubUser("ana", frozenset({"access:servers", f"{LEVEL_SCOPE}read!user=ana"}))
    assert Route.of("", who).level is Level.read
    with pytest.raises(Refusal) as refused:
        Route.of("user/ben", who)
    assert refused.value.status == 403
    assert f"{LEVEL_SCOPE}read!user=ana" in refused.value.said
