"""What a Prometheus server may know of the agents: calls, errors, latency, documents and runs.

Jupyter serves it at `/metrics`. Everything in a process shares one registry, so these are declared
once for the process, as Jupyter's own are. Labels are names of tools and of methods, outcomes of
four kinds, and codes of errors; nothing that an agent chooses.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..workspace.sites import Sites
from .call_record import CANCELLED, OK, CallRecord

_PREFIX = "jupyter_collaboration_mcp"

#: Codes of errors with which a call is refused, and not tried.
_REFUSED = frozenset(
    {
        "agent_paused",
        "agent_stopped",
        "path_refused",
        "permission_refused",
        "rate_limited",
        "too_many_documents",
    }
)

_CALLS = Counter(
    f"{_PREFIX}_calls", "Calls of agents, by how they ended.", labelnames=("call", "outcome")
)
_ERRORS = Counter(
    f"{_PREFIX}_errors", "Calls that ended with an error, by its code.", labelnames=("code",)
)
_SECONDS = Histogram(
    f"{_PREFIX}_call_seconds",
    "How long calls took.",
    labelnames=("call",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


FLOODS = Counter(f"{_PREFIX}_floods", "HTTP requests that were refused with 429.")


def count(record: CallRecord) -> None:
    """Count a call that is over."""
    outcome = record.outcome
    kind = outcome if outcome in (OK, CANCELLED) else "error"
    if outcome in _REFUSED:
        kind = "refused"
    _CALLS.labels(record.name, kind).inc()
    _SECONDS.labels(record.name).observe(record.seconds)
    if kind in ("error", "refused"):
        _ERRORS.labels(outcome).inc()


class _Now(Collector):
    """What is there at this moment, of all servers in the process."""

    def __init__(self) -> None:
        self.sites: weakref.WeakSet[Sites] = weakref.WeakSet()

    def collect(self) -> Iterator[Metric]:
        sites = [site for each in self.sites for site in each]
        rooms = sum(len(site.workspace.rooms) for site in sites)
        runs = sum(not run.over for site in sites for run in site.runs.remembered.values())
        yield GaugeMetricFamily(f"{_PREFIX}_open_documents", "Documents that are open.", rooms)
        yield GaugeMetricFamily(f"{_PREFIX}_runs", "Runs that wait or work.", runs)


_NOW = _Now()
REGISTRY.register(_NOW)


def watch(sites: Sites) -> None:
    """Report what is open and what runs there, as long as these sites exist."""
    _NOW.sites.add(sites)


def forget(sites: Sites) -> None:
    """Report it no longer."""
    _NOW.sites.discard(sites)
