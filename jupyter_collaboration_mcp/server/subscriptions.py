"""Notifications of changes to clients that asked for them, in both eras of the protocol.

Sessions (to 2025-11-25) subscribe to one URI at a time and are notified on their own channel. Since
2026-07-28, a `subscriptions/listen` request names all URIs, and its answer is the stream.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourcesListChanged,
    ResourceUpdated,
    event_to_notification,
)
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    EmptyResult,
    ServerNotification,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..errors import CollaborationError
from ..owned_tasks import OwnedTasks
from ..panics import contained
from ..resources.kinds import ResourceKind, Watch
from ..workspace.permits import Call
from .gate import Gate, Request
from .resource_requests import refusal

Context = ServerRequestContext[Any, Any]

#: Subscriptions of one session or stream, of one credential, and of all together; the last two hold
#: for streams, too. So nobody can take all that there are.
MOST_OF_CLIENT, MOST_OF_CREDENTIAL, MOST = 100, 800, 1_000

#: Seconds between two notifications of one URI to one client.
INTERVAL = 0.2

#: Notifications in a second, to all clients together, at which each waits for a second, and longer
#: the more there are: one costs the server a quarter of a millisecond. And the longest wait.
_BUSY, _LONGEST = 110, 5.0

#: Seconds in which a client has to take a notification.
_PATIENCE = 30.0

#: In place of a URI: the list of all resources.
_LIST = ""

#: Where a connection keeps its subscriptions.
_STATE = "jupyter_collaboration_mcp.subscriptions"

_log = logging.getLogger(__name__)


class Pace:
    """How long each client waits for its next notification: longer, the more there are for all, so
    that clients that watch do not slow down those that work."""

    def __init__(self) -> None:
        self._rate = self._at = 0.0

    def after(self, now: float) -> float:
        """The pause after a notification that is sent now."""
        self._rate = self._rate * math.exp(self._at - now) + 1
        self._at = now
        return max(INTERVAL, min(_LONGEST, (self._rate / _BUSY) ** 2))


@dataclass(eq=False, slots=True)
class _Subscription:
    uri: str
    call: Callable[[], Call]
    """Makes a new call of the client, to decide whether it may still read the resource."""
    watch: Watch | None = None
    """None for something that never changes."""
    due: bool = False
    """Whether it has changed since its last notification."""
    next_at: float = 0.0
    """When it may be notified again."""

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()


class Subscriber:
    """One session or stream, and what it has subscribed to.

    However often something changes, all that is kept is whether it has. So a client that reads
    slowly costs no memory, and each notification is about the latest state.

    Args:
        send: Sends the notification about a URI.
        ended: Called once, when it has no more subscriptions and takes none.
        pace: That of all clients.
        owner: Its credential.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        ended: Callable[[Subscriber], None],
        pace: Pace,
        owner: str = "",
    ) -> None:
        self.owner = owner
        self._send, self._ended, self._pace = send, ended, pace
        self._subscriptions: dict[str, _Subscription] = {}
        self._changed = asyncio.Event()
        self.reserved = 0
        """Subscriptions that are being made."""
        self.closed = False

    def __len__(self) -> int:
        """How many resources it has subscribed to, or is about to."""
        return len(self._subscriptions) - (_LIST in self._subscriptions) + self.reserved

    def __contains__(self, uri: str) -> bool:
        return uri in self._subscriptions

    def add(self, subscription: _Subscription) -> None:
        """Notify it of changes of a resource from now on, instead of what it had under the URI."""
        if self.closed:
            subscription.close()
            return
        self.remove(subscription.uri)
        self._subscriptions[subscription.uri] = subscription
        if subscription.due:  # it has changed before it was ours, and nothing else will wake us
            self._changed.set()

    def remove(self, uri: str) -> None:
        """Notify it of changes of a resource no longer."""
        if (subscription := self._subscriptions.pop(uri, None)) is not None:
            subscription.close()

    def tell(self, subscription: _Subscription) -> None:
        """Note a change. This is called for each of them."""
        if not subscription.due:
            subscription.due = True
            self._changed.set()

    def close(self) -> None:
        """End all subscriptions."""
        if not self.closed:
            self.closed = True
            for subscription in self._subscriptions.values():
                subscription.close()
            self._subscriptions.clear()
            self._changed.set()
            self._ended(self)

    async def run(self) -> None:
        """Send notifications until it is closed: the first at once, later ones at intervals.

        Raises:
            TimeoutError: The client takes nothing any more.
        """
        while not self.closed:
            self._changed.clear()
            pause = await self._send_due()
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _send_due(self) -> float | None:
        """Send what is due; returns the seconds until something else is, None if nothing is."""
        time, soonest = asyncio.get_running_loop().time, None
        for subscription in list(self._subscriptions.values()):
            if not subscription.due or not self._has(subscription):
                continue
            if subscription.next_at > time():
                soonest = min(soonest or subscription.next_at, subscription.next_at)
                continue
            # First of all, so that a change in the meantime counts as another one.
            subscription.due, now = False, time()
            subscription.next_at = now + INTERVAL
            if await _may_read(subscription) and self._has(subscription):
                subscription.next_at = now + self._pace.after(now)
                async with asyncio.timeout(_PATIENCE):
                    await self._send(subscription.uri)
        return None if soonest is None else max(0.0, soonest - time())

    def _has(self, subscription: _Subscription) -> bool:
        """Whether it is still subscribed: it may have unsubscribed while we asked or sent."""
        return self._subscriptions.get(subscription.uri) is subscription


