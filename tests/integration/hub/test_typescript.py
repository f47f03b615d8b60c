"""The official TypeScript client on the listener: as if it were not there."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.listener_rig import listen, own_workers, template_of
from tests.support.npm import SETS, TYPESCRIPT, is_installed
from tests.support.servers import ERAS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.listener_rig import Rig

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not (shutil.which("node") and is_installed(TYPESCRIPT, SETS[TYPESCRIPT])),
        reason="the TypeScript SDK or Node is not installed; `scripts/setup --tests` installs it",
    ),
]

GUARD_S = 100.0
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with own_workers(tmp_path) as crew:
        async with listen(crew, await template_of(crew)) as opened:
            yield opened


async def talk(url: str, era: str) -> dict[str, Any]:
    """What the client saw in a conversation that uses all of it."""
    node = await asyncio.create_subprocess_exec(
        *("node", "--input-type=module", "-", url, era),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # What comes on stdin finds its packages from here.
        cwd=SETS[TYPESCRIPT],
    )
    try:
        async with asyncio.timeout(GUARD_S):
            out, errors = await node.communicate((TYPESCRIPT / "talk.mjs").read_bytes())
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    assert node.returncode == 0, errors.decode()
    seen: dict[str, Any] = json.loads(out)
    return seen


async def test_both_eras_at_once_each_with_a_worker_of_its_own(rig: Rig) -> None:
    saw = await asyncio.gather(*(talk(f"{rig.url}/mcp", era) for era in ERAS))
    for era, seen in zip(ERAS, saw, strict=True):
        assert {"status", "echo_code", "startSession"} <= set(seen.pop("tools"))
        assert seen.pop("templates") > 0
        assert seen == {
            "version": VERSIONS[era],
            "server": "pilothouse",
            "echo": {"said": ["hi"], "mood": "calm"},
            "error": [True, "TARGET_NOT_FOUND"],
            "progress": [1, 2, 3],
            "updated": "test://counter",
            "value": 5,
            "cancelled": True,
            "after": ["still here"],
        }
    assert len(rig.crew.started) == 2
    # The one that has a session has ended it; calls that were given up have ended too.
    assert [key.kind for key in rig.crew.ended] == ["session"]
    assert set(rig.crew.leases.values()) == {0}
