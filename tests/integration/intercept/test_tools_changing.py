"""Tools that change something: the configuration, rules, breakpoints and what is sent again."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.secrets.shapes import MASK
from tests.support.intercepting import GUARD_S, App, Tap, config
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = {
    "id": 1,
    "enabled": True,
    "server_id": -1,
    "direction": "CLIENT_REQUEST",
    "pattern": "Authorization: .*",
    "method": "REGEX",
    "replaced": "Authorization: Bearer hunter2222",
}


# Configuration


def test_categories_are_shown_as_asked(tap: Tap) -> None:
    everything = tap.call("get_config")
    names = ["listenPorts", "servers", "modifications", "sslPassThroughs"]
    assert list(everything) == names
    assert list(tap.call("get_config", categories=[])) == names
    some = tap.call("get_config", categories=["servers", "listenPorts"], listeners=True)
    assert sorted(some) == ["listenPorts", "listeners", "servers"]
    assert some["listeners"][0]["running"] is True


def test_a_secret_in_a_rule_is_masked_and_survives_being_written_back(tap: Tap, shop: App) -> None:
    tap.listen(modifications=[RULE])
    shown = tap.call("get_config")
    assert shown["modifications"][0]["replaced"] == f"Authorization: Bearer {MASK}"
    tap.call("update_config", config_json=shown)
    tap.get(f"{shop.url}/", headers={"Authorization": "Basic abc"})
    assert dict(shop.seen[-1]["headers"])["Authorization"] == "Bearer hunter2222"
    tap.listen()


@pytest.mark.parametrize("backup", [True, False])
def test_an_update_is_backed_up_unless_that_is_declined(tap: Tap, backup: bool) -> None:
    before = len(tap.call("list_backups")["backups"])
    done = tap.call("update_config", config_json=config(tap.port), backup=backup)
    assert (done["success"], done["config_updated"], done["backup_created"]) == (True, True, backup)
    assert ("backup_info" in done) is backup
    assert len(tap.call("list_backups")["backups"]) == before + backup


@pytest.mark.parametrize("raw", [{"servers": []}, {}, {"listenPorts": "all"}], ids=repr)
def test_what_is_no_whole_configuration_changes_nothing(tap: Tap, raw: dict[str, Any]) -> None:
    before = tap.call("get_config")
    assert tap.fault("update_config", config_json=raw)["code"] == -32004
    assert tap.call("get_config") == before


@pytest.mark.parametrize("pattern", ["(", r"\pL{500}", "a" * 1_001, "(?=a)"], ids=len)
def test_a_pattern_that_is_none_or_too_large_is_refused_by_its_place(
    tap: Tap, pattern: str
) -> None:
    before = tap.call("get_config")
    raw = config(tap.port, modifications=[{**RULE, "pattern": pattern}])
    fault = tap.fault("update_config", config_json=raw)
    assert (fault["code"], fault["data"]["path"]) == (-32004, "modifications[0].pattern")
    assert tap.call("get_config") == before


def test_a_configuration_that_cannot_be_read_can_be_replaced(shop: App) -> None:
    with Tap() as tap:
        tap.listen()
        (file,) = tap.home.rglob("config.json")
        file.write_text("no JSON")
        assert tap.fault("get_config")["code"] == -32004
        assert tap.listen()["config_updated"] is True
        assert tap.get(f"{shop.url}/").status_code == 200


# Rules


def test_mocks_are_replaced_as_a_whole_and_listed_with_their_use(tap: Tap, shop: App) -> None:
    rule = {"url": "/cart", "method": "GET", "body": "[]", "headers": {"X-A": "1"}, "times": 2}
    tap.call("mock_rules", rules=[{"url": "/gone"}])
    tap.call("mock_rules", rules=[rule])
    tap.call("breakpoints", rules=[{"url": "/never", "on": "both"}])
    answers = [tap.get(f"{shop.url}/cart") for _ in range(3)]
    assert [answer.headers.get("x-a") for answer in answers] == ["1", "1", None]
    assert tap.call("mock_rules")["rules"] == [{**rule, "status": 200, "delay_ms": 0, "used": 2}]
    assert tap.call("breakpoints")["rules"] == [{"url": "/never", "on": "both"}]
    assert tap.call("mock_rules", rules=[]) == {"rules": []}
    tap.call("breakpoints", rules=[])


@pytest.mark.parametrize(
    ("method", "status", "length"), [("HEAD", 200, b"content-length: 4"), ("GET", 204, b"")]
)
def test_a_mock_sends_no_body_where_none_may_be(
    tap: Tap, shop: App, method: str, status: int, length: bytes
) -> None:
    """A client would take it for the beginning of the next answer."""
    tap.call("mock_rules", rules=[{"url": "/bare", "status": status, "body": "body"}])
    ask = f"{method} {shop.url}/bare HTTP/1.1\r\nHost: x\r\n"
    both = f"{ask}\r\n{ask}Connection: close\r\n\r\n".encode()
    first, second = answers_to(tap, both)
    for answer in (first, second):
        head, _, body = answer.partition(b"\r\n\r\n")
        assert (length in head.lower(), body) == (True, b"")
        assert length or b"content-length" not in head.lower()
    tap.call("mock_rules", rules=[])


def test_a_rule_leaves_the_length_that_head_asked_for(tap: Tap, shop: App) -> None:
    rule = {**RULE, "direction": "SERVER_RESPONSE", "method": "SIMPLE"}
    plain = tap.get(f"{shop.url}/size", method="HEAD")
    assert plain.headers["content-length"] != "0"
    tap.listen(modifications=[{**rule, "pattern": "200", "replaced": "203"}])
    changed = tap.get(f"{shop.url}/size", method="HEAD")
    tap.listen()
    assert changed.status_code == 203
    assert changed.headers["content-length"] == plain.headers["content-length"]


def answers_to(tap: Tap, requests: bytes) -> list[bytes]:
    """What comes on one connection until it is closed, each answer by itself."""
    with socket.create_connection(("127.0.0.1", tap.port)) as client:
        client.settimeout(GUARD_S)
        client.sendall(requests)
        came = b"".join(iter(lambda: client.recv(65_536), b""))
    return [b"HTTP/1.1" + answer for answer in came.split(b"HTTP/1.1")[1:]]


def test_a_bad_pattern_is_refused_by_its_place_and_the_old_rules_stay(tap: Tap) -> None:
    for tool in ("mock_rules", "breakpoints"):
        tap.call(tool, rules=[{"url": "/kept"}])
        fault = tap.fault(tool, rules=[{"url": "/a"}, {"url": "("}])
        assert fault["code"] == -32602
        assert "[1].url" in fault["message"]
        assert [rule["url"] for rule in tap.call(tool)["rules"]] == ["/kept"]
        tap.call(tool, rules=[])


@contextmanager
def held(tap: Tap, url: str, **request: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """What a breakpoint holds of a request, and its answer to come."""
    tap.call("breakpoints", rules=[{"url": "/pay"}])
    with ThreadPoolExecutor(1) as pool:
        paying = pool.submit(tap.get, url, method="POST", **request)
        (waiting,) = wait_until(lambda: tap.call("held_packets")["held"])
        try:
            yield waiting, paying
        finally:
            tap.call("breakpoints", rules=[])


def test_what_is_held_is_masked_and_keeps_what_was_not_touched(tap: Tap, shop: App) -> None:
    headers = {"Authorization": "Bearer hunter2222"}
    with held(tap, f"{shop.url}/pay", content=b"n=1", headers=headers) as (waiting, paying):
        assert "hunter2222" not in str(waiting)
        refused = tap.fault("release_packet", held_id=waiting["held_id"], body=f"n={MASK}")
        assert "would be sent as it stands" in refused["message"]
        head = waiting["head"].replace("/pay", "/pay?twice")
        done = tap.call("release_packet", held_id=waiting["held_id"], head=head, body="ü")
        assert done == {"held_id": waiting["held_id"], "action": "forward", "edited": True}
        assert paying.result().status_code == 200
    seen = shop.seen[-1]
    assert (seen["path"], seen["body"].encode("latin-1").decode()) == ("/pay?twice", "ü")
    assert dict(seen["headers"])["Authorization"] == "Bearer hunter2222"


@pytest.mark.parametrize("head", ["nonsense", "POST /pay", "", "POST /pay HTTP/1.1\nno colon"])
def test_an_edit_that_is_no_request_is_refused_and_it_stays_held(
    tap: Tap, shop: App, head: str
) -> None:
    with held(tap, f"{shop.url}/pay", content=b"n=1") as (waiting, paying):
        fault = tap.fault("release_packet", held_id=waiting["held_id"], head=head, body="n=2")
        assert (fault["code"], "still held" in fault["message"]) == (-32602, True)
        assert [one["held_id"] for one in tap.call("held_packets")["held"]] == [waiting["held_id"]]
        tap.call("release_packet", held_id=waiting["held_id"], body="n=3")
        assert paying.result().status_code == 200
    assert shop.seen[-1]["body"] == "n=3"


def test_what_is_held_for_a_client_that_has_gone_is_held_no_more(tap: Tap, shop: App) -> None:
    tap.call("breakpoints", rules=[{"url": "/left"}])
    with socket.create_connection(("127.0.0.1", tap.port)) as client:
        client.sendall(f"GET {shop.url}/left HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        (waiting,) = wait_until(lambda: tap.call("held_packets")["held"])
    wait_until(lambda: not tap.call("held_packets")["held"])
    fault = tap.fault("release_packet", held_id=waiting["held_id"])
    assert "its client has gone" in fault["message"]
    (packet,) = wait_until(lambda: tap.packets("url == /left"))
    told = wait_until(lambda: tap.call("get_packet_detail", packet_id=packet["id"]).get("error"))
    assert "disconnected" in told
    tap.call("breakpoints", rules=[])


def test_what_is_no_longer_held_cannot_be_decided_on(tap: Tap) -> None:
    fault = tap.fault("release_packet", held_id="h2", head="GET / HTTP/1.1")
    assert (fault["code"], "nothing is held" in fault["message"]) == (-32602, True)


# Sending again


def test_several_packets_are_sent_at_once(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/bulk?id=1")
    (request, _) = tap.both("url =~ ^/bulk && resend == false")
    before = len(shop.seen)
    done = tap.call(
        "bulk_send",
        packet_ids=[request["id"], request["id"]],
        count=2,
        regex_params=[{"pattern": r"id=\d", "value_template": "id={{index}}", "packet_index": 1}],
    )
    assert (done["success"], done["sent_count"], done["mode"]) == (True, 4, "parallel")
    paths = sorted(one["path"] for one in shop.seen[before:])
    assert paths == ["/bulk?id=1", "/bulk?id=1", "/bulk?id=1", "/bulk?id=2"]
    assert [len(result["packet_ids"]) for result in done["results"]] == [2, 2]


def test_jobs_are_listed_and_shown(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/job")
    (request, _) = tap.both("url == /job && resend == false")
    job_id = tap.call("resend_packet", packet_id=request["id"], count=2)["job_id"]
    listed = tap.call("get_job_status")
    assert listed["total_jobs"] == len(listed["jobs"])
    assert listed["jobs"][0]["job_id"] == job_id
    job = tap.call("get_job_status", job_id=job_id)
    assert (job["status"], job["requests_sent"]) == ("completed", 2)
    fault = tap.fault("get_job_status", stop=True)
    assert "stop needs the job" in fault["message"]


def test_what_a_stopped_job_did_not_send_is_not_counted_against_the_next(
    tap: Tap, shop: App
) -> None:
    tap.get(f"{shop.url}/stopped")
    packet_id = tap.both("url == /stopped")[0]["id"]
    slow = {"packet_id": packet_id, "count": 1_000, "interval_ms": 60_000, "async": True}
    for _ in range(7):  # more together than may be sent in a minute
        job = tap.call("resend_packet", **slow)["job_id"]
        assert tap.call("get_job_status", job_id=job, stop=True)["status"] == "stopped"


@pytest.mark.parametrize("packet_id", [999_999, 0, 2**70])
def test_a_packet_that_is_not_there_cannot_be_sent(tap: Tap, packet_id: int) -> None:
    assert tap.fault("resend_packet", packet_id=packet_id)["code"] == -32003
    assert tap.fault("bulk_send", packet_ids=[packet_id])["code"] == -32003


# Read-only


def test_read_only_refuses_each_tool_that_writes() -> None:
    calls: dict[str, dict[str, Any]] = {
        "update_config": {"config_json": config(1)},
        "restore_config": {"backup_id": "backup_20250101_000000"},
        "resend_packet": {"packet_id": 1},
        "bulk_send": {"packet_ids": [1]},
        "get_job_status": {"job_id": "j1", "stop": True},
        "mock_rules": {"rules": []},
        "breakpoints": {"rules": []},
        "release_packet": {"held_id": "h1"},
    }
    with Tap("--read-only") as tap:
        for name, args in calls.items():
            fault = tap.fault(name, **args)
            assert (fault["code"], "read-only" in fault["message"]) == (-32005, True), name
        for name in ("mock_rules", "breakpoints", "get_job_status", "held_packets"):
            tap.call(name)
