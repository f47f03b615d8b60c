"""The intercept group over the MCP wire: a real client, a real app, a real engine between them."""

from __future__ import annotations

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from pilothouse.core.timeline.clock import iso
from tests.support.intercepting import GUARD_S, App, Tap, config
from tests.support.ports import free_port
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SPEC_FIELDS = {"id", "method", "url", "status", "length", "time", "server_name", "client_ip"}


# History


def test_what_goes_through_the_proxy_is_there_with_both_sides(tap: Tap, shop: App) -> None:
    answer = tap.get(f"{shop.url}/api/users?page=2", headers={"X-One": "1"})
    assert answer.status_code == 200
    request, response = tap.both("url == /api/users?page=2")
    assert set(request) == SPEC_FIELDS | {"group"}
    assert request["group"] == response["group"] == request["id"]
    for packet in (request, response):
        assert (packet["method"], packet["url"], packet["status"]) == (
            "GET",
            "/api/users?page=2",
            200,
        )
    for packet in (request, response):
        detail = tap.call("get_packet_detail", packet_id=packet["id"], include_body=True)
        assert {"name": "X-One", "value": "1"} in detail["headers"]["request"]
        assert json.loads(detail["body"]["response"])["path"] == "/api/users?page=2"
        assert detail["timing"]["duration_ms"] > 0


