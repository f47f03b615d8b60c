"""The one place where a call is checked, run and answered, whatever transport it came by."""

from __future__ import annotations

import difflib
import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pilothouse.core.current_call import CURRENT_CALL, CurrentCall
from pilothouse.core.declare.faults import COMMON, Fault, Internal, InvalidInput
from pilothouse.core.declare.offered import without
from pilothouse.core.declare.tool import Progress, Tool
from pilothouse.core.timeline.clock import iso
from pilothouse.core.timeline.events import ToolInvocationFailed, ToolInvoked
from pilothouse.server.render import Answer, answer, failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from pilothouse.core.declare.prompt import Prompt
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.server.logs import Log
    from pilothouse.server.metrics import Metrics
    from pilothouse.server.session import Session


_NO_SECRETS = frozenset({"sessionId", "targetId", "tabId"})
ERRORS = frozenset({"server_start_failed", "browser_launch_failed", "browser_crashed"})
"""Codes of failures that are logged as errors: something that should run does not."""
MOST_MASKED = 10_000
MOST_SHOWN = 80
"""Characters of an argument that a failure shows, out of those that are searched for secrets."""


class ToolCaller:
    """The caller of declared tools for sessions."""

    def __init__(self, redactor: Redactor, metrics: Metrics, log: Log) -> None:
        self._redactor = redactor
        self._metrics = metrics
        self._log = log

    async def call(
        self, tool: Tool, raw: Mapping[str, Any], session: Session, progress: Progress
    ) -> Answer:
        """Validate the arguments, hand in the ports, run the handler, render what comes back."""
        started = session.last_call_at = session.clock()
        session.running_calls += 1
        about = CurrentCall()
        current = CURRENT_CALL.set(about)
        try:
            args = parse_args(tool, raw)
            ports = {
                name: progress if kind is Progress else await session.port(kind)
                for name, kind in tool.ports.items()
            }
            result = await tool.handler(args, **ports)
            given = answer(tool, result)
        except Fault as fault:
            given = self._failed(tool, fault, session, raw, started=started, about=about)
        except Exception as error:
            incident = self._incident(tool, error, about.session_id or session.id)
            given = self._failed(tool, incident, session, raw, started=started, about=about)
        else:
            took = session.clock() - started
            self._metrics.called(tool.name, took, "")
            named = given.structured.get("sessionId")
            told = {
                "sessionId": self._shown_id(
                    _session_of(raw, about, named, session), about, session
                ),
                "tool": tool.name,
                "durationMs": round(took, 3),
            }
            self._log.write("info", "tool_invoked", told, is_ours=True)
            # Emitted at its end, like every event: a ring is read in the order in which it grew.
            session.timeline.emit(
                ToolInvoked(at=session.clock(), tool=tool.name, duration_ms=round(took, 3))
            )
        finally:
            CURRENT_CALL.reset(current)
            session.running_calls -= 1
            session.last_call_at = session.clock()
        if session.afterword is not None:
            given = replace(given, afterword=session.afterword())
        return given

    def _failed(
        self,
        tool: Tool,
        fault: Fault,
        session: Session,
        raw: Mapping[str, Any],
        *,
        started: float,
        about: CurrentCall,
    ) -> Answer:
        if not isinstance(fault, (*tool.raises, *COMMON)):
            # A fault that the declaration does not name is a defect too: the docs would lie.
            fault = self._incident(tool, fault, about.session_id or session.id)
        fault.hint = without(fault.hint, session.unserved())
        took = session.clock() - started
        self._metrics.called(tool.name, took, fault.code)
        shown = self._redactor.text(fault.message)
        session.timeline.emit(
            ToolInvocationFailed(
                at=session.clock(),
                tool=tool.name,
                duration_ms=round(took, 3),
                code=fault.code,
                message=shown,
            )
        )
        named = _session_of(raw, about, fault.details.get("sessionId"), session)
        level = "error" if fault.code in ERRORS else "warn"
        details = {
            "sessionId": self._shown_id(named, about, session),
            "tool": tool.name,
            "code": fault.code,
        }
        self._log.write(level, "error_occurred", details, is_ours=True)
        now = iso(session.clock())
        call: dict[str, Any] = {"tool": tool.name, "sessionId": named, "timestamp": now}
        if not isinstance(fault, Internal):  # of which nothing is shown but its number
            call["args"] = _small(raw, self._redactor)
        context = {"timestamp": now, "context": call}
        return failure(tool.group, fault, self._redactor, context)

    def _shown_id(self, named: str, about: CurrentCall, session: Session) -> str:
        """Return a session's id as the log has it: masked, unless it is known to be one."""
        is_known = named in (about.session_id, session.id)
        return named if is_known else self._redactor.text(named)

    def _incident(self, tool: Tool, error: Exception, session_id: str) -> Internal:
        incident = secrets.token_hex(4)
        self._log.error(
            "internal_error", error, sessionId=session_id, tool=tool.name, incident=incident
        )
        return Internal(
            f"{tool.name} failed inside Pilothouse (incident {incident})",
            hint=f"the log on stderr has the details under incident {incident}; please report it",
            incident=incident,
        )


