"""Pilothouse as MCP server, in both protocol eras. The only file that speaks to the SDK's server.

2025-11-25 and before: `initialize`, a session, `resources/subscribe`. From 2026-07-28: neither;
each request stands alone and `subscriptions/listen` is a stream. The SDK serves both over the
same handlers; what differs is who a request belongs to and how a change is notified.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
    event_to_notification,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from pilothouse import __version__
from pilothouse.core.declare.faults import Fault
from pilothouse.core.declare.offered import offered_text
from pilothouse.server.call import parse_args
from pilothouse.server.instructions import INSTRUCTIONS
from pilothouse.server.mcp.sdk_bypass import LEAST
from pilothouse.server.mcp.sdk_types import describe, roots_of, to_result
from pilothouse.server.runtime import TOOLS_LIST, too_many
from pilothouse.server.transports.principal import principal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server import ServerRequestContext

    from pilothouse.core.declare.prompt import Prompt
    from pilothouse.server.mcp.sdk_bypass import SdkBypass
    from pilothouse.server.runtime import Runtime
    from pilothouse.server.session import Session

    type Context = ServerRequestContext[Any, Any]

LIST_TTL_MS = 60_000
"""Time for which a client may keep the lists; version, flags and a pairing change them."""

WARM_UP_S = 0.2
"""Seconds from the request for the list until the groups are imported: when it has gone out."""


def build_server(runtime: Runtime, bypass: SdkBypass | None = None) -> Server[Any]:
    """Make an SDK server whose handlers answer from the runtime; `bypass` if its wire has one."""
    handlers = Handlers(runtime, bypass)
    fixed = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    server: Server[Any] = _Server(
        "pilothouse",
        version=__version__,
        title="Pilothouse",
        instructions=offered_text(INSTRUCTIONS, runtime.listings),
        cache_hints={
            "tools/list": fixed,
            "prompts/list": fixed,
            "resources/templates/list": fixed,
            "resources/list": CacheHint(),
            "resources/read": CacheHint(),
            "server/discover": fixed,
        },
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
    )
    # The SDK opens a trace span per message even when nobody exports traces.
    server.middleware.clear()
    return server


class _Server(Server[Any]):
    """A server that declares in both eras that its list of tools may change, by a pairing."""

    def get_capabilities(
        self, notification_options: NotificationOptions | None = None, *args: Any, **named: Any
    ) -> types.ServerCapabilities:
        changes = NotificationOptions(tools_changed=True)
        return super().get_capabilities(changes, *args, **named)


class Handlers:
    """One method for each MCP request."""

    def __init__(self, runtime: Runtime, bypass: SdkBypass | None = None) -> None:
        self._runtime = runtime
        self._bypass = bypass

    # Sessions of requests

    def session_of(self, ctx: Context) -> Session:
        """Return the session of a request (see docs/architecture.md, Whose session)."""
        self._meet(ctx)
        return self._runtime.sessions.get(self._key_of(ctx))

    def _meet(self, ctx: Context) -> None:
        """Have a client of 2025 notified unasked of another list of tools, as was declared to it;
        one of 2026 asks for that by `subscriptions/listen`."""
        client, pusher = ctx.session._connection, self._runtime.pusher
        if client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and pusher.meet(
            client, ctx.session.send_tool_list_changed
        ):
            client.exit_stack.callback(pusher.forget, client)

    def _key_of(self, ctx: Context) -> str:
        request = ctx.request
        if request is None:
            return "stdio"
        connection = ctx.session._connection  # no public way to the connection in mcp 2.3
        if connection.session_id is not None:
            key: str = connection.session_id
            if "pilothouse" not in connection.state:
                connection.state["pilothouse"] = key
                connection.exit_stack.callback(self._runtime.sessions.end, key)
            return key
        return principal_of(request.scope) or "local"

    # Tools

    def input_schema(self, name: str) -> dict[str, Any] | None:
        listing = self._runtime.listings.get(name)
        return None if listing is None else listing.input_schema

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        runtime = self._runtime
        self._meet(ctx)
        # An agent thinks before it calls a tool that is listed: time to import the groups.
        asyncio.get_running_loop().call_later(WARM_UP_S, getattr, runtime, "registry")
        outputs = runtime.registry.tools if runtime.settings.output_schema else {}
        return types.ListToolsResult(
            tools=[
                describe(listing, outputs.get(name)) for name, listing in runtime.listings.items()
            ]
        )

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._meet(ctx)
        tool = self._runtime.tool(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, self._unknown(params.name))
        if ctx.request is None:
            # Over HTTP the edge has counted this call already, to answer with Retry-After.
            wait = self._runtime.limits.admit("stdio", tool.name)
            if wait:
                return to_result(too_many(self._runtime, tool, wait))

        async def progress(done: float, total: float | None = None, message: str = "") -> None:
            await ctx.session.report_progress(done, total, message or None)

        session = self.session_of(ctx)
        if ctx.request is None:
            session.client_roots = partial(roots_of, ctx.session)
        given = await self._runtime.caller.call(tool, params.arguments or {}, session, progress)
        if self._bypass is not None and given.is_json and len(given.text) >= LEAST:
            ticket = self._bypass.hold(given.text)
            given = replace(given, text=ticket, structured={ticket: 1})
        return to_result(given)

    def _unknown(self, name: str) -> str:
        """Say what to do about a tool that is not served."""
        runtime = self._runtime
        elsewhere = runtime.unserved.get(name)
        if elsewhere is not None:
            return f"Tool {name} is not served: {runtime.selection.way_to(elsewhere)}."
        return f"Unknown tool: {name[:200]!r}. Call tools/list for the names."

    # Prompts

    async def list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[types.PromptArgument(**one) for one in prompt.arguments],
                )
                for prompt in self._runtime.registry.prompts.values()
            ]
        )

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = self._prompt(params.name)
        try:
            args = parse_args(prompt, params.arguments or {})
        except Fault as fault:
            message = f"{fault.message}; {fault.hint}"
            raise MCPError(types.INVALID_PARAMS, message, fault.details) from None
        offered_text = types.TextContent(text=prompt.text(args, self._runtime.listings))
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=offered_text)],
        )

    async def complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        words: list[str] = []
        if isinstance(params.ref, types.PromptReference):
            prompt, argument = self._prompt(params.ref.name), params.argument
            try:
                words = prompt.completions(argument.name, argument.value)
            except KeyError:
                known = ", ".join(one["name"] for one in prompt.arguments)
                raise MCPError(
                    types.INVALID_PARAMS,
                    f"{prompt.name} has no argument {argument.name[:200]!r}; it takes {known}",
                ) from None
        found = types.Completion(values=words, total=len(words), has_more=False)
        return types.CompleteResult(completion=found)

    def _prompt(self, name: str) -> Prompt:
        prompt = self._runtime.registry.prompts.get(name)
        if prompt is None:
            raise MCPError(
                types.INVALID_PARAMS,
                f"Unknown prompt: {name[:200]!r}. Call prompts/list for the names.",
            )
        return prompt

    # Resources

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=r.uri, name=r.name, description=r.description, mime_type=r.mime_type
                )
                for r in self._runtime.registry.resources
                if not r.is_template
            ]
        )

    async def list_resource_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=r.uri,
                    name=r.name,
                    description=r.description,
                    mime_type=r.mime_type,
                )
                for r in self._runtime.registry.resources
                if r.is_template
            ]
        )

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        found = self._runtime.registry.resource_for(uri)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        resource, values = found
        session = self.session_of(ctx)
        ports = {name: await session.port(kind) for name, kind in resource.ports.items()}
        try:
            body = await resource.reader(**values, **ports)
        except Fault as fault:
            error = fault.render(resource.group.envelope)
            raise MCPError(
                types.INVALID_PARAMS, fault.message, {"uri": uri, "error": error}
            ) from None
        content: types.TextResourceContents | types.BlobResourceContents
        if isinstance(body, bytes):
            blob = base64.b64encode(body).decode()
            content = types.BlobResourceContents(uri=uri, blob=blob, mime_type=resource.mime_type)
        else:
            # Pages may write halves of characters, which UTF-8 has not.
            text = body.encode("utf-8", "replace").decode()
            content = types.TextResourceContents(uri=uri, text=text, mime_type=resource.mime_type)
        return types.ReadResourceResult(contents=[content])

    # Push

    async def subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        session, client = self.session_of(ctx), ctx.session._connection
        if "subscribed" not in client.state:
            client.state["subscribed"] = True
            client.exit_stack.callback(self._runtime.pusher.forget, client)
        await self._awaken(session, [str(params.uri)])
        self._runtime.pusher.subscribe(
            client, session.id, str(params.uri), ctx.session.send_resource_updated
        )
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        session = self.session_of(ctx)
        self._runtime.pusher.unsubscribe(ctx.session._connection, session.id, str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        if ctx.request_id is None:
            raise MCPError(types.INVALID_REQUEST, "subscriptions/listen requires a request id")
        asked = params.notifications
        uris = list(dict.fromkeys(asked.resource_subscriptions or ()))
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        events: dict[str, ServerEvent] = {uri: ResourceUpdated(uri) for uri in uris}
        if asked.tools_list_changed:
            events[TOOLS_LIST] = ToolsListChanged()
        if asked.prompts_list_changed:
            events["prompts/list"] = PromptsListChanged()
        if asked.resources_list_changed:
            events["resources/list"] = ResourcesListChanged()

        async def send(notification: types.ServerNotification) -> None:
            await ctx.session.send_notification(notification, related_request_id=ctx.request_id)

        async def acknowledge() -> None:
            honored = types.SubscriptionFilter(
                tools_list_changed=asked.tools_list_changed or None,
                prompts_list_changed=asked.prompts_list_changed or None,
                resources_list_changed=asked.resources_list_changed or None,
                resource_subscriptions=uris or None,
            )
            about = types.SubscriptionsAcknowledgedNotificationParams(
                notifications=honored, meta=cast("Any", meta)
            )
            await send(types.SubscriptionsAcknowledgedNotification(params=about))

        async def tell(changed: str) -> None:
            await send(event_to_notification(events[changed], meta))

        session = self.session_of(ctx)
        await self._awaken(session, uris)
        await self._runtime.pusher.listen(session.id, events, acknowledge, tell)
        return types.SubscriptionsListenResult(meta=meta)

    async def _awaken(self, session: Session, uris: Sequence[str]) -> None:
        """Open the ports that report changes: a client that calls no tool would get none."""
        for uri in uris:
            found = self._runtime.registry.resource_for(uri)
            if found is not None and not found[0].is_template:
                for kind in found[0].ports.values():
                    with suppress(Fault):  # reading it says why
                        await session.port(kind)
