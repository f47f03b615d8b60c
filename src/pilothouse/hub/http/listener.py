"""The hub's HTTP listener: no framework stands where a call passes.

Every request is judged by its Host and Origin first. MCP goes to the endpoints; all else is the
pages', whose application listens on a private socket and is just one more upstream.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pilothouse.core.net import jsonrpc
from pilothouse.core.net.http1 import BadMessage, kept, upgrades, write_head
from pilothouse.hub.http.answer import Passing
from pilothouse.hub.http.connection import Connection
from pilothouse.hub.http.forward import PEER, Call
from pilothouse.hub.http.replies import JSON, Reply, compact, of_fault
from pilothouse.hub.mcp.revision_2026 import VERSION_HEADER
from pilothouse.hub.mcp.routing_keys import RoutingFacts, era_of, path_key
from pilothouse.hub.model import GatewayFault, WorkerLost
from pilothouse.hub.ports import Denied
from pilothouse.hub.sessions.peers import NOT_MINE
from pilothouse.machine.net.local_users import caller_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.core.net.origins import OriginPolicy
    from pilothouse.hub.http.endpoint import McpEndpoint
    from pilothouse.hub.http.upstream import UpstreamPool
    from pilothouse.hub.ports import Admit, Authenticate, Upstream
    from pilothouse.hub.sessions.peers import Peers

    type Report = Callable[[str, Exception], None]
    """Callback for what should never happen."""

SWEEP_S = 1.0
"""Seconds between two looks for clients that keep us waiting."""
MAX_CONNECTIONS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerDeps:
    """Dependencies of a listener: what it leads to, and who judges what comes to it."""

    endpoint: McpEndpoint
    relay: UpstreamPool
    pages: Upstream
    """Server of everything that is no MCP."""
    origin_policy: OriginPolicy
    report: Report
    authenticate: Authenticate | None = None
    peers: Peers | None = None
    admit: Admit | None = None


class HttpListener:
    """Server of connections; `client` makes the protocols for listeners."""

    def __init__(self, deps: ListenerDeps) -> None:
        # Taken apart once: a request looks at most of them.
        self._endpoint = deps.endpoint
        self._relay = deps.relay
        self._pages = deps.pages
        self._origin_policy = deps.origin_policy
        self._report = deps.report
        self._authenticate = deps.authenticate
        self._peers = deps.peers
        self._admit = deps.admit
        self.requests = 0
        """Number of requests that ever came."""
        self._connections: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def client(self) -> asyncio.Protocol:
        return Connection(self)

    def opened(self, client: Connection) -> bool:
        self._connections.add(client)
        self._sweep_later()
        if self._admit is not None:
            client.caller = caller_of(client.transport)
        return len(self._connections) <= MAX_CONNECTIONS

    def closed(self, client: Connection) -> None:
        self._connections.discard(client)

    async def serve(self, client: Connection) -> bool:
        """Serve one request; return whether there may be another."""
        head: RequestHead | None = None
        try:
            head = await client.head()
            self.requests += 1
            done = await self._handle(client, head)
        except BadMessage as error:
            done = _refusal(error.status, str(error))
            head = None  # where the next request would begin is not known
        except Exception as error:
            self._report(f"{head.method} {head.target}" if head else "head", error)
            done = _refusal(500, "the hub failed at this request; its log says how")
        if isinstance(done, bool):
            return done
        if client.answered:  # it failed on the way: the client must not take it for whole
            client.reset()
            return False
        if client.reply(head, done):
            return True
        await client.linger()
        return False

    async def _handle(self, client: Connection, head: RequestHead) -> Reply | bool:
        if self._peers is not None and PEER in head.values:
            return await self._serve_peer(client, head, self._peers)
        refusal = self._judge(head)
        if refusal is not None:
            return refusal
        denied = self._admit(client.caller, head) if self._admit else None
        if denied is not None:
            return Reply(denied.status, denied.body, JSON, denied.headers)
        path = _path(head)
        key = path_key(path)
        if key is None:
            return await self._pass_to_pages(client, head)
        principal = await self._authenticate(head) if self._authenticate else ""
        if isinstance(principal, Denied):
            return Reply(principal.status, principal.body, JSON, principal.headers)
        return await self._answer(_call(client, head, path, key, principal))

    async def _serve_peer(
        self, client: Connection, head: RequestHead, peers: Peers
    ) -> Reply | bool:
        """Serve what another gateway has judged and passes on, signed with whom it is for."""
        path = _path(head)
        key, body = path_key(path), await client.body(head, jsonrpc.MAX_BYTES)
        principal = peers.judge(head, body) if body is not None else None
        if body is None or key is None or principal is None:
            return _refusal(NOT_MINE, f"{PEER} is not signed for this gateway")
        call = _call(client, head, path, key, principal)
        call.body, call.is_passed_on = body, True
        return await self._answer(call)

    async def _answer(self, call: Call) -> Reply | bool:
        try:
            if self._peers is not None:
                return await self._peers.serve(call, self._endpoint.handle)
            return await self._endpoint.handle(call)
        except GatewayFault as fault:
            return of_fault(fault, call.id)

    def _judge(self, head: RequestHead) -> Reply | None:
        if not head.target.startswith("/") or "#" in head.target:
            raise BadMessage("ask for a path, such as /mcp")
        host = head.one("host")
        if not self._origin_policy.admits_host(host):
            return _refusal(421, "Host names another server; use 127.0.0.1 or localhost")
        if not self._origin_policy.admits_origin(head.one("origin"), host or ""):
            why = "Origin is another site; requests of pages are taken from here only"
            return _refusal(403, why)
        return None

    # What is no MCP

    async def _pass_to_pages(self, client: Connection, head: RequestHead) -> Reply | bool:
        changes = upgrades(head)
        fields = kept(head.fields, head.values, {"expect"})
        if changes:
            fields += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        request = write_head(f"{head.method} {head.target} HTTP/1.{head.minor}", fields)
        sink = Passing(client, head)
        # Whatever the client says after it is no request, even if the protocol does not change.
        sink.is_last = changes
        more = client.rest() if changes else client.pieces(head) if head.body else None
        try:
            whole = await self._relay.exchange(self._pages, request, head.method, sink, more)
        except WorkerLost as lost:
            return _refusal(502, f"the hub's pages do not answer: {lost.message}")
        sink.finish(whole=whole)
        return sink.may_go_on

    # Clients that keep us waiting

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for client in self._connections:
            if 0 < client.deadline < now:
                client.reset()
        if self._connections:
            self._sweep_later()

    def close(self) -> None:
        """Hang up on everybody."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for client in self._connections:
            client.reset()


def _path(head: RequestHead) -> str:
    path = head.target.partition("?")[0]
    path = unquote(path) if "%" in path else path
    # Many a client's configuration ends in a slash, as other servers want it.
    bare = path.removesuffix("/")
    return path if path_key(bare) is None else bare


def _call(client: Connection, head: RequestHead, path: str, key: str, principal: str) -> Call:
    asked = RoutingFacts(era_of(head.one(VERSION_HEADER)), key, principal)
    return Call(client, head, "/mcp" if key else path, asked)


def _refusal(status: int, why: str) -> Reply:
    body = {"error": {"code": int(status), "message": why}}
    return Reply(status, compact(body).encode(), JSON)
