"""The REST API against its own document: schemathesis with all checks, good and bad data."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from pilothouse.core.origins import Doorkeeper
from pilothouse.intercept.rest import Service, rest_app
from pilothouse.intercept.tools import TOOLS
from pilothouse.server.call import parse_args
from pilothouse.server.edge import Guard
from pilothouse.server.http import listen
from tests.support.fake_interceptor import TOKEN, FakeInterceptor, exchange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GUARD_S = 100
EXAMPLES = 5


class Patient(FakeInterceptor):
    """Wrong tokens are part of the run, and never too many."""

    def admit(self, token: str | None, *, writes: bool = False) -> None:
        self.wrong_tokens = 0
        super().admit(token, writes=writes)


@contextmanager
def served(incidents: list[Exception]) -> Iterator[str]:
    def incident(error: Exception) -> str:
        incidents.append(error)
        return str(len(incidents))

    service = Service(
        interceptor=Patient(details={n: exchange(n) for n in range(1, 9)}),
        parse=parse_args,
        tools_listing=lambda: [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in TOOLS
        ],
        incident=incident,
    )
    app = rest_app(service, lambda inner: Guard(inner, Doorkeeper()))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            deadline = time.monotonic() + GUARD_S
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(GUARD_S)


def test_the_api_does_what_its_document_says(tmp_path: Path) -> None:
    incidents: list[Exception] = []
    with served(incidents) as url:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
                *("--header", f"Authorization: Bearer {TOKEN}"),
                *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES)),
                *("--generation-deterministic", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout
    assert "8 passed" in ran.stdout
    assert incidents == []
