"""The custom scopes of a JupyterHub's token as levels of its agents."""

from __future__ import annotations

import pytest
from tornado.web import HTTPError

from jupyter_collaboration_mcp.server.caller import ConnectionOptions
from jupyter_collaboration_mcp.server.hub_scopes import LEVEL_SCOPE, NoLevelHere, level_of
from jupyter_collaboration_mcp.transport.hub_limits import granted_level, within_hub_scopes
from jupyter_collaboration_mcp.workspace.permissions import Level

READ, WRITE = f"{LEVEL_SCOPE}read", f"{LEVEL_SCOPE}write"


@pytest.mark.parametrize(
    ("scopes", "level"),
    [
        ([], None),
        (["access:servers!user=ana"], None),
        ([READ], Level.read),
        ([WRITE, READ], Level.write),
        ([f"{WRITE}!user=ana", READ], Level.write),
        ([f"{WRITE}!user=ben", READ], Level.read),
        ([f"{LEVEL_SCOPE}everything", READ], Level.read),
    ],
)
def test_the_highest_scope_for_the_server_counts(scopes: list[str], level: Level | None) -> None:
    assert level_of(scopes, "ana") == level


@pytest.mark.parametrize(
    "scope",
    [
        f"{READ}!user=ben",
        f"{READ}!group=class",
        f"{WRITE}!server=ana/gpu",
        f"{LEVEL_SCOPE}everything",
        f"{LEVEL_SCOPE}admin:more",
    ],
)
def test_a_token_that_is_limited_elsewhere_only_is_refused_not_unlimited(
    scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoLevelHere, match="grants agents nothing on the server ana"):
        level_of([scope], "ana")
    monkeypatch.setenv("JUPYTERHUB_USER", "ana")
    monkeypatch.setenv("JUPYTERHUB_SERVER_NAME", "")
    for required in (False, True):
        with pytest.raises(HTTPError) as refused:
            granted_level({"scopes": [scope]}, required)
        assert refused.value.status_code == 403
        with pytest.raises(HTTPError):
            within_hub_scopes(ConnectionOptions(), {"scopes": [scope]}, required)


def test_a_scope_for_one_server_counts_there() -> None:
    assert level_of([f"{WRITE}!server=ana/gpu"], "ana", "gpu") is Level.write


def test_a_connection_cannot_ask_for_more_than_its_token_grants() -> None:
    model = {"scopes": [WRITE]}
    asked = ConnectionOptions(permission=Level.admin)
    assert within_hub_scopes(asked, model, False).permission is Level.write
    assert within_hub_scopes(ConnectionOptions(), model, False).permission is Level.write
    less = ConnectionOptions(permission=Level.read)
    assert within_hub_scopes(less, model, True).permission is Level.read


def test_a_token_without_such_a_scope_is_refused_only_where_one_is_required() -> None:
    model = {"scopes": ["access:servers!user=ana"]}
    assert within_hub_scopes(ConnectionOptions(), model, False).permission is None
    with pytest.raises(HTTPError) as refused:
        within_hub_scopes(ConnectionOptions(), model, True)
    assert refused.value.status_code == 403
    assert LEVEL_SCOPE in str(refused.value.log_message)


def test_outside_of_a_hub_nothing_is_limited() -> None:
    assert within_hub_scopes(ConnectionOptions(), None, True).permission is None
