"""Traces written anew: entries of every kind, too large ones and strange ones."""

from __future__ import annotations

import json
import stat
import tracemalloc
import zipfile
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.e2e.export import trace_file
from pilothouse.e2e.export.trace_file import WrittenTrace, write_masked

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "t0ken-of-17-letters"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0"


def written(
    tmp_path: Path, held: dict[str, bytes], redactor: Redactor | None = None
) -> tuple[dict[str, bytes], WrittenTrace]:
    raw, path = tmp_path / "raw.zip", tmp_path / "safe.zip"
    with zipfile.ZipFile(raw, "w") as trace:
        for name, content in held.items():
            trace.writestr(name, content)
    told = write_masked(raw, path, redactor or Redactor())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with zipfile.ZipFile(path) as safe:
        return {entry.filename: safe.read(entry) for entry in safe.infolist()}, told


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def request(*, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    pairs = [{"name": name, "value": value} for name, value in headers.items()]
    return {"type": "resource-snapshot", "snapshot": {"request": {"headers": pairs, **more}}}


def dom(tree: Any) -> dict[str, Any]:
    return {"type": "frame-snapshot", "snapshot": {"html": tree, "viewport": {"width": 1}}}


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {SECRET}"},
        {"authorization": SECRET},
        {"Authorization": "Basic " + b64encode(f"bob:{SECRET}".encode()).decode()},
        {"Cookie": f"theme=dark; sid={SECRET}"},
        {"Cookie": f'sid="{SECRET}"'},
        {"X-Api-Key": SECRET},
    ],
    ids=str,
)
def test_what_a_header_says_is_masked_in_every_other_entry(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    held = {
        "trace.trace": lines({"type": "console", "text": f"no name before {SECRET}, in dark"}),
        "trace.network": lines(request(headers=headers)),
        "resources/a.txt": f"nor here: {SECRET}, in dark".encode(),
    }
    safe, _ = written(tmp_path, held)
    assert SECRET.encode() not in b"".join(safe.values())
    assert json.loads(safe["trace.trace"])["text"] == f"no name before {MASK}, in dark"
    assert safe["resources/a.txt"] == f"nor here: {MASK}, in dark".encode()


def test_what_a_query_says_is_masked_in_every_other_entry(tmp_path: Path) -> None:
    query = [{"name": "client_id", "value": "web"}, {"name": "state", "value": SECRET}]
    held = {
        "trace.trace": lines({"type": "console", "text": f"no name before {SECRET}"}),
        "trace.network": lines(request(headers={}, queryString=query)),
    }
    safe, _ = written(tmp_path, held)
    assert SECRET.encode() not in b"".join(safe.values())


@pytest.mark.parametrize(
    "attributes",
    [
        {"type": "password", "__playwright_value_": SECRET, "value": SECRET},
        {"TYPE": "Password", "name": "user", "value": SECRET},
        {"type": "hidden", "name": "csrf_token", "value": SECRET},
        {"id": "apiKey", "__playwright_value_": SECRET},
        {"autocomplete": "section-a one-time-code", "name": "pin", "value": SECRET},
        {"autocomplete": "current-password", "value": SECRET},
        {"AutoComplete": "New-Password", "value": SECRET},
        {"autocomplete": "billing cc-number", "value": SECRET},
    ],
    ids=str,
)
def test_what_is_in_a_secret_field_is_masked_there_and_elsewhere(
    tmp_path: Path, attributes: dict[str, str]
) -> None:
    tree = ["HTML", {}, [[1, 4]], ["BODY", ["INPUT", attributes], ["P", {}, f"it is {SECRET}"]]]
    safe, _ = written(tmp_path, {"trace.trace": lines(dom(tree))})
    html = json.loads(safe["trace.trace"])["snapshot"]["html"]
    shown = {key: MASK if value == SECRET else value for key, value in attributes.items()}
    assert html == [
        "HTML", {}, [[1, 4]], ["BODY", ["INPUT", shown], ["P", {}, f"it is {MASK}"]]
    ]  # fmt: skip


def test_a_short_password_that_nobody_typed_is_masked_in_its_field_alone(tmp_path: Path) -> None:
    tree = ["P", {}, ["INPUT", {"type": "password", "value": "dark"}], "the dark side"]
    safe, _ = written(tmp_path, {"trace.trace": lines(dom(tree))})
    html = json.loads(safe["trace.trace"])["snapshot"]["html"]
    assert html == ["P", {}, ["INPUT", {"type": "password", "value": MASK}], "the dark side"]


@pytest.mark.parametrize("tree", ["text", [], ["BR"], ["BR", {}], ["P", "text"], [[3, 1]], None, 5])
def test_a_part_of_the_dom_keeps_its_form(tmp_path: Path, tree: Any) -> None:
    safe, told = written(tmp_path, {"trace.trace": lines(dom(tree))})
    assert json.loads(safe["trace.trace"]) == dom(tree)
    assert told == WrittenTrace()


def test_a_dom_that_is_too_deep_is_left_out_and_the_rest_is_there(tmp_path: Path) -> None:
    tree: Any = SECRET
    for _ in range(5_000):
        tree = ["DIV", {}, tree]
    deep = b'{"type":"frame-snapshot","snapshot":{"html":' + b'["DIV",{},' * 5_000
    deep += json.dumps(SECRET).encode() + b"]" * 5_000 + b"}}\n"
    safe, told = written(tmp_path, {"trace.trace": deep + lines({"type": "log"})})
    assert safe["trace.trace"] == lines({"type": "log"})
    assert told.left_out == 1


def test_bodies_are_masked_by_what_they_are(tmp_path: Path) -> None:
    form = b"user=bob&password=short&state=on"
    held = {
        "trace.network": lines(
            request(
                headers={},
                postData={
                    "mimeType": "application/x-www-form-urlencoded", "_file": "resources/f.dat"
                },
            ),
        ),
        "resources/f.dat": form,
        "resources/x.dat": form,
        "resources/j.json": b'{"password": "short"}',
        "resources/p.png": PNG,
        "resources/lies.png": b'{"password": "short"}',
        "resources/b.bin": b"\0\1password=short",
        "screencast/page@1.jpeg": b"\xff\xd8\0password=short",
    }  # fmt: skip
    safe, told = written(tmp_path, held)
    assert safe["resources/f.dat"] == b"user=bob&password=[redacted]&state=on"
    assert safe["resources/x.dat"] == b"user=bob&password=[redacted]&state=on"
    assert safe["resources/j.json"] == safe["resources/lies.png"] == b'{"password": "[redacted]"}'
    assert safe["resources/p.png"] == PNG  # it may show a secret, so it is counted
    assert safe["resources/b.bin"] == b"[left out: 16 bytes that cannot be masked]"
    assert safe["screencast/page@1.jpeg"] == held["screencast/page@1.jpeg"]
    assert told == WrittenTrace(pictures=1, drawn=1, left_out=1)


def test_messages_of_a_websocket_are_masked_also_where_they_are_in_base64(tmp_path: Path) -> None:
    def binary(content: bytes) -> dict[str, Any]:
        return {"type": "send", "opcode": 2, "data": b64encode(content).decode()}

    text = '{"token": "short"}'
    held = lines({"opcode": 1, "data": text}, binary(text.encode()), binary(b"\0\1\2"))
    safe, told = written(tmp_path, {"resources/w.jsonl": held})
    sent, coded, other = map(json.loads, safe["resources/w.jsonl"].splitlines())
    assert sent["data"] == '{"token": "[redacted]"}'
    assert b64decode(coded["data"]) == b'{"token": "[redacted]"}'
    assert b64decode(other["data"]) == b"[left out: 3 bytes that cannot be masked]"
    assert told.left_out == 1


def test_what_is_too_large_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "LARGEST", 1_000)
    long = {"type": "log", "text": "x" * 3_000}
    held = {
        "trace.trace": lines({"n": 1}, long, {"n": 2}) + b"\n\n" + lines({"n": 3})[:-1],
        "resources/a.txt": b"x" * 1_001,
        "resources/b.txt": b"x" * 1_000,
    }
    safe, told = written(tmp_path, held)
    assert safe["trace.trace"] == lines({"n": 1}, {"n": 2}, {"n": 3})
    assert safe["resources/a.txt"] == b"[left out: 1001 bytes that cannot be masked]"
    assert safe["resources/b.txt"] == b"x" * 1_000
    assert told.left_out == 2


