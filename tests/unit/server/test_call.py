"""One call from raw arguments to an answer: what it names, what it hides, what it records."""

from __future__ import annotations

import io
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic import Field

from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Group, Tool, tool
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.settings import resolve
from pilothouse.core.timeline.events import ToolInvocationFailed, ToolInvoked
from pilothouse.server.groups import GroupSpec
from pilothouse.server.logs import Log
from pilothouse.server.runtime import Runtime, open_runtime
from tests.support import fixture_tools as fixture
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pilothouse.server.render import Answer
    from pilothouse.server.session import Session

pytestmark = pytest.mark.anyio

GUARD_S = 30


async def no_progress(done: float, total: float | None = None, message: str = "") -> None:
    """Nobody asked."""


@dataclass
class Desk:
    """A runtime with one session to call from, and its log."""

    runtime: Runtime
    session: Session
    stream: io.StringIO

    async def call(self, tool: Tool, args: Mapping[str, Any] | None = None) -> Answer:
        with anyio.fail_after(GUARD_S):
            return await self.runtime.caller.call(tool, args or {}, self.session, no_progress)

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    def events(self) -> list[Any]:
        return [moment.event for moment in self.session.timeline if moment.source == "calls"]


@asynccontextmanager
async def desk(*specs: GroupSpec) -> AsyncIterator[Desk]:
    stream = io.StringIO()
    log = Log("test", redactor=Redactor(), stream=stream)
    settings = resolve({"profile": "full"}, {})
    async with open_runtime((fixture.GROUP_SPEC, *specs), settings, Redactor(), log) as runtime:
        yield Desk(runtime, runtime.sessions.get("agent-1"), stream)


def error_of(answer: Answer) -> dict[str, Any]:
    assert answer.is_error
    error: dict[str, Any] = answer.structured["error"]
    return error


async def test_a_good_call_is_answered_counted_and_recorded() -> None:
    async with desk() as at:
        answer = await at.call(fixture.echo_code, {"text": "hi", "times": 2})
        assert not answer.is_error
        assert json.loads(answer.text) == answer.structured == {"said": ["hi"] * 2, "mood": "calm"}
        assert at.runtime.metrics.calls == {("echo_code", ""): 1}
        (event,) = at.events()
        assert isinstance(event, ToolInvoked)
        assert (event.tool, event.duration_ms >= 0) == ("echo_code", True)
        assert at.session.running_calls == 0
        assert at.session.last_call_at > 0


@pytest.mark.parametrize(
    ("args", "unknown", "hint"),
    [
        ({"text": "x", "tmies": 2}, "tmies", "did you mean 'times'?"),
        ({"text": "x", "target_id": "y"}, "target_id", "did you mean 'targetId'?"),
        ({"txet": "x"}, "txet", "did you mean 'text'?"),
        ({"text": "x", "zzz": 1}, "zzz", "it takes text, times, loud, mood, targetId, sessionId"),
    ],
)
async def test_an_unknown_argument_is_named_with_the_one_that_was_meant(
    args: dict[str, Any], unknown: str, hint: str
) -> None:
    async with desk() as at:
        error = error_of(await at.call(fixture.echo_code, args))
        assert error["message"] == f"echo_code has no argument {unknown!r}"
        assert error["details"]["field"] == unknown
        assert error["details"]["hint"] == hint


@pytest.mark.parametrize(
    ("name", "value", "expected", "received"),
    [
        ("times", 1001, "integer, 1 to 1000", "1001"),
        ("times", 0, "integer, 1 to 1000", "0"),
        ("times", "many", "integer, 1 to 1000", "'many'"),
        ("times", None, "integer, 1 to 1000", "None"),
        ("mood", "grim", "one of calm, glad", "'grim'"),
        ("loud", "perhaps", "boolean", "'perhaps'"),
        ("text", ["y" * 500], "string", "['" + "y" * 75 + "…"),
    ],
)
async def test_a_bad_value_is_answered_with_what_was_expected(
    name: str, value: object, expected: str, received: str
) -> None:
    async with desk() as at:
        error = error_of(await at.call(fixture.echo_code, {"text": "x", name: value}))
        assert error["code"] == "INVALID_INPUT"
        assert error["message"].startswith(f"{name}: ")
        assert error["details"] == {
            "hint": f"call echo_code again with {name} as {expected}",
            "field": name,
            "expected": expected,
            "received": received,
        }
        assert at.session.running_calls == 0


async def test_what_is_missing_and_what_is_too_much_is_named() -> None:
    async with desk() as at:
        missing = error_of(await at.call(fixture.echo_code))
        assert missing["message"] == "text: is required"
        assert missing["details"]["received"] == "nothing"
        too_much = error_of(await at.call(fixture.picture, {"url": "x"}))
        assert too_much["suggestion"] == "it takes no arguments"


