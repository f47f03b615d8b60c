"""What is still so after the engine or the whole process was started anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import psutil

from tests.support.intercepting import App, Tap
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def kill_engine(tap: Tap) -> None:
    children = psutil.Process(tap.process.pid).children(recursive=True)
    (engine,) = [one for one in children if "pilothouse.intercept.engine" in one.cmdline()]
    engine.kill()


def test_rules_hold_with_the_engine_that_follows_one_that_died(shop: App) -> None:
    with Tap() as tap:
        tap.listen()
        tap.call("mock_rules", rules=[{"url": "/mocked", "body": "a mock"}])
        tap.call("breakpoints", rules=[{"url": "/held"}])
        kill_engine(tap)
        wait_until(lambda: _answers(tap, f"{shop.url}/mocked") == "a mock")
        assert [rule["url"] for rule in tap.call("mock_rules")["rules"]] == ["/mocked"]
        assert [rule["url"] for rule in tap.call("breakpoints")["rules"]] == ["/held"]


def test_our_own_ports_are_closed_to_a_proxy_that_listens_by_itself(
    tmp_path: Path, shop: App
) -> None:
    with Tap(home=tmp_path) as tap:
        tap.listen()
        port = tap.port
    with Tap(home=tmp_path) as tap:
        tap.port = port
        listeners = tap.call("get_config", listeners=True)["listeners"]
        assert [one["running"] for one in listeners] == [True]
        assert tap.get(f"{shop.url}/there").status_code == 200
        assert httpx.get(f"{tap.rest}/mcp/tools").status_code == 401  # it is there
        assert tap.get(f"{tap.rest}/mcp/tools").status_code == 403
        assert tap.get(tap.endpoint).status_code == 403


def test_who_changed_what_is_told_to_those_who_come_later(tmp_path: Path, shop: App) -> None:
    with Tap(home=tmp_path) as tap:
        tap.listen()
        tap.get(f"{shop.url}/sent")
        request, _ = tap.both("url == /sent")
        tap.call("resend_packet", packet_id=request["id"])
        tap.call("mock_rules", rules=[{"url": "/mocked"}])
        assert tap.fault("resend_packet", packet_id=4711)["code"] == -32003
    with Tap(home=tmp_path) as tap:
        told = [entry["message"] for entry in tap.call("get_logs", filter="by session")["logs"]]
    refused, asked, mocked, sent, replaced = told
    assert refused.startswith("packet 4711 not sent again after all: there is no packet 4711")
    assert asked.startswith("packet 4711 sent again")
    assert mocked.startswith("mocks replaced, 1 now")
    assert sent.startswith(f"packet {request['id']} sent again")
    assert replaced.startswith("configuration replaced")


def _answers(tap: Tap, url: str) -> str:
    try:
        return tap.get(url).text
    except httpx.TransportError:
        return ""
