"""A dashboard's page, as far as the server can tell: it asks the API and keeps its stream open."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD_S = 60.0


class Onlooker:
    """Somebody who has the page open."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, headers=headers, timeout=GUARD_S)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._http.get(f"/api/{path}", params=query)

    def json(self, path: str, **query: Any) -> Any:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, status: int, path: str, **query: Any) -> dict[str, Any]:
        answer = self.get(path, **query)
        assert answer.status_code == status, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error

    def agents(self) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.json("overview")["sessions"]}

    def agent(self, pid: int) -> dict[str, Any]:
        """The agent of a worker, once it is listed."""
        return wait_until(lambda: [one for one in self.agents().values() if one["pid"] == pid])[0]

    def watch(self, agent: str = "", cursor: str = "") -> Watch:
        return Watch(self._http, {"agent": agent, **({"cursor": cursor} if cursor else {})})

    def close(self) -> None:
        self._http.close()


class Watch:
    """An open stream: its events in their order, and all rows that came."""

    def __init__(self, http: httpx.Client, query: dict[str, str]) -> None:
        request = http.build_request("GET", "/api/stream", params=query)
        self._answer = http.send(request, stream=True)
        assert self._answer.status_code == 200, self._answer.read()
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self.rows: list[dict[str, Any]] = []
        self.batches: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        event = ""
        with suppress(httpx.HTTPError, httpx.StreamError, OSError):
            for line in self._answer.iter_lines():
                if line.startswith("event: "):
                    event = line[7:]
                elif line.startswith("data: "):
                    self._events.put((event, json.loads(line[6:])))
        self._events.put(("closed", None))

    def next(self, wanted: str) -> Any:
        """The next event of a name; rows on the way are kept."""
        deadline = time.monotonic() + GUARD_S
        while True:
            event, data = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            if event == "rows":
                self.batches.append(data)
                self.rows += data["rows"]
            if event == wanted:
                return data
            assert event != "closed", f"the stream ended before {wanted} came"

    def until(self, fits: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first row that fits, waited for if it has not come yet."""
        seen = 0
        while True:
            for row in self.rows[seen:]:
                if fits(row):
                    return row
            seen = len(self.rows)
            self.next("rows")

    @property
    def cursor(self) -> str:
        return str(self.batches[-1]["cursor"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would wait for the thread that reads.
        with suppress(OSError):
            line = self._answer.extensions["network_stream"].get_extra_info("socket")
            line.shutdown(socket.SHUT_RDWR)
        self._answer.close()
        self._reader.join(GUARD_S)
