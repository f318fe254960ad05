"""Which commits the event loop makes and which the thread, and what brings them to the disk."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.in_process import group_commit
from jupyter_collaboration_mcp.backends.in_process.group_commit import GroupCommit, JournalError
from jupyter_collaboration_mcp.backends.in_process.journal_file import Statement
from jupyter_collaboration_mcp.backends.in_process.journal_storage import JournalStorage
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


class Storage(JournalStorage):
    """Notes which thread commits what, and how often it is synced."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.commits: list[tuple[str, list[str]]] = []
        self.syncs = 0
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def _commit(self, statements: Iterable[Statement]) -> None:
        where = "loop" if threading.current_thread() is threading.main_thread() else "thread"
        if where == "thread":
            assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        statements = list(statements)
        self.commits.append((where, [str(parameters[0]) for _, parameters in statements]))
        super()._commit(statements)

    def sync(self) -> None:
        self.syncs += 1
        super().sync()

    @property
    def names(self) -> list[str]:
        return [name for _, names in self.commits for name in names]


class Group:
    """Commits of notices, which are the simplest rows."""

    def __init__(self, path: Path) -> None:
        self.storage = Storage(path)
        self.lost: list[Exception] = []
        self.commits = GroupCommit(self.storage, self.lost.append)

    def add(self, name: str, size: int = 0) -> None:
        self.commits.add(("INSERT INTO notices VALUES (?, '', 0, '')", [name]), size)

    def task(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.commits.durable())


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path / "journal-0.db")
    yield group
    group.storage.gate.set()
    await group.commits.close()
    group.storage.close()


async def test_small_updates_are_committed_on_the_loop_at_once(group: Group) -> None:
    group.add("a")
    group.add("b", size=99_999)
    group.add("c", size=1)
    await group.commits.durable()
    assert group.storage.commits == [("loop", ["a", "b", "c"])]


async def test_a_large_update_is_committed_in_the_thread_and_a_later_small_one_on_the_loop(
    group: Group,
) -> None:
    group.add("a", size=100_000)
    group.add("b", size=1)
    await group.commits.durable()
    group.add("c", size=1)
    await group.commits.durable()
    assert group.storage.commits == [("thread", ["a", "b"]), ("loop", ["c"])]


async def test_the_size_counter_restarts_after_a_commit_on_the_loop(group: Group) -> None:
    for name in ("a", "b"):
        group.add(name, size=60_000)
        await group.commits.durable()
    assert group.storage.commits == [("loop", ["a"]), ("loop", ["b"])]


