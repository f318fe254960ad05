"""One place decides what a call may do, in one order, about all names of a path."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_collaboration_mcp.errors import DocumentNotFound, PathRefused, PermissionRefused
from jupyter_collaboration_mcp.workspace.agent import Agent
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.permissions import Level, PathRules
from jupyter_collaboration_mcp.workspace.permits import Call
from jupyter_collaboration_mcp.workspace.sites import Site
from jupyter_collaboration_mcp.workspace.workspace import Workspace
from tests.harness.permits import ignore

pytestmark = pytest.mark.anyio

ADA = Agent("token", "Ada")


class Authorizer:
    """Notes what it is asked, and refuses some paths."""

    def __init__(self, *refused: str) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self._refused = refused

    async def __call__(self, action: str, resource: str, path: str | None) -> bool:
        self.asked.append((action, resource, path))
        return path not in self._refused


def call(
    authorizer: Authorizer,
    allowed: Level = Level.admin,
    declared: Level = Level.admin,
    by_path: bool = True,
) -> Call:
    return Call("some_tool", ADA, allowed, declared, authorizer, by_path, ignore)


def site(denied: Sequence[str] = (), level: Level = Level.admin, alias: str = "") -> Site:
    """A server on which link.ipynb leads to real.ipynb."""
    links = {"link.ipynb": "real.ipynb"}
    backend: Any = SimpleNamespace(
        files=SimpleNamespace(link_target=lambda path: links.get(path, path)),
        forks=SimpleNamespace(),
    )
    rules = PathRules(denied=denied)
    workspace = Workspace(backend, rules, Limits(), 300.0, logging.getLogger(), alias)
    runs: Any = None  # nothing is run
    return Site(alias, workspace, runs, level)


async def test_a_permit_records_the_decision() -> None:
    authorizer = Authorizer()
    here, asking = site(), call(authorizer)
    permit = await asking.permit(here, Level.write, "/folder//a.ipynb/")
    assert (permit.path, permit.level, permit.agent) == ("folder/a.ipynb", Level.write, ADA)
    assert permit.call.tool == "some_tool"
    assert permit.paths is here.workspace
    assert authorizer.asked == [("write", "contents", "folder/a.ipynb")]


async def test_the_authorizer_checks_a_link_and_its_target() -> None:
    authorizer = Authorizer()
    await call(authorizer).permit(site(), Level.execute, "link.ipynb")
    assert [path for _, _, path in authorizer.asked] == ["link.ipynb", "real.ipynb"]
    for refused in ("link.ipynb", "real.ipynb"):
        with pytest.raises(PermissionRefused, match="Jupyter's authorizer"):
            await call(Authorizer(refused)).permit(site(), Level.read, "link.ipynb")


@pytest.mark.parametrize("denied", ["link.ipynb", "real.ipynb"])
async def test_path_rules_apply_to_a_link_and_its_target(denied: str) -> None:
    with pytest.raises(PermissionRefused, match=r"configuration keeps 'link\.ipynb'"):
        await call(Authorizer()).permit(site([denied]), Level.read, "link.ipynb")


async def test_the_cheapest_check_that_fails_decides() -> None:
    """The authorizer, which may be slow and may log, is asked last."""
    authorizer = Authorizer("a.ipynb")
    low = call(authorizer, allowed=Level.read)
    with pytest.raises(PathRefused):
        await low.permit(site(["*"], Level.read), Level.write, "../a.ipynb")
    with pytest.raises(PermissionRefused, match="configuration keeps"):
        await low.permit(site(["*"], Level.read), Level.write, "a.ipynb")
    with pytest.raises(PermissionRefused, match="the server itself allows read"):
        await low.permit(site(level=Level.read), Level.write, "a.ipynb")
    with pytest.raises(PermissionRefused, match="this connection has read"):
        await low.permit(site(), Level.write, "a.ipynb")
    assert authorizer.asked == []
    with pytest.raises(PermissionRefused, match="Jupyter's authorizer"):
        await low.permit(site(), Level.read, "a.ipynb")


async def test_a_call_cannot_exceed_the_level_its_tool_declares() -> None:
    authorizer = Authorizer()
    with pytest.raises(RuntimeError, match="declared up to read"):
        await call(authorizer, declared=Level.read).permit(site(), Level.write, "a.ipynb")
    assert authorizer.asked == []


async def test_a_folder_that_is_not_allowed_itself_may_be_listed() -> None:
    rules = PathRules(allowed=["folder/allowed/*"])
    here = site()
    here.workspace.rules = rules
    listing = await call(Authorizer()).permit_listing(here, "folder")
    assert (listing.path, listing.level) == ("folder", Level.read)
    with pytest.raises(PermissionRefused):
        await call(Authorizer()).permit(here, Level.read, "folder")


async def test_a_later_target_of_a_path_is_checked_if_the_authorizer_decides_by_path() -> None:
    authorizer = Authorizer("elsewhere.ipynb")
    permit = await call(authorizer).permit(site(), Level.write, "a.ipynb")
    with pytest.raises(PermissionRefused):
        await permit.check("a.ipynb", "elsewhere.ipynb")
    # What was granted is not asked again: thousands of files may be.
    assert [path for _, _, path in authorizer.asked] == ["a.ipynb", "elsewhere.ipynb"]
    anywhere = await call(Authorizer("b.ipynb"), by_path=False).permit(
        site(), Level.write, "a.ipynb"
    )
    await anywhere.check("b.ipynb")


async def test_the_permit_of_another_server_is_refused() -> None:
    permit = await call(Authorizer()).permit(site(), Level.read, "a.ipynb")
    with pytest.raises(RuntimeError, match="another server"):
        await site().open(permit)


async def test_an_answer_is_withheld_if_its_permission_was_revoked() -> None:
    async def refuse() -> None:
        raise PermissionRefused("It was moved.", "Leave it.")

    async def answer(asking: Call) -> None:
        async with asking.recheck_before_answer():
            asking.recheck(refuse)
            raise ValueError("what an error would quote")

    with pytest.raises(PermissionRefused, match="It was moved"):
        await answer(call(Authorizer()))


async def test_a_call_may_use_its_declared_level_and_no_more() -> None:
    asking = call(Authorizer(), declared=Level.write)
    await asking.authorize(Level.write)
    with pytest.raises(RuntimeError, match="declared up to write, and asks for execute"):
        await asking.authorize(Level.execute)


async def test_a_path_that_the_authorizer_refuses_is_not_to_be_seen() -> None:
    asking, paths = call(Authorizer("secret.ipynb")), site(["denied.ipynb"]).workspace
    assert await asking.may_see(paths, "open.ipynb") is True
    assert await asking.may_see(paths, "secret.ipynb") is False
    assert await asking.may_see(paths, "denied.ipynb") is False


async def test_an_ephemeral_notebook_of_another_agent_seems_not_to_be_there() -> None:
    path, here = "ephemeral/scratch~0123abcd.ipynb", site()
    low = call(Authorizer(), allowed=Level.execute)
    with pytest.raises(DocumentNotFound, match="There is nothing at"):
        await low.permit(here, Level.read, path)
    assert await low.may_see(here.workspace, path) is False
    copy = "ephemeral/.ipynb_checkpoints/scratch~0123abcd-checkpoint.ipynb"
    assert low.knows(here.workspace, copy) is False
    for ordinary in ("ephemeral/scratch.ipynb", "scratch~0123abcd.ipynb", "ephemeral/a~1.ipynb"):
        assert low.knows(here.workspace, ordinary)
    assert (await call(Authorizer()).permit(here, Level.read, path)).path == path  # an admin
