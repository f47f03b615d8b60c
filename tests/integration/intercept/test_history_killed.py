"""A recorder is killed at random points: nothing that was told is lost, and it goes on at once."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import anyio
import pytest

from pilothouse.intercept.history import writer as history
from tests.integration.intercept.history_rig import (
    GUARD_S,
    answer,
    asked,
    facts,
    indexed,
    is_whole,
    open_writer,
    select,
    started,
)
from tests.support.rounds import ROUNDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

OPEN_S = 30.0
"""Two seconds are what is promised; this is the guard."""

# The cap is small, so that the blow may also fall while room is made and tables are dropped.
RECORDER = """
import asyncio, sys
from pathlib import Path
from pilothouse.intercept.history import writer as history
from tests.integration.intercept.history_rig import answer, asked, open_writer

history.SEGMENTS = 100

async def main():
    number = 0
    async with open_writer(Path(sys.argv[1]), max_bytes=6 << 20) as writer:
        print("ready", flush=True)
        while True:
            exchanges = []
            for _ in range(20):
                number += 1
                exchange = asked(f"/{sys.argv[2]}/{number}")
                exchanges.append(exchange)
                writer.post(exchange)
                if number % 2:
                    await asyncio.sleep(0.001)
                writer.post(answer(exchange, f"body of {exchange.url} ".encode() * 40))
            await writer.recorded(exchange)
            lines = [f"{x.request_id} {x.response_id} {x.url}" for x in exchanges]
            print("\\n".join(lines), flush=True)
asyncio.run(main())
"""


def blow(path: Path, which: int, lines: int, after_s: float) -> list[str]:
    """Record until the process is killed, so long after so many lines; return what it had told."""
    with started(RECORDER, str(path), str(which)) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "ready\n"
        told = "".join(recorder.stdout.readline() for _ in range(lines))
        time.sleep(after_s)
        recorder.kill()
        told += recorder.stdout.read()
    # The last line may be torn.
    return told[: told.rfind("\n") + 1].splitlines()


def is_kept(path: Path, line: str, evicted_to: int) -> bool:
    request_id, response_id, url = line.split()
    if int(response_id) <= evicted_to:
        return True
    rows = select(
        path,
        "SELECT id, url, status, body FROM packets JOIN contents USING (id)"
        " WHERE id IN (?, ?) ORDER BY id",
        int(request_id),
        int(response_id),
    )
    bodies = (b"", f"body of {url} ".encode() * 40)
    expected = zip((int(request_id), int(response_id)), bodies, strict=True)
    return rows == [
        {"id": packet_id, "url": url, "status": 200, "body": body} for packet_id, body in expected
    ]


@pytest.mark.leaves_files  # SQLite, killed before it unlinks a temporary file, leaves it
@pytest.mark.timeout(60 + 30 * ROUNDS)
async def test_no_packet_is_lost_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SEGMENTS", 100)
    path = tmp_path / "history.db"
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for which in range(ROUNDS):
        # By what was told, not by time alone: a busy machine tells nothing for a second.
        lines = chance.choice((0, 20, 100, 1_000)) if which else 100
        after_s = chance.uniform(0, 0.5)
        told = await anyio.to_thread.run_sync(blow, path, which, lines, after_s)
        about = f"seed {seed}, round {which}, killed {after_s:.3f} s after {lines} lines"
        assert len(told) >= lines, about
        begun = time.monotonic()
        async with open_writer(path, max_bytes=6 << 20) as writer:
            assert time.monotonic() - begun < OPEN_S, about
            exchange = asked("/after")
            writer.post(answer(exchange))
            await writer.recorded(exchange)
            assert writer.state()["set_aside"] == "", about
            assert exchange.request_id > 0, about
            with anyio.fail_after(GUARD_S):
                await indexed(path)
        assert is_whole(path), about
        evicted_to = facts(path)["evicted_to"]
        missing = [line for line in told if not is_kept(path, line, evicted_to)]
        assert missing == [], about
