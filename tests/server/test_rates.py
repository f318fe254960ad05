"""Token buckets: what is allowed at once, how fast more is, and what is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.errors import RateLimited
from jupyter_collaboration_mcp.server.rates import Buckets, RateLimits, Rates, retry_after
from jupyter_collaboration_mcp.settings.settings import Settings


class Clock:
    """A time that only a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_minutes_worth_passes_at_once_and_then_as_fast_as_it_is_allowed(clock: Clock) -> None:
    buckets = Buckets(60, clock)
    assert [buckets.take("ada") for _ in range(60)] == [0.0] * 60
    assert buckets.take("ada") == pytest.approx(1)
    clock.now += 0.75
    assert buckets.take("ada") == pytest.approx(0.25)
    clock.now += 0.25
    assert buckets.take("ada") == 0
    assert buckets.take("ada") == pytest.approx(1)


def test_each_key_has_a_bucket_of_its_own(clock: Clock) -> None:
    buckets = Buckets(1, clock)
    assert buckets.take("ada") == 0
    assert buckets.take("bob") == 0
    assert buckets.take("ada") == pytest.approx(60)


def test_what_no_bucket_holds_passes_when_it_is_full_and_is_paid_off(clock: Clock) -> None:
    buckets = Buckets(100, clock)
    assert buckets.take("ada", 1) == 0
    assert buckets.take("ada", 250) == pytest.approx(0.6)
    clock.now += 0.6
    assert buckets.take("ada", 250) == 0
    assert buckets.take("ada", 1) == pytest.approx(90.6)


def test_what_was_used_already_is_paid_off(clock: Clock) -> None:
    buckets = Buckets(60, clock)
    buckets.charge("ada", 70)
    assert buckets.take("ada") == pytest.approx(11)


def test_without_a_limit_everything_passes_and_nothing_is_remembered(clock: Clock) -> None:
    buckets = Buckets(0, clock)
    buckets.charge("ada", 10)
    assert buckets.take("ada", 1e9) == 0
    assert len(buckets) == 0


def test_idle_agents_are_forgotten(clock: Clock) -> None:
    buckets = Buckets(60, clock)
    buckets.take("busy", 60)
    for number in range(10_000):
        clock.now += 0.001
        assert buckets.take(f"agent {number}") == 0
        assert len(buckets) <= 1_000
    assert buckets.take("busy", 60) > 40  # who is refused is not forgotten


def test_any_number_of_names_is_remembered_in_bounded_memory(clock: Clock) -> None:
    buckets = Buckets(1, clock)
    for number in range(10_000):
        assert buckets.take(f"agent {number}") == 0
        assert len(buckets) <= 1_000


@given(
    st.integers(1, 1_000),
    st.lists(st.tuples(st.floats(0, 30), st.integers(1, 100)), max_size=60),
)
def test_nobody_gets_more_than_two_minutes_worth_in_a_minute(
    per_minute: int, asked: list[tuple[float, int]]
) -> None:
    clock = Clock()
    buckets = Buckets(per_minute, clock)
    given: list[tuple[float, int]] = []
    for pause, amount in asked:
        clock.now += pause
        if not (wait := buckets.take("ada", amount)):
            given.append((clock.now, amount))
        elif wait > 0:  # whoever waits as long as it was told gets it
            clock.now += wait + 1e-6
            assert buckets.take("ada", amount) == 0
            given.append((clock.now, amount))
    for start, _ in given:
        minute = [amount for at, amount in given if start <= at < start + 60]
        assert sum(minute) <= 2 * per_minute + max(minute) + 0.01


def test_the_error_names_the_limit_and_when_to_go_on(clock: Clock) -> None:
    rates = Rates(RateLimits(calls=2, runs=1, written=1_000), clock)
    rates.call("ada")
    rates.call("ada")
    with pytest.raises(RateLimited, match="2 calls a minute") as refused:
        rates.call("ada")
    assert refused.value.detail == {"limit": "rate_limit", "retry_after": 30}
    assert "Go on in 30 s" in refused.value.next_step
    rates.run("ada")
    rates.ran("ada", 3)
    with pytest.raises(RateLimited, match="1 runs of code a minute") as refused:
        rates.run("ada")
    assert refused.value.detail == {"limit": "execution_rate_limit", "retry_after": 180}
    rates.write("ada", 700)
    with pytest.raises(RateLimited, match="1,000 bytes written a minute") as refused:
        rates.write("ada", 500)
    assert refused.value.detail == {"limit": "write_rate_limit", "retry_after": 12}
    clock.now += 12
    rates.write("ada", 500)


def test_by_default_fifty_calls_a_second_pass_for_as_long_as_they_come() -> None:
    assert Settings().rate_limit >= 50 * 60


@pytest.mark.parametrize(("wait", "header"), [(0.001, "1"), (2.0, "2"), (2.1, "3")])
def test_retry_after_is_in_whole_seconds_and_never_too_early(wait: float, header: str) -> None:
    assert retry_after(wait) == header
