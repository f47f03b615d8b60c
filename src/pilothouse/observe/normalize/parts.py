"""The parts that normalised events are made of: texts cut by their bytes, places in scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.observe.record.packed_bodies import first_bytes, size

if TYPE_CHECKING:
    type Params = dict[str, Any]


def cut(event: dict[str, Any], most: int, *names: str) -> dict[str, Any]:
    """Shorten long texts of an event and say under `truncated` how long they were."""
    truncated: dict[str, Any] = {}
    for name in names:
        value = event[name]
        if isinstance(value, str) and size(value) > most:
            event[name] = first_bytes(value, most)
            truncated[name] = size(value)
        elif isinstance(value, list) and any(size(item) > most for item in value):
            event[name] = [first_bytes(item, most) for item in value]
            truncated[name] = [size(item) for item in value]
    if truncated:
        event["truncated"] = truncated
        event.pop("argsPreview", None)
    return event


def text_of(params: Params, name: str) -> str:
    value = params.get(name)
    return "" if value is None else str(value)


def place_of(url: Any, line: Any, column: Any) -> dict[str, Any] | None:
    """Return a place in a script; the protocol counts from zero, people and stacks from one."""
    if not url and line is None:
        return None
    return {
        "url": str(url or ""),
        "line": int(line) + 1 if line is not None else 0,
        "column": int(column) + 1 if column is not None else 0,
    }


def top_of(trace: Any) -> dict[str, Any] | None:
    frames = (trace or {}).get("callFrames") or []
    return (
        place_of(frames[0]["url"], frames[0]["lineNumber"], frames[0]["columnNumber"])
        if frames
        else None
    )


def frames_of(trace: Any) -> list[dict[str, Any]]:
    """Return the frames of a stack, through its asynchronous parents."""
    listed: list[dict[str, Any]] = []
    while isinstance(trace, dict) and len(listed) < 50:
        for frame in trace.get("callFrames") or []:
            place = place_of(frame["url"], frame["lineNumber"], frame["columnNumber"])
            listed.append({"function": text_of(frame, "functionName"), **(place or {})})
        trace = trace.get("parent")
    return listed
