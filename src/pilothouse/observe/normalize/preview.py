"""Console arguments as text and as structure, from the previews that the browser sends along."""

from __future__ import annotations

import re
from typing import Any

_FORMAT = re.compile(r"%[sdifoOc%]")


def argument_text(remote: dict[str, Any]) -> str:
    """Return a console argument as a person would read it; never `[object Object]`."""
    kind = remote.get("type")
    if kind == "string":
        return str(remote.get("value", ""))
    if kind == "undefined":
        return "undefined"
    if "unserializableValue" in remote:
        return str(remote["unserializableValue"])
    preview = remote.get("preview")
    if isinstance(preview, dict):
        return _preview_text(preview)
    if "value" in remote:
        return _plain(remote["value"])
    return str(remote.get("description") or remote.get("className") or kind)


def argument_value(remote: dict[str, Any]) -> Any:
    """Return the same argument as JSON: plain values as they are, objects with properties."""
    preview = remote.get("preview")
    if isinstance(preview, dict):
        return _preview_value(preview)
    if remote.get("type") != "object" and "value" in remote:
        return remote["value"]
    if "value" in remote and remote.get("subtype") == "null":
        return None
    made = {"type": str(remote.get("subtype") or remote.get("type"))}
    said = remote.get("description", remote.get("unserializableValue"))
    return {**made, "description": str(said)} if said is not None else made


def message_text(args: list[dict[str, Any]], texts: list[str]) -> str:
    """Return what the console would show: printf-like directives of the first argument filled in.

    `texts` are the arguments' texts, made once because this runs for every line of a flood.
    """
    if not args:
        return ""
    template = texts[0]
    if "%" not in template or args[0].get("type") != "string":
        return " ".join(texts)
    rest = iter(texts[1:])

    def fill(match: re.Match[str]) -> str:
        directive = match.group()
        if directive == "%%":
            return "%"
        argument = next(rest, None)
        if argument is None:
            return directive
        if directive == "%c":
            return ""  # styling of what follows
        return _directive(directive, argument)

    filled = _FORMAT.sub(fill, template)
    return " ".join([filled, *rest])


def _directive(directive: str, text: str) -> str:
    if directive not in ("%d", "%i", "%f"):
        return text
    try:
        number = float(text)
        return text.strip() if directive == "%f" or number != number else str(int(number))
    except (ValueError, OverflowError):
        return "NaN"


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _preview_text(preview: dict[str, Any]) -> str:
    subtype = preview.get("subtype")
    if subtype == "null" or preview.get("type") not in (None, "object", "function"):
        # A plain key or value of a map or set.
        plain = str(preview.get("description", subtype or preview.get("type")))
        return f'"{plain}"' if preview.get("type") == "string" else plain
    properties = [p for p in preview.get("properties", ()) if isinstance(p, dict)]
    more = ["…"] if preview.get("overflow") else []
    if subtype in ("array", "typedarray"):
        # Besides its elements, a typed array's preview lists its buffer and lengths.
        elements = [p for p in properties if str(p.get("name")).isdecimal()]
        shown = ", ".join([*(_property_text(p) for p in elements), *more])
        name = "" if subtype == "array" else f"{preview.get('description', '')} "
        return f"{name}[{shown}]"
    entries = preview.get("entries")
    if isinstance(entries, list):
        listed = [_entry_text(entry) for entry in entries if isinstance(entry, dict)]
        return f"{preview.get('description', '')} {{{', '.join([*listed, *more])}}}"
    if subtype in ("error", "regexp", "date", "node", "proxy", "promise", "weakmap") or (
        preview.get("type") == "function"
    ):
        return str(preview.get("description", subtype))
    inner = ", ".join([*(f"{p.get('name')}: {_property_text(p)}" for p in properties), *more])
    described = preview.get("description")
    return f"{{{inner}}}" if described in (None, "Object") else f"{described} {{{inner}}}"


def _property_text(prop: dict[str, Any]) -> str:
    nested = prop.get("valuePreview")
    if isinstance(nested, dict):
        return _preview_text(nested)
    value = str(prop.get("value", ""))
    if prop.get("type") == "string":
        return f'"{value}"'
    return value if value else str(prop.get("subtype") or prop.get("type"))


def _entry_text(entry: dict[str, Any]) -> str:
    value = _preview_text(entry["value"]) if isinstance(entry.get("value"), dict) else ""
    key = entry.get("key")
    return f"{_preview_text(key)} => {value}" if isinstance(key, dict) else value


def _preview_value(preview: dict[str, Any]) -> Any:
    made: dict[str, Any] = {"type": str(preview.get("subtype") or preview.get("type"))}
    if preview.get("description") not in (None, "Object"):
        made["description"] = str(preview["description"])
    properties = preview.get("properties")
    if isinstance(properties, list) and properties:
        made["properties"] = {
            str(p.get("name")): _property_value(p) for p in properties if isinstance(p, dict)
        }
    entries = preview.get("entries")
    if isinstance(entries, list):
        made["entries"] = [_entry_text(entry) for entry in entries if isinstance(entry, dict)]
    if preview.get("overflow"):
        made["overflow"] = True
    return made


def _property_value(prop: dict[str, Any]) -> Any:
    nested = prop.get("valuePreview")
    if isinstance(nested, dict):
        return _preview_value(nested)
    value = prop.get("value")
    kind = prop.get("type")
    if kind == "boolean":
        return value == "true"
    if kind == "number" and isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return value
        # NaN and infinities have no JSON.
        whole = number.is_integer() and abs(number) < 2**53
        return int(number) if whole else number if number - number == 0 else value
    if kind == "object" and prop.get("subtype") == "null":
        return None
    return value
