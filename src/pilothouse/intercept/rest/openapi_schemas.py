"""JSON Schema of arguments that are little languages: filters, patterns, edits.

`tools/list` has no room for it. For filters and patterns the document promises the forms that a
regular expression can describe; the server takes the whole language, and says where one is wrong.
"""

from __future__ import annotations

from typing import Any

from pilothouse.intercept.config.items import Config
from pilothouse.intercept.history.schema import COLUMNS, ORDERS
from pilothouse.intercept.present.packets import FIELDS
from pilothouse.intercept.replay.edits import MOST_EDITS


def _named(*kinds: str) -> str:
    return "|".join(name for name, kind in COLUMNS.items() if kind in kinds)


_ATOM = r"([A-Za-z0-9_/:=,;@%#~!.-]|\\[dws.]|\[\^?(0-9|a-z|A-Z)\])"
_DAY = r"[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME = rf"{_DAY}(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{3}})?Z)?"
_CONDITION = (
    rf"(({_named('text', 'content')}) (==|!=|=~|!~) ({_ATOM}[+*]?){{1,40}}"
    rf"|({_named('integer')}) (==|!=|>=|<=|>|<) [0-9]{{1,18}}"
    rf"|({_named('boolean')}) (==|!=) (true|false)"
    rf"|({_named('time')}) (==|!=|>=|<=|>|<) {_TIME})"
)
_GROUP = rf"({_CONDITION}|\({_CONDITION}( (&&|\|\|) {_CONDITION}){{0,4}}\))"

FILTER = {"pattern": rf"^({_GROUP}( (&&|\|\|) {_GROUP}){{0,4}})?$"}
ORDER = {"pattern": rf"^(({'|'.join(ORDERS)}) (asc|desc))?$"}
_LITERAL = r"[^\\()\[{*+?|]"
_PIECE = rf"(({_LITERAL}|\\[dDwWsS.*+?|(){{}}\[\]^$\\]|\[\^?(0-9|a-z|A-Z)+\])([*+]\??)?)"
RE2 = {"pattern": rf"^({_PIECE}|\|){{0,400}}$"}
SINCE = {"anyOf": [{"maxLength": 0}, {"format": "date-time", "pattern": "^[12]"}]}
FIELD_NAMES = {"items": {"type": "string", "enum": list(FIELDS)}}

_TARGET = {"type": "string", "enum": ["request", "response", "both"], "default": "request"}
_TEXT = {"type": "string", "maxLength": 65_536}
MODIFICATIONS: dict[str, Any] = {
    "maxItems": MOST_EDITS,
    "items": {
        "oneOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "pattern", "replacement"],
                "properties": {
                    "type": {"const": "regex_replace"},
                    "target": _TARGET,
                    "pattern": {"type": "string", "minLength": 1, **RE2},
                    "replacement": _TEXT,
                },
            },
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "name", "value"],
                "properties": {
                    "type": {"enum": ["header_add", "header_modify"]},
                    "target": _TARGET,
                    "name": {"type": "string", "pattern": "^[!-9;-~]{1,256}$"},
                    "value": {**_TEXT, "pattern": r"^[^\r\n\u0000]*$"},
                },
            },
        ]
    },
}
SOON_ENOUGH: list[dict[str, Any]] = [
    {"required": ["async"], "properties": {"async": {"const": True}}},
    {"properties": {"interval_ms": {"maximum": 300}}},
    {"properties": {"interval_ms": {"maximum": 5_000}, "count": {"maximum": 60}}},
    {"properties": {"count": {"maximum": 5}}},
]
"""A caller waits for five minutes at the most; what takes longer has to be `async`."""


def config_schemas() -> dict[str, dict[str, Any]]:
    """Return a configuration and its items by name, as far as each can be judged by itself."""
    config = Config.model_json_schema(ref_template="#/components/schemas/{model}")
    made: dict[str, dict[str, Any]] = {"Config": config, **config.pop("$defs")}
    host = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
    made["Server"]["properties"]["ip"]["pattern"] = rf"^{host}(\.{host})*$"
    return made