def test_memory_holds_a_line_or_a_body_and_no_more(tmp_path: Path) -> None:
    line = lines({"type": "log", "message": "password=" + "x" * 300_000})
    held = {"trace.trace": line * 15, "screencast/a.jpeg": b"\0" * 20_000_000}
    raw = tmp_path / "raw.zip"
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as trace:
        for name, content in held.items():
            trace.writestr(name, content)
    del held
    tracemalloc.start()
    try:
        write_masked(raw, tmp_path / "safe.zip", Redactor())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:8080/",
        "http%3A%2F%2F127.0.0.1%3A8080%2F",
        '"http://127.0.0.1:8080/"',
        "/account/orders/2024/list",
        "%2Faccount%2Forders%2F2024%3Fpage%3D2",
    ],
)
def test_a_cookie_that_says_where_to_go_takes_no_address_from_the_trace(
    tmp_path: Path, place: str
) -> None:
    here = "http://127.0.0.1:8080/account/orders/2024/list"
    record = {
        "type": "frame-snapshot",
        "snapshot": {"frameUrl": here, "html": ["A", {"href": here}]},
    }
    asked = request(headers={"Cookie": f"next={place}"}, url=here)
    held = {"trace.trace": lines(record), "trace.network": lines(asked)}
    safe, _ = written(tmp_path, held)
    assert json.loads(safe["trace.trace"]) == record
    assert json.loads(safe["trace.network"])["snapshot"]["request"]["url"] == here


