"""Answers what needs no worker: who we are and what we can do. Pure.

A client asks for these at every start, long before it calls anything. They come from a template:
of our own server it is generated, of any other it is captured once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.listing import Listing
from pilothouse.core.declare.offered import is_offered, offered_text
from pilothouse.hub.http.replies import (
    INVALID_PARAMS,
    JSON,
    METHOD_NOT_FOUND,
    Reply,
    compact,
    error,
    error_text,
    result_text,
)
from pilothouse.hub.http.sse import SSE, event
from pilothouse.hub.mcp.param_headers import repeated_by_tool
from pilothouse.hub.mcp.revision_2026 import unsupported
from pilothouse.hub.mcp.routing_keys import HANDSHAKE_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.replies import Id
    from pilothouse.hub.mcp.param_headers import Repeated
    from pilothouse.hub.model import Era

ASKED_AT_START = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
"""Lists that do not change while a worker runs, unless it says that they may."""
MINTING = frozenset({"startSession"})
NAMING = frozenset({"tabs", "cdp_list_targets", "cdp_observe"})
_FEATURES = {"logging/setLevel": "logging", "completion/complete": "completions"}


@dataclass(frozen=True)
class Template:
    """The answers that every worker of one kind, version and set of flags gives alike."""

    handshake: dict[str, Any]
    """Results of 2025 by method; of `initialize` without `protocolVersion`. Empty: not spoken."""
    modern: dict[str, Any]
    """Results of 2026 by method, `server/discover` among them. Empty: not spoken."""
    versions: tuple[str, ...] = HANDSHAKE_VERSIONS
    """The handshake versions that are spoken, oldest first."""
    minting: frozenset[str] = frozenset()
    """Tools whose answer names a new handle."""
    naming: frozenset[str] = frozenset()
    """Tools whose answer may name more that lives in the worker of a handle, such as a tab."""

    @cached_property
    def modern_versions(self) -> tuple[str, ...]:
        return tuple(self.modern.get("server/discover", {}).get("supportedVersions", ()))

    @cached_property
    def repeated(self) -> dict[str, tuple[Repeated, ...]]:
        """Arguments that headers repeat, by tool."""
        return repeated_by_tool(self.modern.get("tools/list", {}).get("tools", ()))

    @cached_property
    def _texts(self) -> dict[tuple[Era, str], str]:
        texts: dict[tuple[Era, str], str] = {}
        for method, result in self.handshake.items():
            texts["2025", method] = compact(result)
        for method, result in self.modern.items():
            texts["2026", method] = compact(result)
        return texts

    def text(self, era: Era, method: str) -> str | None:
        """Return a result as JSON, None if there is none."""
        return self._texts.get((era, method))

    def capabilities(self, era: Era) -> Mapping[str, Any]:
        """Return the capabilities that were declared."""
        if era == "2025":
            hello = self.handshake.get("initialize", {})
        else:
            hello = self.modern.get("server/discover", {})
        declared: Mapping[str, Any] = hello.get("capabilities", {})
        return declared

    def may_change(self, era: Era, method: str) -> bool:
        """Return whether a running worker may by now give another list than the template."""
        feature = self.capabilities(era).get(method.partition("/")[0])
        return isinstance(feature, dict) and bool(feature.get("listChanged"))

    def agreed(self, requested: str) -> str:
        """Return the version in which a client that asked for this one is answered."""
        return requested if requested in self.versions else self.versions[-1]


def builtin_template(
    manifest: Mapping[str, Any],
    served: Callable[[Listing], bool],
    *,
    groups: Collection[str] | None = None,
    with_output_schemas: bool = False,
) -> Template:
    """Make the template of our own server, from what is generated.

    Args:
        manifest: The whole of it.
        served: Whether a tool was asked for.
        groups: Those that were asked for; None: those of which a tool is served.
        with_output_schemas: They were asked for too, and only the worker has them.
    """
    listings = [Listing(**entry) for group in manifest["tools"].values() for entry in group]
    tools = [listing for listing in listings if served(listing)]
    shown = [
        {
            "name": listing.name,
            "description": listing.description,
            "inputSchema": listing.input_schema,
            "annotations": listing.annotations,
        }
        for listing in tools
    ]
    left_to_worker = {"tools/list"} if with_output_schemas else set()
    asked = {listing.group for listing in tools} if groups is None else set(groups)
    if asked != set(manifest["tools"]):
        # Which resources belong to which group is not known here.
        left_to_worker |= {"resources/list", "resources/templates/list"}

    names = {listing.name for listing in tools}
    offered = {name for name, needs in manifest["prompts"].items() if is_offered(needs, names)}
    instructions = offered_text(manifest["instructions"], names)

    def results(era: str) -> dict[str, Any]:
        kept = {m: result for m, result in manifest[era].items() if m not in left_to_worker}
        if "tools/list" in kept:
            kept["tools/list"] = kept["tools/list"] | {"tools": shown}
        prompts = [one for one in kept["prompts/list"]["prompts"] if one["name"] in offered]
        kept["prompts/list"] = kept["prompts/list"] | {"prompts": prompts}
        hello = "initialize" if era == "handshake" else "server/discover"
        kept[hello] = kept[hello] | {"instructions": instructions}
        return kept

    return Template(results("handshake"), results("modern"), minting=MINTING, naming=NAMING)


def answer_from(
    template: Template,
    era: Era,
    head: RequestHead,
    message: dict[str, Any],
    *,
    in_session: bool = True,
) -> Reply | None:
    """Return the answer to a request that needs no worker, None if it needs one."""
    method, id = message["method"], message["id"]
    if "cursor" in message.get("params", {}):
        return None
    text = template.text(era, method)
    if text is None:
        return _lacking(template, era, method, id)
    # A request that stands alone is answered whole, in either era.
    return shaped(head, era if in_session else "2026", result_text(id, text))


def _lacking(template: Template, era: Era, method: str, id: Id) -> Reply | None:
    feature = _FEATURES.get(method, method.partition("/")[0])
    if method in _FEATURES or feature in ("tools", "resources", "prompts"):
        known = feature in template.capabilities(era)
    else:
        # These belong to the other era; all else may be an extension of the worker's own.
        known = method not in ("initialize", "ping", "server/discover", "subscriptions/listen")
        known = known or (era == "2026" and method == "subscriptions/listen")
    if known:
        return None
    status = 404 if era == "2026" else 200
    return error(status, METHOD_NOT_FOUND, "Method not found", id, data=method)


def initialize(template: Template, head: RequestHead, message: dict[str, Any]) -> Reply:
    """Answer an `initialize` that is sound; the session id is the caller's to add."""
    version = template.agreed(message["params"]["protocolVersion"])
    result = {"protocolVersion": version, **template.handshake["initialize"]}
    return shaped(head, "2025", result_text(message["id"], compact(result)))


