"""A timeline written by hand: what each group would have told, at the time that a test gives."""

from __future__ import annotations

from typing import Any

from pilothouse.core.timeline.ring import Ring
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.e2e.model import ServerLogged, StepFinished
from pilothouse.intercept.model import PacketRecorded
from pilothouse.observe.model import Seen

SHOP = "http://localhost:3000"
SESSION = "0f3a21aa-1111"
TARGET = "AB12CD999"


class Written:
    """One agent's timeline, with tabs that are recorded."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._rings: dict[str, Ring[Seen]] = {}

    def tab(self, target: str = TARGET) -> Ring[Seen]:
        """The ring of a tab, adopted at its first use as the observer does."""
        if target not in self._rings:
            self._rings[target] = Ring(10_000)
            self.timeline.adopt(f"tab {target[:6]}", self._rings[target])
        return self._rings[target]

    def see(self, at: float, target: str = TARGET, **event: Any) -> int:
        return self.tab(target).append(Seen(at, {"ts": int(at), **event}), at)

    def request(self, id: str, at: float, url: str, method: str = "GET", **more: Any) -> int:
        more.setdefault("resourceType", "Fetch")
        return self.see(at, kind="request", requestId=id, url=url, method=method, **more)

    def response(self, id: str, at: float, url: str, status: int = 200, **more: Any) -> int:
        return self.see(at, kind="response", requestId=id, url=url, status=status, **more)

    def finished(self, id: str, at: float, **more: Any) -> int:
        return self.see(at, kind="loadingFinished", requestId=id, **more)

    def failed(self, id: str, at: float, error: str = "net::ERR_FAILED", **more: Any) -> int:
        return self.see(at, kind="loadingFailed", requestId=id, errorText=error, **more)

    def exchange(
        self, id: str, at: float, took: float, path: str, status: int = 200, **more: Any
    ) -> None:
        """A request with its answer and its end."""
        headers = more.pop("headers", {})
        url = f"{SHOP}{path}"
        method = more.pop("method", "GET")
        self.request(id, at, url, method, **more)
        target = {"target": more["target"]} if "target" in more else {}
        self.response(id, at + took, url, status, headers=headers, **target)
        self.finished(id, at + took + 1, url=url, status=status, **target)

    def console(self, at: float, text: str, type: str = "error", **more: Any) -> int:
        return self.see(at, kind=more.pop("kind", "console"), type=type, text=text, **more)

    def step(self, number: int, at: float, took: float, tool: str = "click", **more: Any) -> None:
        """A step that began at `at`."""
        facts = {
            "target": "#buy",
            "ok": True,
            "url": SHOP,
            "session_id": SESSION,
            "tab_id": "t1",
            "target_id": TARGET,
            **more,
        }
        keys = frozenset({f"step:{number}"})
        self.timeline.emit(
            StepFinished(at=at + took, keys=keys, step=number, tool=tool, duration_ms=took, **facts)
        )

    def line(self, at: float, line: str, stream: str = "stdout", **more: Any) -> int:
        facts = {"service": "app", "session_id": SESSION, **more}
        return self.timeline.emit(ServerLogged(at=at, stream=stream, line=line, **facts))  # type: ignore[arg-type]

    def packet(
        self, id: int, at: float, path: str, *, group: int, status: int | None = None, key: str = ""
    ) -> None:
        keys = {f"packet:{group}", *([f"exchange:{key}"] if key else [])}
        self.timeline.emit(
            PacketRecorded(
                at=at,
                keys=frozenset(keys),
                packet_id=id,
                group=group,
                kind="HTTP",
                method="POST",
                url=path,
                server_name="localhost:3000",
                status=status,
            )
        )


KEY = "0123456789abcdef0123456789abcdef"


def order_that_fails(
    written: Written, *, proxied: bool = True, named: bool = True, late_ms: float = 0
) -> None:
    """Click, request, packet, the server's error and the page's: what a broken shop leaves.

    `named`: the server writes the request's id. `late_ms`: how long after it was written its log is
    read.
    """
    headers = {"X-Pilothouse-Exchange": KEY} if proxied else {}
    written.step(3, 100, 50, tool="navigate")
    written.exchange("11.1", 110, 20, "/", resourceType="Document")
    written.step(4, 1_000, 40)
    written.request("11.2", 1_010, f"{SHOP}/api/order", "POST")
    if proxied:
        written.packet(77, 1_012, "/api/order", group=77, key=KEY)
    mark = f" [{KEY}]" if named and proxied else ""
    written.line(1_050 + late_ms, f"POST /api/order{mark}")
    written.line(1_051 + late_ms, f"TypeError: no shelf{mark}", "stderr")
    written.line(1_051 + late_ms, "    at take (stock.js:5:8)", "stderr")
    written.response("11.2", 1_060, f"{SHOP}/api/order", 500, headers=headers)
    if proxied:
        written.packet(78, 1_058, "/api/order", group=77, status=500, key=KEY)
    written.finished("11.2", 1_061, url=f"{SHOP}/api/order", status=500)
    written.console(
        1_062, "Failed to load resource", kind="log", source="network", requestId="11.2"
    )
    written.console(1_070, "order failed desk-lamp 500")