def test_a_record_stays_a_part_of_its_trace_whatever_cookies_say(tmp_path: Path) -> None:
    files = {"_file": "resources/f00df00df00d.html", "mimeType": "text/html"}
    asked: dict[str, Any] = request(
        headers={"Cookie": "kind=resource-snapshot; a=frame@0123456789; b=call@123456; c=" + SECRET}
    )
    asked["snapshot"] |= {"_frameref": "frame@0123456789", "response": {"content": files}}
    asked["snapshot"]["request"]["method"] = "GET"
    asked["snapshot"]["resourceOverrides"] = [{"url": "/a", "sha1": "f00df00df00d.html"}]
    called = {"type": "before", "callId": "call@123456", "params": {"type": SECRET}}
    secrets = {"Cookie": "f=resources/f00df00df00d.html; s=f00df00df00d.html"}
    held = {"trace.network": lines(asked, request(headers=secrets)), "trace.trace": lines(called)}
    safe, _ = written(tmp_path, held)
    shown = json.loads(safe["trace.network"].splitlines()[0])
    assert shown["type"] == "resource-snapshot"
    assert shown["snapshot"]["_frameref"] == "frame@0123456789"
    assert shown["snapshot"]["response"]["content"] == files
    assert shown["snapshot"]["resourceOverrides"] == asked["snapshot"]["resourceOverrides"]
    assert json.loads(safe["trace.trace"]) == {**called, "params": {"type": MASK}}
    assert SECRET.encode() not in b"".join(safe.values())


def test_of_too_many_secrets_cookies_are_the_first_to_be_no_more_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "MOST_LEARNED", 3)
    cookies = "; ".join(f"c{n}=c00kie-value-{n}" for n in range(4))
    held = {
        "trace.network": lines(
            request(headers={"Cookie": cookies}), request(headers={"Authorization": SECRET})
        ),
        "trace.trace": lines(dom(["INPUT", {"type": "password", "value": "passw0rd"}])),
        "resources/a.txt": f"it is {SECRET} or passw0rd".encode(),
    }
    safe, told = written(tmp_path, held)
    assert safe["resources/a.txt"] == f"it is {MASK} or {MASK}".encode()
    assert told.not_learned == 3


def test_a_thousand_secrets_are_looked_for_everywhere(tmp_path: Path) -> None:
    secrets = [f"s3cret-{n:05}-of-many" for n in range(1_000)]
    headers = [request(headers={"X-Api-Key": secret}) for secret in secrets]
    safe, told = written(
        tmp_path,
        {"trace.network": lines(*headers), "resources/a.txt": " ".join(secrets).encode()},
    )
    assert safe["resources/a.txt"].decode() == " ".join([MASK] * 1_000)
    assert told == WrittenTrace()
