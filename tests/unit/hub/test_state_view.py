"""What people see of a hub: sessions by names that open nothing, and the lines of `status`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pilothouse.cli.hub import shown
from pilothouse.core.declare.listing import Listing
from pilothouse.dashboard.status_page import HubFacts, SessionRow, status_page
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.sessions.registry import MemoryRegistry
from pilothouse.hub.state import Seat, client_name

pytestmark = pytest.mark.anyio

KEYS = [
    Key("session", "7e0f7c62-41f2-4a6b-9f55-0b7a1b8f5a11"),
    Key("session", "7e0f7c62-41f2-4a6b-9f55-0b7a1b8f5a12"),
    Key("path", "left-window"),
    Key("path", "left-window", "ann"),
    Key("principal", "ann", "ann"),
    Key("relay", "0b7a1b8f5a11"),
    Key("local", ""),
]


def test_a_name_tells_sessions_apart_and_gives_nothing_away() -> None:
    names = [key.shown for key in KEYS]
    assert len(set(names)) == len(KEYS)
    for key, name in zip(KEYS, names, strict=True):
        assert not key.value or key.value not in name
        assert not key.principal or key.principal not in name
    assert names[-1] == "local user"
    assert names[-2].startswith("stdio ")


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({"name": "claude-code", "version": "2.1"}, "claude-code 2.1"),
        ({"name": "code", "title": "An Editor", "version": "1"}, "An Editor 1"),
        ({"name": "x\n\x1b[31m", "version": "1"}, "x??[31m 1"),
        ({"name": "x" * 1000, "version": "1"}, "x" * 60 + "…"),
        ({"name": 7, "version": ["1"]}, ""),
        ("nobody", ""),
        (None, ""),
    ],
)
def test_a_client_is_named_by_its_own_words_as_far_as_they_can_be_shown(
    info: object, name: str
) -> None:
    assert client_name({"clientInfo": info}) == name


async def test_sessions_are_listed_by_their_last_use_in_both_eras() -> None:
    ticks = itertools.count(1)
    registry = MemoryRegistry(lambda: float(next(ticks)))
    for id in ("first", "second"):
        await registry.open(SessionRecord(id, Key("session", id), "2025", 0.0, 0.0))
    await registry.find("first", "")
    await registry.of_key(Key("local", ""))
    await registry.find("second", "")
    await registry.of_key(Key("path", "a"))
    assert [record.key.value for record in registry.known()] == ["a", "second", "", "first"]


STATUS: dict[str, Any] = {
    "version": "1.2",
    "url": "http://127.0.0.1:4000",
    "pid": 7,
    "uptime": 61.4,
    "sessions": 2,
    "relays": 1,
    "workers": 1,
    "memory": 40 << 20,
    "queued": 0,
    "services": {"REST API": "http://127.0.0.1:32350"},
    "seats": [
        Seat("session 0a1b2c3d", "claude-code 2.1", 3.2, 99, "idle", 40 << 20, 5.0)._asdict(),
        Seat("stdio 4e5f6a7b", "", 100.0)._asdict(),
    ],
}


def test_status_is_a_table_of_sessions_and_their_workers() -> None:
    assert shown(STATUS).splitlines() == [
        "Pilothouse 1.2 at http://127.0.0.1:4000, pid 7, up 61 s",
        "2 sessions (1 on stdio), 1 worker with 40 MB, 0 calls waiting",
        "REST API: http://127.0.0.1:32350",
        "",
        "SESSION           CLIENT           LAST SEEN  WORKER  STATE  MEMORY",
        "session 0a1b2c3d  claude-code 2.1  3 s ago    99      idle   40 MB",
        "stdio 4e5f6a7b                     100 s ago  none",
    ]
    assert len(shown({**STATUS, "seats": []}).splitlines()) == 3


def test_the_page_shows_what_clients_say_as_text() -> None:
    row = SessionRow("session 0a1b2c3d", "<script>alert(1)</script>", 2.0, 99, "busy", 1 << 20, 9.0)
    services = {"REST API": "off: port 1 is taken by <b>chess</b> (pid 7)"}
    facts = HubFacts(rows=[row], workers=1, memory=1 << 20, queued=3, services=services)
    tool = Listing(
        name="status",
        group="house",
        profile="default",
        description="Show it.\nAt length.",
        annotations={},
        input_schema={},
    )
    page = status_page([tool], {}, sessions=4, uptime_sec=1, url="http://x", hub=facts)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "3 more, used less lately. 3 calls wait for a worker." in page
    assert "REST API</th><td>off: port 1 is taken by &lt;b&gt;chess&lt;/b&gt; (pid 7)" in page
    assert "Show it." in page
    assert "At length" not in page
    alone = status_page([tool], {}, sessions=4, uptime_sec=1, url="http://x")
    assert "<h2>Sessions" not in alone
    assert "<h2>Shared services" not in alone
