"""The contract of a server command: what it prints, and how that is found in its output. Pure.

A command is run with --start, --restart, --status or --shutdown and prints one JSON object, perhaps
after text of its own. Its output comes in pieces of any size and is never kept whole.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum, auto
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

LARGEST = 1 << 20
"""Most bytes of an object; a longer one is skipped: no answer of a command is that long."""
DEEPEST = 100
_LONGEST_NUMBER = 1_000
_SLICE = 1 << 16
_MOST_AGAIN = LARGEST
"""Most bytes that may be read again in a row: bounds the time that a tricky text takes."""


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an http or https URL with a host")
    if parts.port == 0:
        raise ValueError("expected a port from 1 to 65535 in the URL")
    return text


type Moment = Annotated[str, AfterValidator(_moment)]
type WebAddress = Annotated[str, AfterValidator(_web_address)]
type Port = Annotated[int, Field(ge=1, le=65535)]
type Pid = Annotated[int, Field(gt=0)]
type Seconds = Annotated[float, Field(ge=0)]


class Response(BaseModel):
    """Fields beyond those of the contract are let through."""

    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class Logs(Response):
    stdout: str
    stderr: str
    combined: str


class ServerStartResponse(Response):
    status: Literal["ready", "already_running"]
    url: WebAddress
    port: Port
    pid: Pid
    started_at: Moment
    logs: Logs
    message: str


class ServerRestartResponse(Response):
    status: Literal["restarted", "started"]
    url: WebAddress
    port: Port
    pid: Pid
    previous_pid: Pid | None = None
    previous_port: Port | None = None
    started_at: Moment
    message: str


class ServerStatusResponse(Response):
    status: Literal["running", "stopped", "unhealthy"]
    url: WebAddress | None = None
    port: Port | None = None
    pid: Pid | None = None
    started_at: Moment | None = None
    uptime: Seconds | None = None
    healthy: bool | None = None
    logs: Logs | None = None
    message: str


class ServerShutdownResponse(Response):
    status: Literal["stopped", "already_stopped", "force_stopped"]
    previous_pid: Pid | None = None
    previous_port: Port | None = None
    stopped_at: Moment | None = None
    uptime: Seconds | None = None
    message: str


class Excerpt:
    """The beginning and the end of a stream, for an error message."""

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._most = (head, tail)
        self._head = b""
        self._tail = b""

    def add(self, piece: bytes) -> None:
        head, tail = self._most
        self.total += len(piece)
        missing = head - len(self._head)
        self._head += piece[:missing] if missing > 0 else b""
        self._tail = (self._tail + piece[-tail:])[-tail:]

    def text(self) -> str:
        cut = self.total - sum(self._most)
        if cut > 0:
            left_out = f"\n[… {cut} bytes left out …]\n" if self._head else ""
            return _decoded(self._head) + left_out + _decoded(self._tail)
        rest = self.total - len(self._head)
        return _decoded(self._head + (self._tail[-rest:] if rest else b""))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class _Outcome(Enum):
    MORE = auto()
    """The object is not complete yet."""
    COMPLETE = auto()
    BROKEN = auto()
    """This is not JSON."""


# What may come next in an object.
_FIRST_KEY, _KEY, _COLON, _FIRST_ITEM, _VALUE, _AFTER_VALUE = range(6)

_SPACES = rb"[ \t\n\r]*+"
_CHARACTERS = rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_STRING = b'"' + _CHARACTERS + b'"'
_SCALAR = rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+|true|false|null)"
_NAME = _STRING + _SPACES + b":" + _SPACES
_MEMBER = _NAME + b"(?:" + _STRING + b"|" + _SCALAR + b")" + _SPACES

_space = re.compile(_SPACES)
_characters = re.compile(_CHARACTERS)
_cut_escape = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_scalar = re.compile(_SCALAR)
_word = re.compile(rb"[-+.0-9A-Za-z]+")
# A brace that can be the beginning of an object; most of those that cannot are skipped quickly.
_beginning = re.compile(rb"\{(?=" + _SPACES + rb'(?:["}]|\Z))')
# Most of a usual object, in one step: members with plain values, then the last one, or the name of
# one that holds more.
_plain_members = re.compile(
    rb"(?P<some>(?:" + _MEMBER + b"," + _SPACES + rb")++)?+"
    rb"(?:(?P<last>" + _MEMBER + rb"(?=\}))|(?P<name>" + _NAME + rb"(?=[\[{])))?+"
)


class JsonFinder[M: BaseModel]:
    """Finds the first JSON object in a stream of text that fits a model.

    An object starts at any brace. If what follows turns out not to be JSON, the search goes on one
    byte behind that brace; a complete object that does not fit is passed over as a whole.
    """

    def __init__(self, model: type[M], *, largest: int = LARGEST) -> None:
        self.excerpt = Excerpt(head=2_000, tail=1_900)
        self._problem: str | ValidationError = "no JSON object in the output"
        self._model = model
        self._largest = largest
        self._data = bytearray()
        """Bytes from the brace of the object that is being read."""
        self._at = 0
        self._open: list[str] = []
        """Brackets that are open."""
        self._expect = _FIRST_KEY
        self._in_string = False
        self._too_long = False
        self._allowance = _SLICE

    @property
    def problem(self) -> str:
        """Reason why nothing was found so far."""
        if isinstance(self._problem, str):
            return self._problem
        wrong = self._problem.errors(include_url=False, include_input=False)[:3]
        fields = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong)
        return f"the JSON object is not a {self._model.__name__}: {fields}"

    def feed(self, piece: bytes) -> M | None:
        """Return the object once it is complete; nothing is to be fed after that."""
        view = memoryview(piece)
        for start in range(0, len(piece), _SLICE):
            part = bytes(view[start : start + _SLICE])
            self.excerpt.add(part)
            self._allowance = min(self._allowance + len(part), _MOST_AGAIN)
            self._data += part
            found = self._search()
            if found is not None:
                return found
        return None

    def close(self) -> M | None:
        """End the stream: what is incomplete is no JSON, but an object in it is returned."""
        while self._open:
            self._problem = "the output ends within a JSON object"
            self._give_up()
            found = self._search()
            if found is not None:
                return found
        return None

    def _search(self) -> M | None:
        while self._open or self._begin():
            match self._read():
                case _Outcome.MORE:
                    if self._too_long or len(self._data) > self._largest:
                        self._too_long = True
                        self._forget(self._at)
                    return None
                case _Outcome.BROKEN:
                    self._give_up()
                case _Outcome.COMPLETE:
                    text = b"" if self._too_long else bytes(self._data[: self._at])
                    self._forget(self._at)
                    found = self._fit(text)
                    if found is not None:
                        return found
        return None

    def _begin(self) -> bool:
        brace = _beginning.search(self._data, self._at)
        self._forget(brace.start() if brace else len(self._data))
        if brace is None:
            return False
        self._at = 1
        self._open = ["{"]
        self._expect = _FIRST_KEY
        self._in_string = False
        self._too_long = False
        return True

    def _give_up(self) -> None:
        read = self._at
        self._open.clear()
        if not self._too_long and read <= self._allowance:
            self._allowance -= read
            self._at = 1

    def _forget(self, count: int) -> None:
        del self._data[:count]
        self._at = 0

    def _fit(self, text: bytes) -> M | None:
        if not text:
            self._problem = f"a JSON object is longer than {self._largest} bytes"
            return None
        try:
            return self._model.model_validate_json(_decoded(text))
        except ValidationError as error:
            self._problem = error
            return None

    def _read(self) -> _Outcome:
        """Read on where the last piece ended."""
        data = self._data
        while True:
            if self._in_string:
                outcome = self._read_string()
                if outcome is not None:
                    return outcome
            if self._expect in (_FIRST_KEY, _KEY):
                self._read_plain_members()
            at = self._at = _end(_space, data, self._at)
            if at == len(data):
                return _Outcome.MORE
            sign, expect = chr(data[at]), self._expect
            if sign == '"' and expect not in (_COLON, _AFTER_VALUE):
                self._in_string = True
            elif sign == ":" and expect == _COLON:
                self._expect = _VALUE
            elif sign == "," and expect == _AFTER_VALUE:
                self._expect = _KEY if self._open[-1] == "{" else _VALUE
            elif self._closes(sign):
                self._open.pop()
                self._expect = _AFTER_VALUE
            elif expect not in (_VALUE, _FIRST_ITEM):
                return _Outcome.BROKEN
            elif sign in "{[" and len(self._open) < DEEPEST:
                self._open.append(sign)
                self._expect = _FIRST_KEY if sign == "{" else _FIRST_ITEM
            else:
                outcome = self._read_scalar()
                if outcome is not None:
                    return outcome
                continue
            self._at += 1
            if not self._open:
                return _Outcome.COMPLETE

    def _closes(self, sign: str) -> bool:
        if sign == "}":
            return self._open[-1] == "{" and self._expect in (_FIRST_KEY, _AFTER_VALUE)
        if sign == "]":
            return self._open[-1] == "[" and self._expect in (_FIRST_ITEM, _AFTER_VALUE)
        return False

    def _read_plain_members(self) -> None:
        found = _plain_members.match(self._data, _end(_space, self._data, self._at))
        if found is None or not found[0]:
            return
        self._at = found.end()
        if found["last"]:
            self._expect = _AFTER_VALUE
        else:
            self._expect = _VALUE if found["name"] else _KEY

    def _read_string(self) -> _Outcome | None:
        """Read to the end of the string; return None if it is there."""
        data = self._data
        at = self._at = _end(_characters, data, self._at)
        if at == len(data):
            return _Outcome.MORE
        if data[at : at + 1] != b'"':
            return _Outcome.MORE if _cut_escape.fullmatch(data, at) else _Outcome.BROKEN
        self._at += 1
        self._in_string = False
        self._expect = _COLON if self._expect in (_KEY, _FIRST_KEY) else _AFTER_VALUE
        return None

    def _read_scalar(self) -> _Outcome | None:
        """Read over a number, true, false or null; return None if there was one."""
        at = self._at
        end = _end(_word, self._data, at, at + _LONGEST_NUMBER)
        if end == len(self._data) and end > at:
            return _Outcome.MORE  # it may go on in the next piece
        if not _scalar.fullmatch(self._data, at, end):
            return _Outcome.BROKEN
        self._at = end
        self._expect = _AFTER_VALUE
        return None


def _end(pattern: re.Pattern[bytes], data: bytearray, at: int, most: int | None = None) -> int:
    """Return where a match that starts at `at` ends; `at` itself if there is none."""
    found = pattern.match(data, at) if most is None else pattern.match(data, at, most)
    return found.end() if found else at