def test_a_byte_of_a_path_that_is_no_utf8_is_shown_percent_encoded(tap: Tap, shop: App) -> None:
    line = f"GET {shop.url}/caf".encode() + b"\xe9/\xc3\xa9 HTTP/1.1\r\n"
    with socket.create_connection(("127.0.0.1", tap.port), GUARD_S) as client:
        client.sendall(line + f"Host: 127.0.0.1:{shop.port}\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 200"
    request, _ = tap.both("url == /caf%E9/é")
    detail = tap.call("get_packet_detail", packet_id=request["id"])
    assert request["url"] == detail["url"] == "/caf%E9/é"
    sent = tap.call("resend_packet", packet_id=request["id"])
    (again,) = tap.packets(f"id == {sent['packet_ids'][0]}", limit=1)
    assert again["url"] == "/caf%E9/é"


def test_a_page_says_how_much_there_is(tap: Tap, shop: App) -> None:
    for number in range(3):
        tap.get(f"{shop.url}/paged?n={number}")
    wait_until(lambda: len(tap.packets("url =~ ^/paged && status == 200")) == 6)
    page = tap.call("get_history", filter="url =~ ^/paged", limit=2, order="id asc")
    assert (len(page["packets"]), page["total_count"], page["has_more"]) == (2, 6, True)
    assert (page["filter_applied"], page["order_applied"]) == ("url =~ ^/paged", "id asc")
    rest = tap.call("get_history", filter="url =~ ^/paged", limit=10, offset=2, order="id asc")
    assert (len(rest["packets"]), rest["has_more"]) == (4, False)


@pytest.mark.parametrize(
    "filter",
    [
        "status >= 400 && status <= 599",
        "length > 10000",
        "url =~ /api/ && (method == GET || method == POST)",
        "full_text_i =~ authorization",
        "type == WebSocket",
        "method == POST && url =~ /login && status == 401",
    ],
)
def test_every_example_of_the_spec_is_a_filter(tap: Tap, filter: str) -> None:
    assert tap.call("get_history", filter=filter)["filter_applied"] == filter
    assert tap.call("filter_explain", filter=filter)["filter"] == filter


def test_a_failed_login_is_found_by_the_filter_for_it(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/login?status=401", method="POST", content=b"user=ada")
    found = tap.both("method == POST && url =~ /login && status == 401")
    assert [packet["status"] for packet in found] == [401, 401]
    assert tap.packets("method == GET && url =~ /login && status == 401") == []


def test_secrets_are_masked_when_shown(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/secret", headers={"Authorization": "Bearer aaaabbbbccccdddd"})
    request, _ = tap.both("url == /secret")
    whole = tap.ask("get_packet_detail", packet_id=request["id"], include_body=True)
    assert "aaaabbbbccccdddd" not in json.dumps(whole)
    assert tap.packets("full_text =~ aaaabbbbccccdddd")  # kept whole all the same


# Rules, mocks and breakpoints


def test_a_rule_changes_what_the_server_gets_and_the_packet_says_so(shop: App) -> None:
    with Tap() as tap:
        rule = {
            "id": 1,
            "enabled": True,
            "server_id": -1,
            "direction": "CLIENT_REQUEST",
            "pattern": "blue",
            "method": "SIMPLE",
            "replaced": "green",
        }
        tap.listen(modifications=[rule])
        tap.get(f"{shop.url}/paint", method="POST", content=b"color=blue")
        assert shop.seen[-1]["body"] == "color=green"
        (request, response) = tap.both("url == /paint", fields=["id", "modified"])
        assert (request["modified"], response["modified"]) == (True, False)


def test_a_mock_answers_without_the_server(tap: Tap, shop: App) -> None:
    before = len(shop.seen)
    rule = {"url": "/mocked", "status": 418, "body": "short and stout"}
    tap.call("mock_rules", rules=[rule])
    answer = tap.get(f"{shop.url}/mocked")
    assert (answer.status_code, answer.text) == (418, "short and stout")
    assert len(shop.seen) == before
    flags = [packet["modified"] for packet in tap.both("url == /mocked", fields=["modified"])]
    assert flags == [False, True]
    tap.call("mock_rules", rules=[])
    assert tap.get(f"{shop.url}/mocked").status_code == 200


def test_a_mock_with_a_header_of_two_lines_is_refused(tap: Tap) -> None:
    for headers in ({"X-A": "1\r\nX-B: 2"}, {"X A": "1"}, {"": "1"}):
        fault = tap.fault("mock_rules", rules=[{"url": "/split", "headers": headers}])
        assert (fault["code"], "mocks[0].headers" in fault["message"]) == (-32602, True)
    assert tap.call("mock_rules")["rules"] == []


def test_a_held_request_goes_on_edited_or_not_at_all(tap: Tap, shop: App) -> None:
    tap.call("breakpoints", rules=[{"url": "/pay", "method": "POST"}])
    try:
        with ThreadPoolExecutor(1) as pool:
            paying = pool.submit(tap.get, f"{shop.url}/pay", method="POST", content=b"amount=9")
            (held,) = wait_until(lambda: tap.call("held_packets")["held"])
            assert held["body"] == "amount=9"
            tap.call("release_packet", held_id=held["held_id"], body="amount=0")
            assert paying.result().json()["you_sent"] == "amount=0"
            before = len(shop.seen)
            paying = pool.submit(tap.get, f"{shop.url}/pay", method="POST", content=b"amount=9")
            (held,) = wait_until(lambda: tap.call("held_packets")["held"])
            tap.call("release_packet", held_id=held["held_id"], action="drop")
            assert isinstance(paying.exception(), httpx.HTTPError)
            assert len(shop.seen) == before
        fault = tap.fault("release_packet", held_id=held["held_id"])
        assert fault["code"] == -32602
    finally:
        tap.call("breakpoints", rules=[])


# Sending again


def test_resending_sends_the_same_with_the_edits(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/order?sessionId=abc", method="POST", content=b"n=1")
    (request, _) = tap.both("url =~ ^/order && resend == false")
    sent = tap.call(
        "resend_packet",
        packet_id=request["id"],
        count=3,
        modifications=[
            {
                "type": "regex_replace",
                "pattern": r"sessionId=\w+",
                "replacement": "sessionId=modified_{{index}}",
            },
            {"type": "header_add", "name": "X-Test-Counter", "value": "{{index}}"},
        ],
    )
    assert (sent["success"], sent["sent_count"], sent["failed_count"]) == (True, 3, 0)
    assert len(sent["packet_ids"]) == 3
    got = shop.seen[-3:]
    assert [one["path"] for one in got] == [f"/order?sessionId=modified_{n}" for n in (1, 2, 3)]
    assert [dict(one["headers"])["X-Test-Counter"] for one in got] == ["1", "2", "3"]
    assert [one["body"] for one in got] == ["n=1"] * 3
    for packet_id in sent["packet_ids"]:
        detail = tap.call("get_packet_detail", packet_id=packet_id)
        assert (detail["resend"], detail["modified"], detail["status"]) == (True, True, 200)


def test_a_job_runs_on_by_itself_and_can_be_stopped(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/slow")
    (request, _) = tap.both("url == /slow && resend == false")
    started = tap.call(
        "resend_packet", packet_id=request["id"], count=1000, interval_ms=1000, **{"async": True}
    )
    job = started["job_id"]
    wait_until(lambda: tap.call("get_job_status", job_id=job)["requests_sent"] >= 1)
    stopped = tap.call("get_job_status", job_id=job, stop=True)
    assert stopped["status"] == "stopped"
    assert stopped["requests_sent"] < 1000
    assert tap.fault("get_job_status", job_id="nobody")["code"] == -32602


# Configuration


def test_the_example_of_the_spec_is_accepted_as_it_stands() -> None:
    with Tap() as tap:
        raw = config(free_port())
        raw["listenPorts"][0]["server_id"] = 1
        raw["servers"] = [
            {
                "id": 1,
                "ip": "target.com",
                "port": 443,
                "encoder": "HTTPS",
                "use_ssl": True,
                "resolved_by_dns": False,
                "resolved_by_dns6": False,
                "http_proxy": False,
                "comment": "",
                "specifiedByHostName": False,
            }
        ]
        raw["modifications"] = [
            {
                "id": 1,
                "enabled": True,
                "server_id": 1,
                "direction": "CLIENT_REQUEST",
                "pattern": ".*",
                "method": "SIMPLE",
                "replaced": "X-Test: 1",
            }
        ]
        raw["sslPassThroughs"] = [
            {"id": 1, "enabled": True, "server_name": "secure.com", "listen_port": 443}
        ]
        done = tap.call("update_config", config_json=raw)
        assert (done["success"], done["backup_created"], done["config_updated"]) == (
            True,
            True,
            True,
        )
        shown = tap.call("get_config")
        assert shown["servers"][0] == raw["servers"][0]
        assert set(tap.call("get_config", categories=["servers"])) == {"servers"}
        backup = done["backup_info"]["backup_id"]
        restored = tap.call("restore_config", backup_id=backup)
        assert restored["backup_id_restored"] == backup
        assert tap.call("get_config")["servers"] == []
        assert len(tap.call("list_backups")["backups"]) == 2


def test_a_taken_port_leaves_that_one_off_with_the_reason_and_the_others_on(shop: App) -> None:
    with Tap() as tap:
        raw = config(tap.port)
        raw["listenPorts"].append({**raw["listenPorts"][0], "id": 2, "port": shop.port})
        done = tap.call("update_config", config_json=raw)
        mine, taken = done["listeners"]
        assert (mine["running"], taken["running"]) == (True, False)
        assert "taken" in taken["reason"]
        assert tap.get(f"{shop.url}/still").status_code == 200


def test_our_own_ports_cannot_be_reached_through_the_proxy(tap: Tap) -> None:
    assert httpx.get(f"{tap.rest}/mcp/tools").status_code == 401  # it is there
    assert tap.get(f"{tap.rest}/mcp/tools").status_code == 403


# Who may


@pytest.mark.parametrize(
    "token", ["", None, "wrong", 7, ["a"]], ids=["empty", "null", "wrong", "number", "list"]
)
def test_whatever_is_not_the_token_is_refused_alike(token: Any) -> None:
    with Tap() as tap:
        fault = tap.fault("get_history", access_token=token)
        assert fault["code"] == -32005
        assert "pilothouse token" in fault["data"]["hint"]
        for near in (tap.token[:-1], tap.token.swapcase(), tap.token + "x"):
            assert tap.fault("get_history", access_token=near) == fault
        assert tap.call("get_history", access_token=tap.token)["total_count"] == 0


def test_without_the_variable_an_absent_token_is_refused() -> None:
    with Tap(env={"PACKET_PROXY_ACCESS_TOKEN": ""}) as tap:
        assert tap.fault("get_history")["code"] == -32005


def test_read_only_refuses_what_changes_or_sends(shop: App) -> None:
    with Tap() as writer:
        writer.listen()
        writer.get(f"{shop.url}/once")
        home = writer.home
        with Tap("--read-only", home=home) as tap:
            (request, _) = tap.both("url == /once")
            calls: dict[str, dict[str, Any]] = {
                "update_config": {"config_json": config(free_port())},
                "restore_config": {"backup_id": "backup_20250101_000000"},
                "resend_packet": {"packet_id": request["id"]},
                "bulk_send": {"packet_ids": [request["id"]]},
                "mock_rules": {"rules": []},
                "breakpoints": {"rules": []},
            }
            for name, arguments in calls.items():
                fault = tap.fault(name, **arguments)
                assert (fault["code"], "read-only" in fault["message"]) == (-32005, True), name
            assert tap.call("get_packet_detail", packet_id=request["id"])["status"] == 200


def test_a_misspelt_argument_does_not_show_the_token() -> None:
    with Tap() as tap:
        result = tap.ask("get_history", acces_token=tap.token)
        assert result["isError"]
        assert tap.token not in json.dumps(result)


# Trouble


def test_a_full_disk_is_told_and_traffic_goes_on_until_there_is_room_again(shop: App) -> None:
    with Tap() as tap:
        tap.listen()
        tap.get(f"{shop.url}/before")
        tap.both("url == /before && status == 200")
        engine = next(
            process
            for process in psutil.Process(tap.process.pid).children(recursive=True)
            if "pilothouse.intercept.engine" in process.cmdline()
        )
        most = engine.rlimit(psutil.RLIMIT_FSIZE)
        engine.rlimit(psutil.RLIMIT_FSIZE, (1024, most[1]))  # no file may grow any more
        assert tap.get(f"{shop.url}/during").status_code == 200
        page = wait_until(lambda: (p := tap.call("get_history")).get("warning") and p)
        assert "packets are not being written" in page["warning"]
        engine.rlimit(psutil.RLIMIT_FSIZE, most)
        tap.both("url == /during && status == 200")
        wait_until(lambda: "warning" not in tap.call("get_history"), "the end of the warning")


# Errors


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("get_history", {"filter": "method === GET"}, -32002),
        ("get_history", {"filter": "url =~ ("}, -32002),
        ("get_history", {"filter": "status >= many"}, -32002),
        ("get_history", {"limit": 0}, -32602),
        ("get_history", {"order": "nothing desc"}, -32602),
        ("get_packet_detail", {"packet_id": 10_000_000}, -32003),
        ("get_packet_detail", {}, -32602),
        ("resend_packet", {"packet_id": 10_000_000}, -32003),
        ("export_curl", {"packet_id": 10_000_000}, -32003),
        ("update_config", {"config_json": {"listenPorts": []}}, -32004),
        ("restore_config", {"backup_id": "../../etc/passwd"}, -32004),
        ("restore_config", {"backup_id": "backup_20000101_000000"}, -32004),
        ("get_logs", {"level": "loud"}, -32602),
    ],
)
def test_every_error_has_its_number_and_a_next_step(
    tap: Tap, tool: str, arguments: dict[str, Any], code: int
) -> None:
    fault = tap.fault(tool, **arguments)
    assert fault["code"] == code
    assert fault["message"]
    assert fault["data"]["details"]
    assert fault["data"]["hint"]


def test_an_engine_that_cannot_start_is_unreachable(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Tap(home=home) as tap:
        # A file where its folder has to be.
        folder = home / "intercept" / "ca"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("in the way")
        fault = tap.fault("update_config", config_json=config(tap.port))
        assert fault["code"] == -32001
        assert fault["data"]["hint"]


# Logs and the other servers


def test_every_change_leaves_an_entry_in_the_log(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/logged")
    (request, _) = tap.both("url == /logged && resend == false")
    tap.call("resend_packet", packet_id=request["id"])
    messages = [e["message"] for e in tap.call("get_logs", filter="sent again")["logs"]]
    assert any(f"packet {request['id']} sent again" in message for message in messages)


def test_rest_shows_the_same_to_whoever_has_the_token(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/rested")
    (request, response) = tap.both("url == /rested")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": tap.token}):
        refused = httpx.get(f"{tap.rest}/mcp/history", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32005)
    with httpx.Client(base_url=tap.rest, headers={"Authorization": f"Bearer {tap.token}"}) as rest:
        page = rest.get("/mcp/history", params={"filter": "url == /rested", "order": "id asc"})
        assert [packet["id"] for packet in page.json()["packets"]] == [
            request["id"],
            response["id"],
        ]
        detail = rest.get(f"/mcp/packet/{request['id']}").json()
        assert detail["url"] == "/rested"
        assert rest.get("/mcp/packet/99999999").status_code == 404
        assert rest.get("/mcp/history", params={"filter": "("}).json()["error"]["code"] == -32002
        sent = rest.post(f"/mcp/resend/{request['id']}", json={"count": 2}).json()
        assert sent["sent_count"] == 2
        assert rest.get("/mcp/configs").json()["listenPorts"][0]["port"] == tap.port
        assert rest.get("/openapi.json").json()["openapi"].startswith("3.1")
        names = {tool["name"] for tool in rest.get("/mcp/tools").json()["tools"]}
        assert {"get_history", "resend_packet", "get_logs"} <= names
        logs = rest.get("/mcp/logs", params={"level": "info"}).json()
        assert any("by REST" in entry["message"] for entry in logs["logs"])


def test_a_service_whose_port_is_taken_stays_off_and_status_says_why(shop: App) -> None:
    with Tap(env={"PILOTHOUSE_REST_PORT": str(shop.port)}) as tap:
        tap.call("get_history")
        services = tap.call("status")["services"]
        assert services["REST API"].startswith(f"off: port {shop.port} is taken by ")
        assert services["REST API"].endswith(f"(pid {os.getpid()})")
        assert services["config endpoint"] == tap.endpoint.removesuffix("/config")


def test_a_page_of_another_site_reaches_neither_server(tap: Tap) -> None:
    for url in (f"{tap.rest}/mcp/history", tap.endpoint):
        headers = {"Authorization": f"Bearer {tap.token}", "Origin": "http://evil.example"}
        assert httpx.get(url, headers=headers).status_code == 403
        assert httpx.get(url, headers={**headers, "Host": "evil.example"}).status_code == 421


def test_the_config_endpoint_takes_the_bare_token(tap: Tap) -> None:
    headers = {"Authorization": tap.token}
    shown = httpx.get(tap.endpoint, headers=headers)
    assert shown.json() == tap.call("get_config")
    put = httpx.put(tap.endpoint, headers=headers, json=shown.json())
    assert put.status_code == 200
    assert httpx.get(tap.endpoint, headers={"Authorization": "x"}).status_code == 401
    assert httpx.post(tap.endpoint, headers=headers, json={}).status_code == 400


def test_the_history_outlives_the_process(shop: App) -> None:
    with Tap() as first:
        first.listen()
        first.get(f"{shop.url}/kept")
        first.both("url == /kept && status == 200")
        first.process.kill()
        first.process.wait()
        with Tap(home=first.home) as second:
            assert len(second.packets("url == /kept")) == 2


def test_time_can_be_filtered(tap: Tap, shop: App) -> None:
    tap.get(f"{shop.url}/timed")
    (request, _) = tap.both("url == /timed")
    since = iso(0)
    assert len(tap.packets(f"url == /timed && time >= {since}")) == 2
    assert tap.packets(f"url == /timed && time < {request['time']}") == []
