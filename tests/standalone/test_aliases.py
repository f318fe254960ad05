"""A server that nobody gave an alias gets one that says which it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.standalone.aliases import alias_of, aliases_of
from jupyter_collaboration_mcp.standalone.discovery import RunningServer
from jupyter_collaboration_mcp.workspace.sites import _ALIAS


def found(root: str, port: int = 8888) -> RunningServer:
    return RunningServer(f"http://localhost:{port}/", "token", Path(root), 1, 0.0)


@pytest.mark.parametrize(
    ("base", "alias"),
    [
        ("http://127.0.0.1:8888/", "local-8888"),
        ("http://localhost:8889", "local-8889"),
        ("https://hub.example.org/user/ada/", "hub-ada"),
        ("https://lab.example.org/", "lab"),
        ("http://192.0.2.7:8888/", "s-192-0-2-7-8888"),
    ],
)
def test_a_url_gives_host_base_url_and_port(base: str, alias: str) -> None:
    assert alias_of(base, []) == alias


def test_a_discovered_server_is_named_after_its_folder() -> None:
    servers = [found("/home/ada/thesis"), found("/data/My notes (2026)", 8889), found("/", 8890)]
    assert aliases_of(servers, []) == ["thesis", "My-notes-2026", "root"]


def test_folders_of_the_same_name_are_distinguished_by_port_in_any_order() -> None:
    servers = [found("/a/work", 8888), found("/b/Work", 8889), found("/c/other", 8890)]
    expected = {8888: "work-8888", 8889: "Work-8889", 8890: "other"}
    for order in (servers, servers[::-1]):
        named = dict(zip((int(s.url[-5:-1]) for s in order), aliases_of(order, []), strict=True))
        assert named == expected


@given(st.lists(st.text(min_size=1, max_size=60).filter(lambda name: "\0" not in name), max_size=5))
def test_every_alias_is_valid_and_unique(names: list[str]) -> None:
    taken = ["work", "server"]
    aliases = aliases_of([found(f"/x/{name}") for name in names], taken)
    assert all(_ALIAS.fullmatch(alias) for alias in aliases)
    assert len({*aliases, *taken}) == len(names) + len(taken)
    for name in names:
        assert re.fullmatch(_ALIAS, alias_of(f"http://host:1/{name.replace('[', '')}", aliases))