@pytest.mark.parametrize(
    ("called", "args", "error"),
    [
        (
            fixture.echo_code,
            {"text": "missing"},
            {
                "code": "TARGET_NOT_FOUND",
                "message": "No target matches: missing",
                "details": {"hint": "call echo_code with another text", "port": 9222},
            },
        ),
        (
            fixture.echo_number,
            {"packet_id": 404},
            {"code": -32003, "message": "no packet 404", "data": {"details": "no packet 404"}},
        ),
        (
            fixture.echo_type,
            {"text": "missing"},
            {
                "type": "target_not_found",
                "message": "gone",
                "suggestion": "call startSession first",
                "sessionId": "abc",
                "context": {
                    "tool": "echoType",
                    "sessionId": "abc",
                    "args": {"text": "missing"},
                },
            },
        ),
    ],
)
async def test_a_declared_fault_has_the_form_of_its_groups_spec(
    called: Tool, args: dict[str, Any], error: dict[str, Any]
) -> None:
    async with desk() as at:
        answer = await at.call(called, args)
        got = error_of(answer)
        stamp = got.pop("timestamp", None)
        assert got.get("context", {}).pop("timestamp", None) == stamp
        assert got == error
        assert stamp is None or re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", stamp)
        assert json.loads(answer.text)["error"]["message"] == error["message"]
        (event,) = at.events()
        assert isinstance(event, ToolInvocationFailed)
        assert (event.tool, event.code) == (called.name, "target_not_found")
        assert event.message == error["message"]
        assert at.runtime.metrics.calls == {(called.name, "target_not_found"): 1}
        assert at.logged("internal_error") == []


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("undeclared", "this fault is not declared"),
        ("crash", "secret detail that only the log may have"),
    ],
)
async def test_what_no_declaration_names_is_an_incident_whose_details_only_the_log_has(
    text: str, detail: str
) -> None:
    async with desk() as at:
        answer = await at.call(fixture.echo_code, {"text": text})
        error = error_of(answer)
        assert error["code"] == "INTERNAL_ERROR"
        incident = error["details"]["incident"]
        assert incident in error["message"]
        assert detail not in answer.text
        assert detail not in str(answer.structured)
        (logged,) = at.logged("internal_error")
        assert logged["details"]["incident"] == incident
        assert logged["sessionId"] == "agent-1"
        assert detail in logged["details"]["traceback"]
        (event,) = at.events()
        assert (event.code, detail in event.message) == ("internal", False)
        assert at.session.running_calls == 0


async def test_running_calls_are_counted_while_they_run_and_given_back_on_cancellation() -> None:
    async with desk() as at, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(at.call, fixture.forever)
        await until(lambda: at.session.running_calls >= 3)
        tasks.cancel_scope.cancel()
    assert at.session.running_calls == 0


async def test_a_port_that_cannot_be_opened_is_an_incident_of_that_call() -> None:
    @asynccontextmanager
    async def broken(session: Session) -> AsyncIterator[object]:
        raise OSError("no such device")
        yield

    async with desk(GroupSpec(tools=(), providers={fixture.Counter: broken})) as at:
        error = error_of(await at.call(fixture.add))
        assert (error["type"], "no such device" in str(error)) == ("internal", False)
        assert at.session.running_calls == 0
        assert not (await at.call(fixture.echo_code, {"text": "still here"})).is_error


OWN = Group(name="house", summary="For this file", envelope=Envelope.TYPE, own=True)


class Nothing(Args):
    pass


class Done(Result):
    done: bool = Field(default=True, description="Always true")


class Odd(Fault):
    """Carries what JSON has no word for."""

    code = "odd"


async def odd_details(args: Nothing) -> Done:
    """Fail with a detail that is no JSON."""
    raise Odd("odd", what={1, 2})


async def wrong_result(args: Nothing) -> Done:
    """Return what was not declared."""
    return None  # type: ignore[return-value]  # that is the point


@pytest.mark.parametrize("handler", [odd_details, wrong_result])
async def test_whatever_a_handler_does_the_call_is_answered(handler: Any) -> None:
    made = tool(OWN, effect="read", raises=(Odd,))(handler)
    async with desk(GroupSpec(tools=(made,))) as at:
        answer = await at.call(made)
        assert answer.is_error
        json.dumps(answer.structured)
        assert at.session.running_calls == 0


async def test_calls_that_overlap_stand_in_the_order_of_their_time() -> None:
    async with desk() as at:
        entered, gate = anyio.Event(), anyio.Event()

        async def slow(args: Nothing) -> Done:
            """End after a call that started later."""
            entered.set()
            await gate.wait()
            return Done()

        slow_tool = tool(OWN, effect="read")(slow)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.call, slow_tool)
            await entered.wait()
            await at.call(fixture.echo_code, {"text": "quick"})
            gate.set()
        times = [moment.event.at for moment in at.session.timeline]
        assert len(times) == 3
        assert times == sorted(times)
