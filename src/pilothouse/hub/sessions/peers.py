"""Gateways among themselves: a request goes to the one where its session's worker lives.

The gateway that the client asked has judged Host, Origin and the caller. It signs for whom the
request is, with a secret that the other one has put into the registry: whoever cannot read that
cannot claim to be a gateway.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.core.net.http1 import kept, write_head
from pilothouse.hub.http.answer import Passing
from pilothouse.hub.http.forward import PEER as HEADER
from pilothouse.hub.http.forward import SESSION
from pilothouse.hub.http.replies import INVALID_REQUEST, Reply, error, error_text
from pilothouse.hub.http.upstream import Unreachable, UpstreamPool
from pilothouse.hub.model import Elsewhere, RegistryAway, WorkerLost
from pilothouse.hub.notices import LOST
from pilothouse.hub.ports import Upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.forward import Call
    from pilothouse.hub.sessions.redis_lease import RedisLease
    from pilothouse.hub.sessions.redis_leases import GatewayRecord

NOT_MINE = 421
"""The status by which a gateway says that a request is not for it."""
SIGNED_S = 60.0
"""Seconds for which a signature holds: also how far two machines' clocks may be apart."""
AGAIN_S = 0.25
"""Seconds before a gateway that does not answer is asked again, while it has its lease."""
PATIENCE_S = 5.0
"""Seconds beyond those of a lease that a call waits for somebody to serve it."""
_JUDGED = frozenset(
    {
        "host",
        "origin",
        "authorization",
        "cookie",
        "expect",
        "content-length",
        "transfer-encoding",
        HEADER,
    }
)


def sign(gate: GatewayRecord, head: RequestHead, body: bytes, principal: str, now: float) -> str:
    """Return the header of a request that is passed on to that gateway."""
    claim = json.dumps([int(now), principal]).encode()
    shown = base64.urlsafe_b64encode(claim).decode()
    return f"{shown}.{_signature(gate, head, body, shown)}"


def judge(gate: GatewayRecord, head: RequestHead, body: bytes, now: float) -> str | None:
    """Return the principal of a request that was passed on to this gateway, None if unsigned."""
    shown, _, signature = (head.one(HEADER) or "").partition(".")
    right = _signature(gate, head, body, shown)
    if not hmac.compare_digest(signature.encode(), right.encode()):
        return None
    try:
        at, principal = json.loads(base64.urlsafe_b64decode(shown))
    except (ValueError, binascii.Error):
        return None
    return str(principal) if abs(now - at) <= SIGNED_S else None


def _signature(gate: GatewayRecord, head: RequestHead, body: bytes, claim: str) -> str:
    session = head.one(SESSION) or ""
    digest = hashlib.sha256(body).hexdigest()
    signed = json.dumps([gate.id, head.method, head.target, session, claim, digest])
    return hmac.digest(gate.secret.encode(), signed.encode(), "sha256").hex()


class Peers:
    """The other gateways of the same registry."""

    def __init__(self, lease: RedisLease, clock: Callable[[], float]) -> None:
        """Take the lease, and the wall's `clock`, which machines have in common."""
        self._lease = lease
        self._clock = clock
        self._relay = UpstreamPool()

    def judge(self, head: RequestHead, body: bytes) -> str | None:
        """See `judge`."""
        return judge(self._lease.gate, head, body, self._clock())

    async def serve(
        self, call: Call, here: Callable[[Call], Awaitable[Reply | bool]]
    ) -> Reply | bool:
        """Have the call answered `here`, or where its session has its home.

        Raises:
            GatewayFault: as `here`; or the other gateway went away.
        """
        deadline = asyncio.get_running_loop().time() + self._lease.seconds + PATIENCE_S
        while True:
            try:
                return await here(call)
            except Elsewhere as elsewhere:
                gate = elsewhere.gate
            if call.client.answered:  # a stream that stood here while its session moved
                call.client.reset()
                return False
            if call.is_passed_on:
                return error(NOT_MINE, INVALID_REQUEST, f"the session moved to {gate.url}")
            with suppress(Unreachable):
                passed = await self._pass_on(call, gate)
                if passed is not None:
                    return passed
            # It died a moment ago, or the session is just moving: soon it has another home.
            if asyncio.get_running_loop().time() > deadline:
                raise RegistryAway(
                    f"this session is served by the gateway at {gate.url}, which does not answer"
                    " there; if it runs on another machine, start it with --http-host or"
                    " --peer-url, so that this one can reach it",
                    retry_after=self._lease.seconds,
                )
            await asyncio.sleep(AGAIN_S)

    async def _pass_on(self, call: Call, gate: GatewayRecord) -> bool | None:
        """Pass on a call; return whether its connection may go on, None if it was refused.

        Raises:
            Unreachable: nobody listens there.
            WorkerLost: the other one went away before it answered.
        """
        sink = Passing(call.client, call.head, call.head.one(SESSION) or "")
        sink.withholds = NOT_MINE
        upstream = _upstream(gate.url)
        request = self._request(call, gate, upstream)
        exchange = asyncio.create_task(
            self._relay.exchange(upstream, request, call.head.method, sink)
        )
        try:
            whole = await self._watch(exchange, gate)
        finally:
            exchange.cancel()
        if sink.refused:
            return None
        if sink.head is None:
            raise WorkerLost(LOST)
        sink.finish(whole=whole, lost=b"" if whole else error_text(call.id, -32603, LOST))
        return sink.may_go_on

    async def _watch(self, exchange: asyncio.Task[bool], gate: GatewayRecord) -> bool:
        """Return whether the answer came whole. A gateway that is stopped keeps its connections, so
        its end shows in the registry alone."""
        while True:
            done, _ = await asyncio.wait([exchange], timeout=self._lease.seconds / 3)
            if done:
                return exchange.result()
            if not await self._lease.is_alive(gate):
                return False

    def _request(self, call: Call, gate: GatewayRecord, upstream: Upstream) -> bytes:
        head = call.head
        signed = sign(gate, head, call.body, call.asked.principal, self._clock())
        fields = [("Host", upstream.host_header), *kept(head.fields, head.values, _JUDGED)]
        fields.append((HEADER, signed))
        if head.method == "POST":
            fields.append(("Content-Length", str(len(call.body))))
        return write_head(f"{head.method} {head.target} HTTP/1.{head.minor}", fields) + call.body

    def close(self) -> None:
        self._relay.close()


def _upstream(url: str) -> Upstream:
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    return Upstream(parts.netloc, host=parts.hostname or "", port=port, tls=tls)
