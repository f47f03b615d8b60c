"""Protocol events on tape, from which the HAR tests are played."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from jsonschema import Draft202012Validator

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.observe.har.archive import har
from pilothouse.observe.model import Body, Seen
from pilothouse.observe.normalize.events import Normalizer
from tests.unit.observe.har_schema import HAR_SCHEMA

VALIDATOR = Draft202012Validator(HAR_SCHEMA)
WALL = 1_790_000_000.0
"""Epoch at which the browser's own clock stood at zero."""
TIMING = {
    "requestTime": 100.010,
    "dnsStart": 1.0,
    "dnsEnd": 3.0,
    "connectStart": 3.0,
    "connectEnd": 13.0,
    "sslStart": 5.0,
    "sslEnd": 12.5,
    "sendStart": 13.5,
    "sendEnd": 14.0,
    "receiveHeadersStart": 30.0,
    "receiveHeadersEnd": 34.0,
}
FORM = "application/x-www-form-urlencoded"


class Tape:
    """Protocol events as a browser sends them, normalised and kept as the observer keeps them."""

    def __init__(self, max_bytes: int = 64_000) -> None:
        self._normalizer = Normalizer(lambda: max_bytes)
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.bodies: dict[str, Body] = {}

    def play(self, method: str, at: float, /, **params: Any) -> None:
        for event in self._normalizer.receive(method, {"timestamp": at, **params}):
            event |= {"ts": int((WALL + at) * 1000) + 3, "sessionId": "S"}
            self.events.append((len(self.events), Seen(at, event).unpack()))

    def request(
        self,
        request_id: str,
        url: str,
        at: float = 100.0,
        kind: str = "Fetch",
        redirect: dict[str, Any] | None = None,
        **request: Any,
    ) -> None:
        self.play(
            "Network.requestWillBeSent",
            at,
            requestId=request_id,
            request={"url": url, "method": "GET", "headers": {"Accept": "*/*"}, **request},
            initiator={"type": "script"},
            type=kind,
            wallTime=WALL + at,
            **({"redirectResponse": redirect} if redirect else {}),
        )

    def response(self, request_id: str, url: str, at: float = 100.05, **response: Any) -> None:
        self.play(
            "Network.responseReceived",
            at,
            requestId=request_id,
            type="Fetch",
            response=answer(url, **response),
        )

    def finish(self, request_id: str, at: float = 100.06, size: int = 500) -> None:
        self.play("Network.loadingFinished", at, requestId=request_id, encodedDataLength=size)

    def load(self, request_id: str, url: str, at: float = 100.0, kind: str = "Fetch") -> None:
        self.request(request_id, url, at, kind)
        self.response(request_id, url, at + 0.05)
        self.finish(request_id, at + 0.06)

    def navigate(self, url: str, at: float) -> None:
        self.play("Page.frameNavigated", at, frame={"id": "F", "url": url})

    def socket(self, url: str = "wss://a.example/live") -> None:
        self.request("0", "https://a.example/", 99.0)
        self.play("Network.webSocketCreated", 100.0, requestId="W", url=url)
        self.play(
            "Network.webSocketHandshakeResponseReceived",
            100.5,
            requestId="W",
            response={
                "status": 101,
                "headers": {"Upgrade": "websocket"},
                "requestHeaders": {"Sec-WebSocket-Version": "13"},
            },
        )

    def frame(self, at: float, direction: str, payload: str, opcode: int = 1) -> None:
        self.play(
            f"Network.webSocketFrame{direction}",
            at,
            requestId="W",
            response={"opcode": opcode, "mask": False, "payloadData": payload},
        )

    def har(self, redactor: Redactor | None = None) -> dict[str, Any]:
        made = har(self.events, self.bodies.get, redactor or Redactor(), version="1.0")
        VALIDATOR.validate(made)
        return made

    def entries(self, redactor: Redactor | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.har(redactor)["log"]["entries"]
        return found


def answer(url: str, **more: Any) -> dict[str, Any]:
    return {
        "url": url,
        "status": 200,
        "statusText": "OK",
        "mimeType": "application/json",
        "headers": {"Content-Type": "application/json; charset=utf-8"},
        "protocol": "h2",
        "remoteIPAddress": "93.184.216.34",
        "remotePort": 443,
        **more,
    }


def header(message: dict[str, Any], name: str) -> list[str]:
    return [h["value"] for h in message["headers"] if h["name"].lower() == name]


def busy_tape(secret: str) -> Tape:
    """Every kind of event, and the secret wherever something can be secret."""
    tape = Tape()
    page = f"https://ada:{secret}@a.example/?token={secret}"
    tape.request("D", f"http://a.example/?token={secret}", kind="Document")
    moved = answer("http://a.example/", status=301, headers={"Location": page})
    tape.request("D", page, 100.1, kind="Document", redirect=moved)
    cookies = {"Set-Cookie": f"sid={secret}; Path=/; HttpOnly\nremember={secret}"}
    tape.response("D", page, 100.2, headers=cookies, mimeType="text/html")
    tape.navigate(page, 100.21)
    tape.finish("D", 100.3)
    field = f'<input type="hidden" name="csrf_token" value="{secret}">'
    tape.bodies["D"] = Body("text/html", field, encoded=False)
    for number, (mime_type, text) in enumerate(
        [
            ("application/json", json.dumps({"password": secret, "nested": {"token": secret}})),
            (FORM, f"user=ada&password={secret}"),
            ("text/plain", f"Authorization: Bearer {secret}"),
        ]
    ):
        tape.request(
            f"P{number}",
            f"https://a.example/login?api_key={secret}&to=https%3A%2F%2Fb%3Ftoken%3D{secret}",
            101.0 + number,
            method="POST",
            headers={
                "Content-Type": mime_type,
                "Authorization": f"Bearer {secret}",
                "Cookie": f"sid={secret}; theme={secret}",
                "X-Api-Key": secret,
                "Referer": page,
            },
            postData=text,
        )
        tape.response(f"P{number}", "https://a.example/login", 101.1 + number, mimeType=mime_type)
        encoded = b64encode(text.encode()).decode()
        is_encoded = number != 1
        tape.bodies[f"P{number}"] = Body(mime_type, encoded if is_encoded else text, is_encoded)
        tape.finish(f"P{number}", 101.2 + number)
    tape.request("B", "https://a.example/blob", 105.0)
    tape.response("B", "https://a.example/blob", 105.1, mimeType="application/octet-stream")
    told = b64encode(f"password={secret}".encode()).decode()
    tape.bodies["B"] = Body("application/octet-stream", told, encoded=True)
    tape.request("F", f"https://a.example/gone?token={secret}", 106.0)
    tape.play(
        "Network.loadingFailed",
        106.1,
        requestId="F",
        errorText=f"net::ERR_FAILED token={secret}",
        blockedReason="other",
    )
    tape.socket(f"wss://a.example/live?token={secret}")
    tape.frame(107.0, "Sent", json.dumps({"auth": "login", "token": secret}))
    tape.frame(107.1, "Received", told, opcode=2)
    tape.play("Network.webSocketClosed", 108.0, requestId="W")
    tape.play(
        "Network.eventSourceMessageReceived",
        109.0,
        requestId="B",
        eventName="login",
        eventId="",
        data=json.dumps({"access_token": secret}),
    )
    return tape


def everything(made: dict[str, Any]) -> str:
    """The archive as text, with all base64 in it undone."""
    entries = made["log"]["entries"]
    packed = [entry["response"]["content"] for entry in entries]
    unpacked = [b64decode(c["text"]).decode() for c in packed if c.get("encoding") == "base64"]
    frames = [frame for entry in entries for frame in entry.get("_webSocketMessages", ())]
    unpacked += [b64decode(f["data"]).decode() for f in frames if f["opcode"] == 2]
    return json.dumps(made, ensure_ascii=False) + json.dumps(unpacked, ensure_ascii=False)
