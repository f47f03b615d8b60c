"""A hub with an agent on stdio and one over HTTP, and somebody who looks on."""

from __future__ import annotations

import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.agent import Agent
from tests.support.driving import SHOP
from tests.support.http_agent import HttpAgent
from tests.support.ports import free_port
from tests.support.servers import PRODUCT, Server, http_server
from tests.support.watching import Onlooker

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOP_COMMAND = [sys.executable, str(SHOP / "server.py")]


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ph-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def hub(home: str) -> Iterator[Server]:
    env = {
        "PILOTHOUSE_HOME": home,
        "PILOTHOUSE_REST_PORT": str(free_port()),
        "PILOTHOUSE_CONFIG_PORT": str(free_port()),
    }
    with http_server(module=PRODUCT, env=env) as server:
        yield server


@pytest.fixture
def onlooker(hub: Server) -> Iterator[Onlooker]:
    looking = Onlooker(hub.url)
    yield looking
    looking.close()


class Relayed(Agent):
    """An agent on stdio that has joined the hub, with its worker running."""

    def __init__(self, home: str, **env: str) -> None:
        super().__init__("--profile", "full", env={"PILOTHOUSE_HOME": home, **env}, joins_hub=True)
        self.pid = int(self.call("status")["pid"])
        self.app = ""

    def start(self, **arguments: Any) -> dict[str, Any]:
        started = self.call("startSession", command=SHOP_COMMAND, **arguments)
        self.app = started["sessionId"]
        return started

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def driver(hub: Server, home: str) -> Iterator[Relayed]:
    """An agent with the shop open in its browser."""
    with Relayed(home) as agent:
        agent.start()
        agent.call("navigate", url="/")
        yield agent
        agent.leave()


@pytest.fixture
def caller(hub: Server) -> Iterator[HttpAgent]:
    agent = HttpAgent(hub.url).open()
    yield agent
    agent.end()
    agent.http.close()
