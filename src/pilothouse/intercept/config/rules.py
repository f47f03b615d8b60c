"""Effects of a configuration on traffic: edits, pass-through, which server is meant. Pure."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.core.regex import MAX_CHARACTERS, BadPattern, compile_pattern
from pilothouse.intercept.replay.bounded_regex import TooCostly, check_growth, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

type Direction = Literal["CLIENT_REQUEST", "SERVER_RESPONSE"]
type Change = Callable[[bytes], bytes]

ALL_SERVERS = -1
ALL_PORTS = -1

_MULTI_LINE = "(?m)"
_REFERENCE = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>\w+)\}|\$(?P<digits>[0-9]+)", re.DOTALL)
_ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t"}
logger = logging.getLogger(__name__)


class BadRule(ValueError):
    """A modification that cannot be carried out: which field, and what it takes."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: expected {expected}")
        self.field = field
        self.expected = expected


def change_of(method: str, pattern: str, replaced: str) -> Change:
    """Return the function by which a modification changes a message.

    Raises:
        BadRule: the pattern or the replacement does not suit the method.
    """
    if not pattern:
        raise BadRule("pattern", "at least one character")
    if method == "REGEX":
        return _regex_change(pattern, replaced)
    if method == "BINARY":
        old = _unhex("pattern", pattern)
        if not old:
            raise BadRule("pattern", "at least one byte in hex")
        new = _unhex("replaced", replaced)
    else:
        old, new = pattern.encode(), replaced.encode()
    return _literal_change(old, new)


def _literal_change(old: bytes, new: bytes) -> Change:
    def change(message: bytes) -> bytes:
        if len(new) > len(old):
            growth = message.count(old) * (len(new) - len(old))
            check_growth(len(message), len(message) + growth)
        return message.replace(old, new)

    return change


def _unhex(field: str, text: str) -> bytes:
    try:
        return bytes.fromhex("".join(text.split()))
    except ValueError:
        raise BadRule(field, "pairs of hex digits; blanks between them are ignored") from None


def _regex_change(text: str, replaced: str) -> Change:
    longest = MAX_CHARACTERS - len(_MULTI_LINE)
    if len(text) > longest:
        raise BadRule("pattern", f"an RE2 pattern of at most {longest} characters")
    try:
        pattern = compile_pattern(_MULTI_LINE + text)
    except BadPattern as error:
        raise BadRule("pattern", f"an RE2 pattern ({error})") from None
    template = _template(replaced, pattern)

    def change(message: bytes) -> bytes:
        # The bytes are searched as they are: decoding would damage what is not UTF-8.
        pieces, end, last, length = [], 0, -1, 0
        for match in matches(pattern, message):
            start, stop = match.span()
            inside_character = start < len(message) and message[start] & 0xC0 == 0x80
            # The library reports an empty match twice where it had to look ahead for it.
            if start == stop and (stop == last or inside_character):
                continue
            last = stop
            written = _filled(template, match, message, stop)
            # `^Cookie: .*$` takes the CR before the line feed along; a line keeps its end.
            splits_crlf = start < stop - 1 and message[stop - 1 : stop + 1] == b"\r\n"
            if splits_crlf and not written.endswith(b"\r"):
                stop -= 1
                written = _filled(template, match, message, stop)
            pieces += [message[end:start], written]
            length += start - end + len(written)
            check_growth(len(message), length)
            end = stop
        pieces.append(message[end:])
        return b"".join(pieces)

    return change


def _filled(template: list[bytes | int], match: Any, message: bytes, stop: int) -> bytes:
    """Return the replacement of one match, which ends at `stop` at the latest."""
    parts = []
    for part in template:
        if isinstance(part, int):
            begin, end = match.span(part)  # both -1 for a group that took no part
            parts.append(message[begin : min(end, stop)])
        else:
            parts.append(part)
    return b"".join(parts)


