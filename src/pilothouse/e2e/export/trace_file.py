"""Playwright's traces as files that may be shown: what is secret in their texts is masked.

A trace is a zip: lines of JSON (what was done, what the DOM looked like, which requests were made),
bodies of requests and answers beside them, and pictures of the page. It is read twice. First for
the secrets that it names itself, in headers and in password fields, because apps repeat them where
no name tells what they are. Then each entry is masked and written, one at a time, so that memory
holds a line or a body and no more. Pictures and fonts stay as they are, and are counted.
"""

from __future__ import annotations

import binascii
import json
import re
import shutil
import zipfile
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from mimetypes import guess_type
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from pilothouse.core.secrets.names import (
    header_rule,
    is_secret_autofill,
    is_secret_key,
    is_secret_query_key,
)
from pilothouse.core.secrets.oauth import is_secret_state, state_beside
from pilothouse.core.secrets.shapes import KNOWN_SCHEMES, MASK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pilothouse.core.secrets.redactor import Redactor

LARGEST = 32 * 2**20
"""Bytes of a line or of a body in memory; a longer one is left out."""
MOST_LEARNED = 2_000
"""Secrets looked for everywhere; further ones are masked only where their names stand."""
_LINES = (".trace", ".network", ".stacks", ".jsonl")
_PICTURES = "screencast/"
_DRAWN = re.compile(r"(?:image|font|audio|video)/|application/(?:font|vnd\.ms-fontobject)")
"""Types of what a page is drawn with."""
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_FIELDS = frozenset(("INPUT", "TEXTAREA", "META"))
_VALUES = frozenset(("value", "content", "__playwright_value_"))
"""Attributes in snapshots of the DOM that hold what is in a field."""
_TELLING = re.compile(r"(?=.*\d).{8,}|.{16,}", re.DOTALL)
"""Values that are more than a word: masking words everywhere would black out half of a trace."""
_LOCATION = re.compile(r"[a-z][a-z0-9+.-]*:/|(?:/[\w.~-]{0,15})++(?:[?#]|\Z)", re.I)
"""Places to go next, as cookies say them. Masked everywhere, the trace would lose its addresses."""
_FORM = frozenset(
    "type callId stepId parentId pageId frameId class method phase snapshotName beforeSnapshot"
    " inputSnapshot afterSnapshot pageref _frameref _file file sha1 _sha1".split()
)
"""Keys by which the parts of a trace find each other; no app says what stands there."""
_FREE = frozenset(("html", "params", "result", "args"))
"""Keys below which anything may stand."""
_BINARY = 2
"""The opcode of a WebSocket message that is written in base64."""


@dataclass(slots=True)
class WrittenTrace:
    """Counts of what is not masked in a trace that was written, and of what is missing."""

    pictures: int = 0
    drawn: int = 0
    """Bodies that are no text and said to be images, fonts or media."""
    left_out: int = 0
    """Bodies and lines that cannot be masked: too large, or neither text nor picture."""
    not_learned: int = 0
    """Secrets that are masked only where their names stand, because there are too many."""


@dataclass(slots=True)
class _Known:
    """Facts that the lines of a trace tell of its bodies, and the secrets in them."""

    types: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, None] = field(default_factory=dict)
    cookies: dict[str, None] = field(default_factory=dict)
    """Values of cookies. Most are no secrets, so they are the first to be too many."""


