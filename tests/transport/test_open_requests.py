"""Requests that are being answered: so many of one credential, and all of it can be ended."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from jupyter_collaboration_mcp.transport.open_requests import OpenRequests, TooManyRequests


def first() -> None: ...


def second() -> None: ...


def third() -> None: ...


def test_a_credential_has_only_so_many_requests_open() -> None:
    requests = OpenRequests(most=2)
    with ExitStack() as stack:
        for drop in (first, second):
            stack.enter_context(requests.open("ada", drop))
        with pytest.raises(TooManyRequests), requests.open("ada", third):
            pass
        with requests.open("bob", first):
            assert len(requests) == 3
    assert len(requests) == 0
    with requests.open("ada", first):
        assert len(requests) == 1


def test_what_is_open_can_be_ended_while_it_ends_by_itself() -> None:
    requests = OpenRequests()
    dropped: list[str] = []
    with ExitStack() as stack:
        for name in ("one", "two"):

            def drop(name: str = name) -> None:
                dropped.append(name)
                stack.close()  # what is dropped goes at once

            stack.enter_context(requests.open("ada", drop))
        requests.end("bob")
        assert dropped == []
        requests.end("ada")
    assert sorted(dropped) == ["one", "two"]
    assert len(requests) == 0