def _session_of(
    raw: Mapping[str, Any], about: CurrentCall, answered: object, session: Session
) -> str:
    """Return the id of the session that a call was about: the e2e session where there is one."""
    return str(raw.get("sessionId") or about.session_id or answered or session.id)[:80]


def parse_args(tool: Tool | Prompt, raw: Mapping[str, Any]) -> BaseModel:
    """Return the argument model of a call, or of a prompt.

    Raises:
        InvalidInput: naming the field, what was expected and what came.
    """
    try:
        return tool.args.model_validate(raw)
    except ValidationError as error:
        raise _invalid(tool, error) from None


def _invalid(tool: Tool | Prompt, error: ValidationError) -> InvalidInput:
    """Describe the first thing wrong, so that the next call can be right."""
    problems = error.errors(include_url=False)
    # A misspelt name is more often the cause than the argument that it left missing.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = problem["loc"]
    field = ".".join(map(str, path))
    if problem["type"] == "extra_forbidden":
        known: dict[str, Any] = _part(tool.input_schema, path[:-1]).get("properties", {})
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        return InvalidInput(
            f"{tool.name} has no argument {field!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"it takes {_listed(known)}",
            field=field,
            expected=f"one of {_listed(known)}" if known else _listed(known),
            received=_short(problem["input"]),
        )
    expected = _expected(_part(tool.input_schema, path)) if path else "an object"
    received = "nothing" if problem["type"] == "missing" else _short(problem["input"])
    what = (
        "is required"
        if problem["type"] == "missing"
        else problem["msg"].removeprefix("Value error, ")
    )
    return InvalidInput(
        f"{field or 'arguments'}: {what[0].lower() + what[1:]}",
        hint=f"call {tool.name} again with {field or 'an object'} as {expected}",
        field=field or None,
        expected=expected,
        received=received,
    )


def _part(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """Return the schema of what stands at a path, as far as that can be followed."""
    for step in path:
        inner = schema.get("items" if isinstance(step, int) else "properties", {})
        inner = inner if isinstance(step, int) else inner.get(step)
        if not isinstance(inner, dict):
            break
        schema = inner
    return schema


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "no arguments"


def _expected(schema: Mapping[str, Any]) -> str:
    """Describe a schema in words: `integer, 1 to 1000`."""
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "a value"))
    if kind == "array" and "items" in schema:
        return f"a list, each {_expected(schema['items'])}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{kind}, {least} to {most}"
    if least is not None:
        return f"{kind}, at least {least}"
    return kind if most is None else f"{kind}, at most {most}"


def _small(raw: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return arguments as far as they help to recognise a call.

    Masked before they are cut: half of a secret would not be known as one.
    """
    some = {name: _cut(value, MOST_MASKED) for name, value in list(raw.items())[:20]}
    masked: Any = redactor.value(some, _NO_SECRETS)
    return {name: _cut(value, MOST_SHOWN) for name, value in masked.items()}


def _cut(value: Any, most: int) -> Any:
    """Return the value itself, or the beginning of it as text."""
    if isinstance(value, int | float | None):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= most else text[:most]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