def write_masked(raw: Path, path: Path, redactor: Redactor) -> WrittenTrace:
    """Write a trace anew without the secrets in it. It can be opened as before."""
    with zipfile.ZipFile(raw) as whole:
        known = _Known()
        for entry in whole.infolist():
            if entry.filename.endswith(_LINES):
                with whole.open(entry) as content:
                    _learn(content, known)
        secrets = [*(known.secrets | known.cookies)]
        learned = redactor.learn(*secrets[:MOST_LEARNED])
        with path.open("xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as safe:
            path.chmod(0o600)
            writer = _Writer(learned, known.types)
            for entry in whole.infolist():
                made = zipfile.ZipInfo(entry.filename, entry.date_time)
                made.compress_type = zipfile.ZIP_DEFLATED
                large = entry.file_size > LARGEST
                with (
                    whole.open(entry) as content,
                    safe.open(made, "w", force_zip64=large) as masked,
                ):
                    writer.write(entry, content, masked)
    writer.written.not_learned = len(secrets[MOST_LEARNED:])
    return writer.written


class _Writer:
    def __init__(self, redactor: Redactor, types: dict[str, str]) -> None:
        self.written = WrittenTrace()
        self._redactor = redactor
        self._types = types

    def write(self, entry: zipfile.ZipInfo, content: IO[bytes], masked: IO[bytes]) -> None:
        """Write one entry, masked."""
        name = entry.filename
        if name.startswith(_PICTURES):
            self.written.pictures += 1
            shutil.copyfileobj(content, masked)
        elif name.endswith(_LINES):
            for line in _lines(content):
                safe = self._line(line) if line else b""
                masked.write(safe + b"\n" if safe else b"")
                self.written.left_out += not safe
        elif entry.file_size > LARGEST:
            masked.write(self._left_out(entry.file_size))
        else:
            masked.write(self._body(content.read(), self._type_of(name)))

    def _type_of(self, name: str) -> str:
        return (self._types.get(name) or guess_type(name)[0] or "").lower()

    def _body(self, body: bytes, content_type: str) -> bytes:
        # By what it holds: a picture's type on a text would take it past the masks.
        if not _NO_TEXT.search(body):
            text = body.decode("utf-8", "surrogateescape")
            return self._redactor.text(text, content_type).encode("utf-8", "surrogateescape")
        if not _DRAWN.match(content_type):
            return self._left_out(len(body))
        self.written.drawn += 1
        return body

    def _left_out(self, length: int) -> bytes:
        self.written.left_out += 1
        return f"[left out: {length} bytes that cannot be masked]".encode()

    def _line(self, line: bytes) -> bytes:
        try:
            return json.dumps(self._record(json.loads(line))).encode()
        except RecursionError:
            return b""
        except ValueError:
            return self._body(line, "")

    def _record(self, record: Any) -> Any:
        safe = self._masked(record)
        _keep_form(record, safe)
        return safe

    def _masked(self, record: Any) -> Any:
        if not isinstance(record, dict):
            return self._redactor.value(record)
        snapshot = record.get("snapshot")
        if isinstance(snapshot, dict) and "html" in snapshot:
            tree = self._tree(snapshot["html"])
            told = {key: value for key, value in snapshot.items() if key != "html"}
            safe: Any = self._redactor.value({**record, "snapshot": told})
            safe["snapshot"]["html"] = tree
            return safe
        if record.get("opcode") == _BINARY and isinstance(record.get("data"), str):
            record = {**record, "data": self._message(record["data"])}
        return self._redactor.value(record)

    def _message(self, data: str) -> str:
        try:
            return b64encode(self._body(b64decode(data, validate=True), "")).decode()
        except binascii.Error:
            return data

    def _tree(self, node: Any) -> Any:
        """Mask a part of the DOM: a text, `[name, attributes, *children]`, or a reference."""
        if isinstance(node, str):
            return self._redactor.text(node)
        if not (isinstance(node, list) and node and isinstance(node[0], str)):
            return node
        name, attributes, *children = node if len(node) > 1 else (*node, {})
        if not isinstance(attributes, dict):
            return [name, self._tree(attributes), *map(self._tree, children)]
        safe: Any = self._redactor.value(attributes)
        if _is_secret_field(name, attributes):
            safe |= {key: MASK for key in safe.keys() & _VALUES if safe[key]}
            children = [MASK] if children else []
        return [name, safe, *map(self._tree, children)][: max(len(node), 1)]


def _keep_form(record: Any, safe: Any) -> None:
    """Copy what makes a record a part of its trace, whatever secrets it may look like."""
    if isinstance(record, dict) and isinstance(safe, dict):
        for key in record.keys() & safe.keys() - _FREE:
            if key in _FORM and isinstance(record[key], str):
                safe[key] = record[key]
            else:
                _keep_form(record[key], safe[key])
    elif isinstance(record, list) and isinstance(safe, list) and len(record) == len(safe):
        for one, masked in zip(record, safe, strict=True):
            _keep_form(one, masked)


def _lines(content: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file without their ends; b"" for one that is too long, none that is
    empty."""
    while line := content.readline(LARGEST + 1):
        if len(line) > LARGEST:
            while not line.endswith(b"\n") and (line := content.readline(LARGEST)):
                pass
            yield b""
        elif line.strip():
            yield line.rstrip(b"\n")


def _learn(content: IO[bytes], known: _Known) -> None:
    for line in _lines(content):
        try:
            record = json.loads(line or b"null")
        except (ValueError, RecursionError):
            continue
        snapshot = record.get("snapshot") if isinstance(record, dict) else None
        if not isinstance(snapshot, dict):
            continue
        found = [*_in_tree(snapshot.get("html"))]
        cookies: list[str] = []
        for side, body in (("request", "postData"), ("response", "content")):
            message = snapshot.get(side)
            if isinstance(message, dict):
                found += _in_headers(message.get("headers"))
                cookies += _in_cookies(message.get("headers"))
                found += _in_pairs(message.get("queryString"))
                held = message.get(body)
                if isinstance(held, dict):
                    found += _in_pairs(held.get("params"))
                    if isinstance(held.get("_file"), str):
                        known.types[held["_file"]] = str(held.get("mimeType") or "")
        known.secrets |= dict.fromkeys(filter(_TELLING.fullmatch, found))
        known.cookies |= dict.fromkeys(filter(_TELLING.fullmatch, cookies))


def _pairs(records: Any) -> Iterator[tuple[str, str]]:
    for one in records if isinstance(records, list) else ():
        if isinstance(one, dict):
            yield str(one.get("name")), str(one.get("value"))


def _in_pairs(records: Any) -> Iterator[str]:
    """Yield the secrets of a query or a form."""
    pairs = [*_pairs(records)]
    state = state_beside(name for name, _ in pairs)
    for name, value in pairs:
        if is_secret_query_key(name) or is_secret_state(name, value, state):
            yield value


def _in_headers(headers: Any) -> Iterator[str]:
    for name, value in _pairs(headers):
        match header_rule(name):
            case "credentials":
                scheme, _, rest = value.partition(" ")
                yield rest if scheme.lower() in KNOWN_SCHEMES else value
                if scheme.lower() == "basic":
                    yield from _in_basic(rest)
            case "secret":
                yield value


def _in_cookies(headers: Any) -> Iterator[str]:
    """Yield the values of cookies, but those that say where to go."""
    for name, value in _pairs(headers):
        match header_rule(name):
            case "cookie":
                cookies = value.split(";")
            case "set-cookie":
                cookies = [line.partition(";")[0] for line in value.split("\n")]
            case _:
                continue
        for cookie in cookies:
            held = cookie.partition("=")[2].strip()
            if not _LOCATION.match(unquote(held.strip('"'))):
                yield held
                yield held.strip('"')


def _in_basic(encoded: str) -> Iterator[str]:
    try:
        yield b64decode(encoded, validate=True).decode().partition(":")[2]
    except ValueError:
        return


def _in_tree(node: Any) -> Iterator[str]:
    """Yield what is in the secret fields of a part of the DOM."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if not (isinstance(one, list) and one and isinstance(one[0], str)):
            continue
        attributes = one[1] if len(one) > 1 else None
        if isinstance(attributes, dict) and _is_secret_field(one[0], attributes):
            yield from (str(value) for key, value in attributes.items() if key in _VALUES)
        waiting += one[1:]


def _is_secret_field(name: str, attributes: dict[str, Any]) -> bool:
    if name.upper() not in _FIELDS:
        return False
    told = {key.lower(): str(value) for key, value in attributes.items()}
    names = (told.get("name", ""), told.get("id", ""))
    return (
        told.get("type", "").lower() == "password"
        or any(map(is_secret_key, names))
        or is_secret_autofill(told.get("autocomplete", ""))
    )
