"""The status page as a person sees it, and the numbers that machines read."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal

import httpx
import psutil
import pytest

from tests.support.pages import chromium
from tests.support.servers import RawStdio, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def product() -> Iterator[Server]:
    with http_server(module="pilothouse") as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_clients_and_tools_without_errors_or_foreign_requests(
    product: Server, browser: Browser, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1100, "height": 900})
    troubles: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{product.url}/status")
    assert page.title() == "Pilothouse"
    text = page.inner_text("body")
    for expected in ("Claude Code", "Gemini CLI", "status", f"{product.url}/mcp", "sessions"):
        assert expected in text
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(246, 247, 249)" if scheme == "light" else "rgb(16, 22, 29)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert troubles == []
    assert all(url.startswith(product.url) for url in requests)
    folder = os.environ.get("PILOTHOUSE_PICTURES", str(tmp_path))
    page.screenshot(path=f"{folder}/status-{scheme}.png")
    page.close()


def test_the_page_allows_no_script(product: Server) -> None:
    policy = httpx.get(f"{product.url}/status").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe-inline" not in policy


def test_metrics_of_one_process_count_calls_and_sessions() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "status"}}
    headers = {"accept": "application/json, text/event-stream"}
    with http_server("--standalone", module="pilothouse") as server:
        for _ in range(3):
            assert httpx.post(f"{server.url}/message", json=body, headers=headers).is_success
        text = httpx.get(f"{server.url}/metrics").text
    assert 'pilothouse_tool_calls_total{error="",tool="status"} 3.0' in text
    assert 'pilothouse_tool_duration_seconds_count{tool="status"} 3.0' in text
    assert re.search(r"^pilothouse_sessions 1\.0$", text, re.MULTILINE)


def test_on_stdio_metrics_have_a_port_of_their_own() -> None:
    with RawStdio("--metrics-port", "0", "--profile", "full") as server:
        server.initialize()
        server.request("tools/call", {"name": "echo_code", "arguments": {"text": "x"}})
        found = None
        while found is None:
            found = re.search(r"http://127\.0\.0\.1:\d+/metrics", server.log())
        text = httpx.get(found.group()).text
        assert 'pilothouse_tool_calls_total{error="",tool="echo_code"} 1.0' in text
        refused = httpx.get(found.group(), headers={"host": "evil.com"})
        assert refused.status_code == 421


def test_only_loopback_is_listened_on(product: Server) -> None:
    connections = psutil.Process(product.process.pid).net_connections()
    listening = [c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]