async def test_a_slow_commit_moves_commits_to_the_thread_for_a_while(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SLOW", -1.0)
    group.add("a")
    await group.commits.durable()
    assert 0.1 < group.commits.slow_until - time.monotonic() <= 0.25
    group.commits.slow_until += 60
    group.add("b")
    await group.commits.durable()
    group.commits.slow_until = time.monotonic()  # the while is over
    group.add("c")
    await group.commits.durable()
    assert group.storage.commits == [("loop", ["a"]), ("thread", ["b"]), ("loop", ["c"])]


async def test_a_slow_disk_is_left_to_the_thread_for_longer_each_time(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SLOW", -1.0)
    pauses = [await _commit_and_pause(group) for _ in range(10)]
    assert pauses[:4] == pytest.approx([0.25, 0.5, 1, 2], abs=0.1)
    assert pauses[-2:] == pytest.approx([30, 30], abs=0.1)


async def test_a_disk_that_was_slow_once_is_trusted_again_after_many_quick_commits(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slow, commits in ((True, 3), (False, 49), (True, 1), (False, 50)):
        monkeypatch.setattr(group_commit, "_SLOW", -1.0 if slow else 60.0)
        for _ in range(commits):
            pause = await _commit_and_pause(group)
        if slow and commits == 1:
            assert pause == pytest.approx(2, abs=0.1)  # it was not trusted yet
    monkeypatch.setattr(group_commit, "_SLOW", -1.0)
    assert await _commit_and_pause(group) == pytest.approx(0.25, abs=0.1)


async def _commit_and_pause(group: Group) -> float:
    """Commit on the loop; returns for how many seconds the thread takes over then."""
    group.commits.slow_until = 0.0
    group.add("a")
    await group.commits.durable()
    return group.commits.slow_until - time.monotonic()


async def test_a_quick_commit_does_not_look_slow(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SLOW", 60.0)
    group.add("a")
    await group.commits.durable()
    assert group.commits.slow_until == 0


async def test_the_thread_commits_while_the_file_is_locked(group: Group) -> None:
    with group.storage._lock:
        group.add("a")
        waiting = group.task()
        await asyncio.sleep(0)
    await waiting
    assert group.storage.commits == [("thread", ["a"])]


async def test_updates_that_arrive_during_a_commit_form_the_next_group(group: Group) -> None:
    group.commits.slow_until = float("inf")
    group.storage.gate.clear()
    group.add("a")
    first = group.task()
    await asyncio.sleep(0)
    also = group.task()  # with nothing new: it waits for the same commit
    await asyncio.sleep(0)
    group.add("b")
    group.commits.flush()  # the thread has the file
    group.add("c")
    second = group.task()
    await asyncio.sleep(0)
    assert not any(task.done() for task in (first, also, second))
    group.storage.gate.set()
    await asyncio.gather(first, also, second)
    assert group.storage.commits == [("thread", ["a"]), ("thread", ["b", "c"])]


async def test_a_cancelled_waiter_does_not_affect_the_others(group: Group) -> None:
    group.commits.slow_until = float("inf")
    group.storage.gate.clear()
    group.add("a")
    first, second = group.task(), group.task()
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    group.storage.gate.set()
    async with asyncio.timeout(10):
        await second
        group.add("b")
        await group.commits.durable()
    assert group.storage.names == ["a", "b"]


async def test_durable_returns_at_once_with_nothing_to_commit(group: Group) -> None:
    await group.commits.durable()
    group.commits.flush()
    assert group.storage.commits == []


@pytest.mark.parametrize("slow", [False, True])
async def test_a_failed_group_is_committed_first_the_next_time(group: Group, slow: bool) -> None:
    group.commits.slow_until = float("inf") if slow else 0.0
    group.storage.failure = OSError("full")
    group.add("a")
    with pytest.raises(JournalError, match="full"):
        await group.commits.durable()
    group.storage.failure = None
    group.add("b")
    async with asyncio.timeout(10):
        await group.commits.durable()
    assert group.storage.names == ["a", "b"]
    assert group.lost == []


async def test_a_failure_is_raised_to_every_waiter(group: Group) -> None:
    group.commits.slow_until = float("inf")
    group.storage.failure = OSError("full")
    group.storage.gate.clear()
    group.add("a")
    first = group.task()
    await asyncio.sleep(0)
    group.add("b")  # which comes after it, and cannot be durable before it
    second = group.task()
    await asyncio.sleep(0)
    group.storage.gate.set()
    for task in (first, second):
        with pytest.raises(JournalError, match="full"):
            await task
    group.storage.failure = None
    async with asyncio.timeout(10):
        await group.commits.durable()
    assert group.storage.names == ["a", "b"]


async def test_a_failure_that_nobody_waits_for_is_logged(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.storage.failure = OSError("full")
    group.add("a")
    await until(lambda: "could not be kept" in caplog.text)


async def test_nothing_is_committed_while_the_file_is_being_replaced(group: Group) -> None:
    group.commits.hold()
    group.add("a")
    group.commits.flush()
    waiting = group.task()
    await asyncio.sleep(0)
    assert group.storage.commits == []
    assert not waiting.done()
    group.commits.resume()
    await waiting
    assert group.storage.names == ["a"]
    group.commits.hold()
    nothing_new = group.task()
    await asyncio.sleep(0)
    assert not nothing_new.done()
    group.commits.resume()
    await nothing_new
    group.add("b")
    await group.commits.durable()
    assert group.storage.names == ["a", "b"]


async def test_dropped_updates_are_not_committed(group: Group) -> None:
    group.add("a", size=1_000_000)
    group.commits.drop()
    group.add("b")
    await group.commits.durable()
    assert group.storage.commits == [("loop", ["b"])]


async def test_commits_on_the_loop_are_synced_together(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SYNC_DELAY", 1.0)
    for name in ("a", "b", "c"):
        group.add(name)
        await group.commits.durable()
    assert group.storage.syncs == 0
    await until(lambda: group.storage.syncs == 1)
    group.add("d")
    await group.commits.durable()
    assert group.storage.syncs == 1
    await until(lambda: group.storage.syncs == 2)


async def test_what_is_not_synced_yet_is_synced_before_the_thread_ends(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SYNC_DELAY", 60.0)
    group.add("a")
    await group.commits.durable()
    await group.commits.close()
    assert group.storage.syncs == 1


async def test_commits_of_the_thread_are_synced_without_a_pause(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_SYNC_DELAY", 60.0)
    group.commits.slow_until = float("inf")
    group.add("a")
    await group.commits.durable()
    await until(lambda: group.storage.syncs == 1)


async def test_a_failed_sync_is_logged_and_the_thread_continues(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OSError("a disk that fails")

    monkeypatch.setattr(group.storage, "sync", fail)
    group.commits.slow_until = float("inf")
    for name in ("a", "b"):
        group.add(name)
        async with asyncio.timeout(10):
            await group.commits.durable()
    await until(lambda: "could not be synced to the disk" in caplog.text)


async def test_the_thread_is_a_daemon_and_ends_on_close(
    group: Group,
) -> None:
    group.commits.slow_until = float("inf")
    group.add("a")
    await group.commits.durable()
    thread = group.commits._thread
    assert thread is not None
    assert thread.daemon
    await group.commits.close()
    assert not thread.is_alive()


async def test_what_somebody_waits_for_needs_no_timer(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    timers: list[object] = []
    call_later = loop.call_later

    def noted(delay: float, call: Callable[..., object], *more: object) -> asyncio.TimerHandle:
        timers.append(call)
        return call_later(delay, call, *more)

    monkeypatch.setattr(loop, "call_later", noted)
    for name in ("a", "b"):
        group.add(name)
        await group.commits.durable()
        await asyncio.sleep(0)
    assert group.storage.commits == [("loop", ["a"]), ("loop", ["b"])]
    assert group.commits.flush not in timers


async def test_updates_are_committed_soon_and_once_without_a_waiter(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = 0
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def counted(delay: float, call: Callable[..., object], *more: object) -> asyncio.TimerHandle:
        nonlocal timers
        timers += call == group.commits.flush
        return call_later(delay, call, *more)

    monkeypatch.setattr(loop, "call_later", counted)
    group.add("a")
    group.add("b")
    await until(lambda: group.storage.commits)
    assert group.storage.commits == [("loop", ["a", "b"])]
    assert timers == 1
    group.add("c")
    await until(lambda: len(group.storage.commits) == 2)
    assert timers == 2
