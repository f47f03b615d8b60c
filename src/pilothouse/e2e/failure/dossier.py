"""The failure dossier: all evidence of a failed step in one answer that a model can afford."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.fence import visible_json
from pilothouse.e2e.failure.causes import difference, rank
from pilothouse.e2e.failure.digest import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.e2e.failure.causes import Evidence

BUDGET = 7_200
"""Characters of a failure's JSON. It stands in an answer twice, as text and as structured content,
and both together stay under 16,000; what the call itself adds (its arguments, cut, and the time)
takes the rest."""
LEAST = 1_500
"""Characters that the evidence gets, however long the error itself is."""

# Lines of each section and characters of a line, from generous to bare.
_LEVELS = (
    (24, 8, 6, 14, 300),
    (14, 5, 5, 10, 240),
    (8, 4, 3, 6, 160),
    (4, 2, 2, 4, 90),
)
# The same of the servers' logs: lines of stderr and of stdout, characters of a line.
_LOG_LEVELS = (
    (100, 20, 300),
    (100, 10, 160),
    *((lines, 5, 80) for lines in range(100, 39, -5)),
)


@dataclass(frozen=True, slots=True)
class Composed:
    """A dossier in the two places that it has in an answer."""

    inside: dict[str, Any]
    """Sections that `error` itself carries."""
    beside: dict[str, Any]
    """Sections that stand beside `error`."""


def compose(
    evidence: Evidence, base: str, captured_at: str, frame: dict[str, Any] | None = None
) -> Composed:
    """Return a dossier that is as rich as the budget allows, with the error that frames it.

    The least that is shown of the logs has its room before all else, and they get what is left.
    """
    picture = {"screenshot": evidence.screenshot} if evidence.screenshot else {}
    least = _size(_server_logs(evidence, captured_at, _LOG_LEVELS[-1]))
    free = BUDGET - _size(frame or {}) - _size(picture)
    inside = _inside(evidence, base, max(LEAST, free - least))
    free -= _size(inside)
    logs = (_server_logs(evidence, captured_at, level) for level in _LOG_LEVELS)
    fitting = next((each for each in logs if _size(each) <= max(least, free)), {})
    return Composed(inside, {**picture, **fitting})


def _inside(evidence: Evidence, base: str, room: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for level in _LEVELS:
        made = dict(_sections(evidence, base, level))
        if _size(made) <= room:
            return made
    for name in ("timeline", "snapshotDiff", "candidates", "requests", "console"):
        made.pop(name, None)
        if _size(made) <= room:
            break
    return made


def whole(evidence: Evidence, base: str, captured_at: str) -> dict[str, Any]:
    """Return the same without a budget and in one place, for the page that a person opens."""
    return {
        **dict(_sections(evidence, base, (400, 100, 100, 200, 4_000))),
        **_server_logs(evidence, captured_at, (100, 100, 4_000)),
    }


def _size(section: dict[str, Any]) -> int:
    return len(visible_json(section))


def _server_logs(
    evidence: Evidence, captured_at: str, level: tuple[int, int, int]
) -> dict[str, Any]:
    """Return what the servers wrote last, each line with its beginning."""
    if not evidence.has_log:
        return {}
    lines, stdout_lines, width = level
    shown = [cut_line(line, width) for line in evidence.server_lines[-lines:]]
    logs: dict[str, Any] = {
        "stderr": "\n".join(shown),
        "capturedAt": captured_at,
        "sinceStep": min(evidence.since_step, len(shown)),
    }
    if evidence.stdout_lines:
        said = [cut_line(line, width) for line in evidence.stdout_lines[-stdout_lines:]]
        logs["stdout"] = "\n".join(said)
    return {"serverLogs": logs}


def _sections(evidence: Evidence, base: str, level: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    diff_lines, console, requests, moments, width = level
    yield "causes", rank(evidence, base, min(300, max(width, 160)))
    if evidence.overlay:
        yield "overlay", cut(evidence.overlay, width * 4)
    if evidence.hit:
        yield "element", evidence.hit
    if evidence.trouble.candidates:
        yield "candidates", [cut(each, width) for each in evidence.trouble.candidates[:8]]
    changed = difference(evidence.baseline, evidence.snapshot, diff_lines)
    if changed:
        yield "snapshotDiff", [cut_line(line, width) for line in changed]
    if evidence.console:
        yield "console", [_console(event, width) for event in evidence.console[:console]]
    if evidence.requests:
        yield (
            "requests",
            [
                _request(exchange, body, base, width)
                for exchange, body in evidence.requests[:requests]
            ],
        )
    if evidence.server_exit:
        yield "server", evidence.server_exit
    if evidence.moments:
        yield "timeline", [cut(line, width) for line in evidence.moments[-moments:]]
    if evidence.missing:
        yield "missing", evidence.missing


def cut_line(line: str, most: int) -> str:
    """Cut a line, with its indentation kept."""
    return line if len(line) <= most else line[: most - 1] + "…"


def _console(event: dict[str, Any], width: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "level": event.get("type"),
        "text": cut(str(event.get("text", "")), width),
        "key": f"console:{event['seq']}",
    }
    frames = [_frame(frame) for frame in (event.get("frames") or [])[:3]]
    if not frames and event.get("stack"):
        frames = [_frame(event["stack"])]
    if any(frames):
        made["at"] = [frame for frame in frames if frame]
    return made


def _frame(frame: dict[str, Any]) -> str:
    place = frame.get("original") or frame
    name = place.get("source") or place.get("url") or ""
    function = place.get("name") or frame.get("function") or ""
    where = f"{name}:{place.get('line', 0)}:{place.get('column', 0)}" if name else ""
    return f"{function} ({where})" if function and where else where


def _request(exchange: Any, body: str, base: str, width: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "request": cut(exchange.line(base), width),
        "requestId": exchange.request_id,
    }
    if exchange.post_data:
        made["sent"] = cut(exchange.post_data, width)
    if body:
        made["body"] = cut(body, width)
    return made


def next_calls(
    evidence: Evidence, target_id: str, serves: Callable[[str], bool] = lambda tool: True
) -> list[str]:
    """Return calls worth making, the most telling first, of tools that are served alone."""
    calls: list[tuple[str, str]] = []
    kind = evidence.trouble.kind
    if kind in ("not_found", "ambiguous", "timeout") and not evidence.awaited:
        calls.append(("snapshot", "snapshot, for what is on the page, with refs"))
    if evidence.server_exit:
        calls.append(("restartServer", "fix the code, then restartServer"))
    elif evidence.overlay:
        calls.append(("waitFor", "fix the code, then waitFor(hmr: true)"))
    failed = next((e for e, _ in evidence.requests if e.status >= 400), None)
    if failed and target_id:
        tool = "cdp_get_response_body"
        asked = f"{tool}(targetId: {target_id}, requestId: {failed.request_id})"
        calls.append((tool, asked))
    if evidence.server_lines or evidence.awaited:
        calls.append(("readServerLogs", "readServerLogs(logType: stderr)"))
    if target_id:
        tool = "cdp_read_events"
        calls.append((tool, f"{tool}(targetId: {target_id}, level: error)"))
    return [call for tool, call in calls if serves(tool)][:4]
