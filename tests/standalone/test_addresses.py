"""Whether a URL leads to a server that is known, in whatever way somebody writes it."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.standalone.addresses import has_base, leads_to, without_page

SERVER = "http://127.0.0.1:8888/"


@pytest.mark.parametrize(
    "url",
    [
        SERVER,
        "http://localhost:8888",
        "http://127.1:8888/lab/tree/a.ipynb?token=x",
        "https://[::1]:8888/mcp",
    ],
)
def test_a_server_is_recognised_by_its_place(url: str) -> None:
    assert leads_to(url, f"{SERVER}?token=y")


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8889/", "http://example.org:8888/", "http://localhost:8888/user/ada/", "x"],
)
def test_another_place_is_another_server(url: str) -> None:
    assert not leads_to(url, SERVER)


def test_a_server_behind_a_hub_is_recognised_by_its_base_url() -> None:
    assert has_base("https://hub.example.org/user/ada/lab", "/user/ada/")
    assert not has_base("https://hub.example.org/user/bob/", "/user/ada/")
    assert not has_base("https://hub.example.org/", "/")
    assert not has_base("no url", "/user/ada/")


def test_the_page_and_the_token_are_left_out() -> None:
    assert without_page(f"{SERVER}lab?token=x") == SERVER
    assert without_page("http://h:1/user/ada/lab/tree/x") == "http://h:1/user/ada/"
