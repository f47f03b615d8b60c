"""Tools that step into traffic: answers without a server, and breakpoints."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Literal

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import SnakeArgs, SnakeResult
from pilothouse.core.declare.tool import Example, tool
from pilothouse.core.secrets.shapes import MASK
from pilothouse.intercept.model import FAULTS
from pilothouse.intercept.ports import Interceptor
from pilothouse.intercept.present.packets import held_view, unmasked_head
from pilothouse.intercept.tools.shared import INTERCEPT, WRITES, InterceptArgs, ProxyAnswer

MOST_RULES = 100
MOST_DELAY_MS = 60_000


class Rule(SnakeArgs):
    url: str = Field(min_length=1, description="RE2, searched in the whole URL")
    method: str | None = Field(default=None, description="Default: any")


class MockRule(Rule):
    status: int = Field(default=200, ge=200, le=599, description="Status")
    headers: dict[str, str] | None = Field(default=None, description="Headers")
    body: str = Field(default="", description="Body")
    delay_ms: int = Field(default=0, ge=0, le=MOST_DELAY_MS, description="Wait first")
    times: int | None = Field(default=None, ge=1, description="Only so often")


class MockRules(InterceptArgs):
    rules: list[MockRule] | None = Field(
        default=None, max_length=MOST_RULES, description="All that shall hold; absent: list them"
    )


class ShownRules(SnakeResult):
    rules: list[dict[str, Any]] = Field(description="All that hold now; the first match counts")


@tool(
    INTERCEPT,
    effect="write",
    idempotent=True,
    raises=WRITES,
    examples=(
        Example(title="Mock", args={"rules": [{"url": "/api/cart", "body": '{"items": []}'}]}),
        Example(title="Take all out", args={"rules": []}),
    ),
)
async def mock_rules(args: MockRules, interceptor: Interceptor) -> ShownRules:
    """Answer matching requests without their server."""
    await interceptor.admit(args.token, writes=args.rules is not None)
    held = await interceptor.set_rules(_plain(args.rules), None)
    return ShownRules(rules=interceptor.redactor.texts(held["mocks"]))


class Breakpoint(Rule):
    on: Literal["request", "response", "both"] = Field(
        default="request", description="What to hold"
    )


class BreakpointArgs(InterceptArgs):
    rules: list[Breakpoint] | None = Field(
        default=None, max_length=MOST_RULES, description="All that shall hold; absent: list them"
    )


@tool(
    INTERCEPT,
    effect="write",
    idempotent=True,
    raises=WRITES,
    examples=(
        Example(title="Hold", args={"rules": [{"url": "/api/pay", "method": "POST"}]}),
        Example(title="Take all out", args={"rules": []}),
    ),
)
async def breakpoints(args: BreakpointArgs, interceptor: Interceptor) -> ShownRules:
    """Hold matching traffic for release_packet; after 30 s it goes on by itself."""
    await interceptor.admit(args.token, writes=args.rules is not None)
    held = await interceptor.set_rules(None, _plain(args.rules))
    return ShownRules(rules=interceptor.redactor.texts(held["breakpoints"]))


class HeldPackets(InterceptArgs):
    pass


class ShownHeldPackets(SnakeResult):
    held: list[dict[str, Any]] = Field(description="Each with held_id, what it is and since when")


@tool(INTERCEPT, effect="read", raises=FAULTS, examples=(Example(title="What waits?"),))
async def held_packets(args: HeldPackets, interceptor: Interceptor) -> ShownHeldPackets:
    """List what breakpoints hold now."""
    await interceptor.admit(args.token)
    held = await interceptor.held()
    return ShownHeldPackets(held=[held_view(one, interceptor.redactor) for one in held])


class ReleasePacket(InterceptArgs):
    held_id: str = Field(description="Of held_packets")
    action: Literal["forward", "drop"] = Field(default="forward", description="What to do")
    head: str | None = Field(
        default=None, description="New start line and headers; lines as shown stay"
    )
    body: str | None = Field(default=None, description="New body")


class Released(ProxyAnswer):
    held_id: str = Field(description="What was held")
    action: str = Field(description="What was done")


@tool(
    INTERCEPT,
    effect="write",
    open_world=True,
    raises=WRITES,
    examples=(
        Example(title="Let it go", args={"held_id": "h1"}),
        Example(title="Changed", args={"held_id": "h1", "body": '{"amount": 0}'}),
    ),
)
async def release_packet(args: ReleasePacket, interceptor: Interceptor) -> Released:
    """Send a held packet on, edited or not, or drop it."""
    await interceptor.admit(args.token, writes=True)
    held = {one["held_id"]: one for one in await interceptor.held()}
    edit: dict[str, str] = {}
    if args.head is not None and args.held_id in held:
        head = unmasked_head(args.head, held[args.held_id], interceptor.redactor)
        edit["head"] = b64encode(head).decode()
    if args.body is not None:
        if MASK in args.body:
            raise InvalidInput(
                f"body: it has {MASK}, which would be sent as it stands",
                hint="write the real value; leave body out to send on the one that is held",
                field="body",
                expected=f"a body without {MASK}",
                received=args.body[:80],
            )
        edit["body"] = b64encode(args.body.encode("utf-8", "replace")).decode()
    done = await interceptor.decide(args.held_id, args.action, edit)
    told = {"held_id": args.held_id, "action": args.action, **done}
    return Released.model_validate(interceptor.redactor.texts(told))


def _plain(rules: list[MockRule] | list[Breakpoint] | None) -> list[dict[str, Any]] | None:
    return None if rules is None else [rule.model_dump(exclude_none=True) for rule in rules]


TOOLS = (mock_rules, breakpoints, held_packets, release_packet)