def _template(replaced: str, pattern: Any) -> list[bytes | int]:
    """Parse a replacement into literal bytes and numbers of groups.

    A group is `$1`, `${1}`, `${name}` or `\\1`. A backslash takes the meaning from the character
    after it, except that `\\r`, `\\n` and `\\t` are those characters.

    Raises:
        BadRule: it refers to a group that the pattern does not have.
    """
    parts: list[bytes | int] = []
    end = 0
    for found in _REFERENCE.finditer(replaced):
        parts.append(replaced[end : found.start()].encode())
        end = found.end()
        escaped, name, digits = found.group("escaped", "name", "digits")
        if escaped is not None and not re.match("[0-9]", escaped):
            parts.append(_ESCAPES.get(escaped, escaped.encode()))
            continue
        named = pattern.groupindex.get(name)
        if named is not None:
            parts.append(named)
            continue
        number, rest = _longest_group(escaped or name or digits, pattern.groups)
        if number is None or (name and rest):
            raise BadRule(
                "replaced",
                f"a reference to a group of the pattern, which has {pattern.groups},"
                f" not {found.group()}; a dollar sign itself is written \\$",
            )
        parts += [number, rest.encode()]
    parts.append(replaced[end:].encode())
    return [part for part in parts if part != b""]


def _longest_group(digits: str, groups: int) -> tuple[int | None, str]:
    """Split off the longest group: `$12` is group 12 where there is one, else group 1 and a 2."""
    for size in range(len(digits), 0, -1):
        head = digits[:size]
        if re.fullmatch("[0-9]{1,4}", head) and int(head) <= groups:
            return int(head), digits[size:]
    return None, ""


@dataclass(frozen=True, slots=True)
class _Edit:
    id: int
    direction: str
    server_id: int
    change: Change

    def concerns(self, direction: Direction, server_id: int | None) -> bool:
        return self.direction in ("ALL", direction) and self.server_id in (ALL_SERVERS, server_id)


@dataclass(frozen=True, slots=True)
class ReadyRules:
    """A configuration made ready for the engine; one value per configuration, never changed."""

    _edits: tuple[_Edit, ...] = ()
    _passes: tuple[tuple[Any, int], ...] = ()
    _servers: Mapping[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ReadyRules:
        """Make the rules of a validated configuration; what is not enabled is left out."""
        edits = tuple(
            _Edit(
                item["id"],
                item["direction"],
                item["server_id"],
                change_of(item["method"], item["pattern"], item["replaced"]),
            )
            for item in config["modifications"]
            if item["enabled"]
        )
        passes = tuple(
            (pass_through_pattern(item["server_name"]), item["listen_port"])
            for item in config["sslPassThroughs"]
            if item["enabled"]
        )
        servers: dict[tuple[str, int], dict[str, Any]] = {}
        for item in config["servers"]:
            servers.setdefault((_one_spelling(item["ip"]), item["port"]), item)
        return cls(edits, passes, servers)

    def concerns(self, direction: Direction, server_id: int | None) -> bool:
        """Return whether any rule may change such a message: else it need not be held back."""
        return any(edit.concerns(direction, server_id) for edit in self._edits)

    def apply(self, direction: Direction, server_id: int | None, message: bytes) -> bytes | None:
        """Return the decoded message after all rules in the order of the table.

        `server_id` is None for a server that the configuration does not have. None means that
        nothing was changed; an empty message means that it is not to be sent on. A rule that costs
        too much is left out, and the log says so. Not for the event loop: others would wait.
        """
        changed = message
        for edit in self._edits:
            if changed and edit.concerns(direction, server_id):
                try:
                    changed = edit.change(changed)
                except TooCostly as error:
                    logger.warning("modification %d was left out of a message: %s", edit.id, error)
        return None if changed == message else changed

    def passes_through(self, server_name: str, listen_port: int) -> bool:
        """Return whether TLS to that server, through the listener on that port, is left alone."""
        name = server_name.rstrip(".")
        return any(
            port in (ALL_PORTS, listen_port) and pattern.fullmatch(name)
            for pattern, port in self._passes
        )

    def server_for(self, host: str, port: int) -> dict[str, Any] | None:
        """Return the configured server of that name or address, and port."""
        return self._servers.get((_one_spelling(host), port))


def pass_through_pattern(server_name: str) -> Any:
    """Compile a pattern for host names, which have no case; raises BadPattern."""
    return compile_pattern(server_name, ignore_case=True)


def _one_spelling(host: str) -> str:
    name = host.strip("[]").rstrip(".").lower()
    try:
        return ip_address(name).compressed
    except ValueError:
        return name
