"""The state is swept again and again, and no trouble ends that."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pilothouse.core.settings import Settings
from pilothouse.server.logs import Log
from pilothouse.wiring import daily_sweep
from pilothouse.wiring.daily_sweep import keep_swept
from pilothouse.wiring.state_sweep import Report
from tests.support.session_ids import id_of
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setattr(daily_sweep, "START_S", 0.0)
    monkeypatch.setattr(daily_sweep, "AGAIN_S", 0.01)
    return io.StringIO()


async def test_what_gets_old_later_is_swept_later(tmp_path: Path, stream: io.StringIO) -> None:
    folder = tmp_path / "sessions" / id_of("a")
    folder.mkdir(parents=True)
    reports: list[Report] = []
    async with anyio.create_task_group() as tasks:
        settings = Settings(home=str(tmp_path))
        tasks.start_soon(keep_swept, settings, Log("sweep", stream=stream), reports.append)
        await until(lambda: len(reports) >= 2)
        assert folder.exists()
        os.utime(folder, (time.time() - 8 * 86_400,) * 2)
        await until(lambda: not folder.exists())
        await until(lambda: reports[-1].removed == [] and any(one.removed for one in reports))
        tasks.cancel_scope.cancel()
    (swept,) = lines(stream)
    assert (swept["event"], swept["details"]["kinds"]) == ("swept", {"sessions": 1})


async def test_a_sweep_that_breaks_is_logged_and_tried_again(
    tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Report] = []
    sweep = daily_sweep._sweep

    def broken(*_: Any) -> Report:
        monkeypatch.setattr(daily_sweep, "_sweep", sweep)
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(daily_sweep, "_sweep", broken)
    async with anyio.create_task_group() as tasks:
        settings = Settings(home=str(tmp_path))
        tasks.start_soon(keep_swept, settings, Log("sweep", stream=stream), reports.append)
        await until(lambda: reports)
        tasks.cancel_scope.cancel()
    (failed,) = lines(stream)
    assert (failed["event"], failed["level"]) == ("sweep_failed", "error")


async def test_the_end_does_not_wait_for_a_sweep(
    tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()
    ended = threading.Event()

    def long(_: Settings, over: threading.Event) -> Report:
        began.set()
        if over.wait(10):
            ended.set()
        return Report(0.0)

    monkeypatch.setattr(daily_sweep, "_sweep", long)
    async with anyio.create_task_group() as tasks:
        settings = Settings(home=str(tmp_path))
        tasks.start_soon(keep_swept, settings, Log("sweep", stream=stream))
        await until(began.is_set)
        tasks.cancel_scope.cancel()
    await until(ended.is_set)
