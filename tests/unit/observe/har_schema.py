"""JSON Schema of HAR 1.2, written from the specification.

Names with an underscore are free, as the specification has it, and every other name must be one of
its own: a misspelt field fails. Where it says "yes" under required, the field is required here.
"""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_DATE = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
}
_SIZE = {"type": "integer", "minimum": 0}
_SIZE_IF_KNOWN = {"type": "integer", "minimum": -1}
_TIME = {"type": "number", "minimum": 0}
_TIME_IF_KNOWN = {"anyOf": [_TIME, {"const": -1}]}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {}), "comment": _TEXT},
        "required": list(required),
        "patternProperties": {"^_": {}},
        "additionalProperties": False,
    }


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_PAIR = _object({"name": _TEXT, "value": _TEXT})
_COOKIE = _object(
    {"name": _TEXT, "value": _TEXT},
    {"path": _TEXT, "domain": _TEXT, "expires": _DATE, "httpOnly": _FLAG, "secure": _FLAG},
)
_PARAM = _object({"name": _TEXT}, {"value": _TEXT, "fileName": _TEXT, "contentType": _TEXT})
# The specification calls text and params exclusive; every browser exports both for a form.
_POST_DATA = {
    **_object({"mimeType": _TEXT}, {"text": _TEXT, "params": _list(_PARAM)}),
    "anyOf": [{"required": ["text"]}, {"required": ["params"]}],
}
_REQUEST = _object(
    {
        "method": _TEXT,
        "url": _TEXT,
        "httpVersion": _TEXT,
        "cookies": _list(_COOKIE),
        "headers": _list(_PAIR),
        "queryString": _list(_PAIR),
        "headersSize": _SIZE_IF_KNOWN,
        "bodySize": _SIZE_IF_KNOWN,
    },
    {"postData": _POST_DATA},
)
_CONTENT = _object(
    {"size": _SIZE, "mimeType": _TEXT},
    {"compression": {"type": "integer"}, "text": _TEXT, "encoding": {"const": "base64"}},
)
_RESPONSE = _object(
    {
        "status": {"type": "integer"},
        "statusText": _TEXT,
        "httpVersion": _TEXT,
        "cookies": _list(_COOKIE),
        "headers": _list(_PAIR),
        "content": _CONTENT,
        "redirectURL": _TEXT,
        "headersSize": _SIZE_IF_KNOWN,
        "bodySize": _SIZE_IF_KNOWN,
    }
)
_CACHE_STATE = {
    "anyOf": [
        {"type": "null"},
        _object({"lastAccess": _TEXT, "eTag": _TEXT, "hitCount": _SIZE}, {"expires": _TEXT}),
    ]
}
_TIMINGS = _object(
    {"send": _TIME, "wait": _TIME, "receive": _TIME},
    dict.fromkeys(("blocked", "dns", "connect", "ssl"), _TIME_IF_KNOWN),
)
_ENTRY = _object(
    {
        "startedDateTime": _DATE,
        "time": _TIME,
        "request": _REQUEST,
        "response": _RESPONSE,
        "cache": _object({}, {"beforeRequest": _CACHE_STATE, "afterRequest": _CACHE_STATE}),
        "timings": _TIMINGS,
    },
    {"pageref": _TEXT, "serverIPAddress": _TEXT, "connection": _TEXT},
)
_PAGE = _object(
    {
        "startedDateTime": _DATE,
        "id": _TEXT,
        "title": _TEXT,
        "pageTimings": _object({}, {"onContentLoad": _TIME_IF_KNOWN, "onLoad": _TIME_IF_KNOWN}),
    }
)
_NAMED_VERSION = _object({"name": _TEXT, "version": _TEXT})

HAR_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        {
            "log": _object(
                {
                    "version": {"const": "1.2"},
                    "creator": _NAMED_VERSION,
                    "entries": _list(_ENTRY),
                },
                {"browser": _NAMED_VERSION, "pages": _list(_PAGE)},
            )
        }
    ),
}