def refuse_initialize(
    template: Template, head: RequestHead, message: dict[str, Any]
) -> Reply | None:
    """Return why an `initialize` opens no session, None if it opens one."""
    params, id = message.get("params", {}), message["id"]
    wrong = _wrong_hello(params)
    if wrong:
        return shaped(head, "2025", error_text(id, INVALID_PARAMS, wrong))
    if not template.handshake:
        return unsupported(params["protocolVersion"], template.modern_versions, id)
    return None


def _wrong_hello(params: dict[str, Any]) -> str:
    wanted = {"protocolVersion": str, "capabilities": dict, "clientInfo": dict}
    for name, kind in wanted.items():
        if not isinstance(params.get(name), kind):
            return f"initialize: params.{name} must be {'text' if kind is str else 'an object'}"
    for name in ("name", "version"):
        if not isinstance(params["clientInfo"].get(name), str):
            return f"initialize: params.clientInfo.{name} must be text"
    return ""


def shaped(head: RequestHead, era: Era, message: bytes) -> Reply:
    """Return a message in the form that the client takes: where it takes both, the one that servers
    of its era give, JSON in 2026 and a stream of one event before."""
    has_json, has_sse = accepts(head)
    if has_sse and (era == "2025" or not has_json):
        return Reply(200, event(message), SSE)
    if has_json:
        return Reply(200, message, JSON)
    return error(406, -32600, f"Not Acceptable: Client must accept {JSON} or {SSE}")


def accepts(head: RequestHead) -> tuple[bool, bool]:
    """Return whether the client takes JSON, and whether it takes a stream of events."""
    asked = {one.partition(";")[0].strip() for one in head.tokens("accept")}
    return (
        not asked.isdisjoint({JSON, "application/*", "*/*"}),
        not asked.isdisjoint({SSE, "text/*", "*/*"}),
    )