async def _may_read(subscription: _Subscription) -> bool:
    try:
        with contained():
            watch = subscription.watch
            return watch is not None and await watch.may_read(subscription.call())
    except CollaborationError:
        return False
    except Exception:
        _log.exception("Could not check who may read %s", subscription.uri)
        return False


class Subscriptions:
    """Serves `resources/subscribe`, `resources/unsubscribe` and `subscriptions/listen`.

    Args:
        kinds: What can be watched.
        watch_list: Watches which resources there are.
        unknown: The error for a URI that has no known form.
    """

    def __init__(
        self,
        gate: Gate,
        kinds: Sequence[tuple[str, ResourceKind]],
        watch_list: Callable[[Callable[[], None]], Watch],
        unknown: Callable[[str], CollaborationError],
    ) -> None:
        self._gate, self._kinds = gate, kinds
        self._watch_list, self._unknown = watch_list, unknown
        self._subscribers: set[Subscriber] = set()
        self._pace = Pace()
        self._tasks = OwnedTasks()
        self._closing = False

    def __len__(self) -> int:
        """How many resources are subscribed to, by all clients together."""
        return sum(map(len, self._subscribers))

    @property
    def subscribers(self) -> int:
        """How many sessions and streams there are that have subscribed to something."""
        return len(self._subscribers)

    async def close(self) -> None:
        """End all streams with the protocol's own last message, and take no more."""
        self._closing = True
        for subscriber in list(self._subscribers):
            subscriber.close()
        await self._tasks.close()

    # -- sessions ----------------------------------------------------------------------------

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Notify a session of changes of a resource.

        Raises:
            MCPError: There is no such resource, the caller may not read it, or there are too many
                subscriptions.
        """
        subscriber, uri = self._of_session(ctx), str(params.uri)
        if uri not in subscriber:
            self._require_room(subscriber.owner, len(subscriber), 1)
        subscriber.reserved += 1
        await self._add(ctx, subscriber, uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Notify a session of changes of a resource no longer, if it was."""
        subscriber: Subscriber | None = ctx.session._connection.state.get(_STATE)
        if subscriber is not None:
            subscriber.remove(str(params.uri))
        return EmptyResult()

    def follow_list(self, ctx: Context) -> None:
        """Notify a session that has listed resources when the list changes."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or self._is_full(self._owner(ctx)):
            return
        subscriber = self._of_session(ctx)
        if _LIST not in subscriber:
            self._add_list(ctx, subscriber)

    def _of_session(self, ctx: Context) -> Subscriber:
        connection = ctx.session._connection
        subscriber: Subscriber | None = connection.state.get(_STATE)
        if subscriber is None or subscriber.closed:

            async def send(uri: str) -> None:
                said = _notification(uri).model_dump(by_alias=True, mode="json", exclude_none=True)
                await connection.notify(said["method"], said.get("params"))

            subscriber = connection.state[_STATE] = self._new(send, self._owner(ctx))
            connection.exit_stack.callback(subscriber.close)
            self._tasks.start(self._run(subscriber))
        return subscriber

    async def _run(self, subscriber: Subscriber) -> None:
        """Notify a session, which may end or stop to read at any time."""
        try:
            await subscriber.run()
        except TimeoutError:
            _log.warning("A client takes no notifications any more; its subscriptions have ended")
        except Exception:
            _log.exception("Could not notify a client; its subscriptions have ended")
        finally:
            subscriber.close()

    # -- streams -----------------------------------------------------------------------------

    async def listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream of notifications, until its client goes away or the server stops.

        Raises:
            MCPError: As `subscribe`, before anything else is sent.
        """
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id.")
        wanted = params.notifications
        uris = list(dict.fromkeys(wanted.resource_subscriptions or ()))
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        notify = partial(ctx.session.send_notification, related_request_id=ctx.request_id)
        owner = self._owner(ctx)
        self._require_room(owner, 0, len(uris))
        subscriber = self._new(lambda uri: notify(_notification(uri, meta)), owner)
        subscriber.reserved = len(uris)
        try:
            for uri in uris:
                await self._add(ctx, subscriber, uri)
            if wanted.resources_list_changed:
                self._add_list(ctx, subscriber)
            honored = SubscriptionFilter(
                tools_list_changed=wanted.tools_list_changed or None,
                prompts_list_changed=wanted.prompts_list_changed or None,
                resources_list_changed=wanted.resources_list_changed or None,
                resource_subscriptions=uris or None,
            )
            acknowledgement = SubscriptionsAcknowledgedNotificationParams(
                notifications=honored, _meta=meta
            )
            await notify(SubscriptionsAcknowledgedNotification(params=acknowledgement))
            await subscriber.run()
        except TimeoutError:
            _log.warning("A client does not read its stream of notifications, which has ended")
        finally:
            subscriber.close()
        return SubscriptionsListenResult(_meta=meta)

    # -- both --------------------------------------------------------------------------------

    def _owner(self, ctx: Context) -> str:
        return self._gate.request(ctx).caller.credential

    def _of(self, owner: str) -> list[Subscriber]:
        return [each for each in self._subscribers if each.owner == owner]

    def _new(self, send: Callable[[str], Awaitable[None]], owner: str) -> Subscriber:
        if self._closing:
            raise MCPError(INTERNAL_ERROR, "This server is shutting down.")
        if self._is_full(owner):
            raise _too_many("This server, or this credential, has too many streams already")
        subscriber = Subscriber(send, self._subscribers.discard, self._pace, owner)
        self._subscribers.add(subscriber)
        return subscriber

    def _is_full(self, owner: str) -> bool:
        if self._closing or len(self._subscribers) >= MOST:
            return True
        return len(self._of(owner)) >= MOST_OF_CREDENTIAL

    def _require_room(self, owner: str, has: int, more: int) -> None:
        if has + more > MOST_OF_CLIENT:
            raise _too_many(f"A client can subscribe to {MOST_OF_CLIENT} resources at once")
        if sum(map(len, self._of(owner))) + more > MOST_OF_CREDENTIAL:
            raise _too_many(
                f"All clients with one credential can subscribe to {MOST_OF_CREDENTIAL:,} resources"
            )
        if len(self) + more > MOST:
            raise _too_many(f"All clients together can subscribe to {MOST:,} resources at once")

    def _add_list(self, ctx: Context, subscriber: Subscriber) -> None:
        subscription = self._subscription(ctx, _LIST)
        subscription.watch = self._watch_list(partial(subscriber.tell, subscription))
        subscriber.add(subscription)

    async def _add(self, ctx: Context, subscriber: Subscriber, uri: str) -> None:
        subscription = self._subscription(ctx, uri)
        try:
            with contained():
                await self._gate.ready()
                tell = partial(subscriber.tell, subscription)
                subscription.watch = await self._watch(subscription.call(), uri, tell)
        except CollaborationError as error:
            raise refusal(error, uri, ctx.protocol_version, self._gate.wording(ctx)) from error
        finally:
            subscriber.reserved -= 1
        subscriber.add(subscription)

    def _subscription(self, ctx: Context, uri: str) -> _Subscription:
        request: Request = self._gate.request(ctx)
        return _Subscription(uri, lambda: self._gate.call(request, ctx.method))

    async def _watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        for _, kind in self._kinds:
            if (watch := await kind.watch(call, uri, tell)) is not None:
                return watch
        for _, kind in self._kinds:  # it may be there and never change
            if await kind.read(call, uri) is not None:
                return None
        raise self._unknown(uri)


def _notification(uri: str, meta: dict[str, Any] | None = None) -> ServerNotification:
    event = ResourceUpdated(uri) if uri != _LIST else ResourcesListChanged()
    return event_to_notification(event, meta)  # type: ignore[arg-type]


def _too_many(happened: str) -> MCPError:
    return MCPError(INTERNAL_ERROR, f"{happened}. Unsubscribe from some that you do not need.")
