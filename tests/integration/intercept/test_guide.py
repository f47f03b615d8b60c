"""docs/guides/intercept.md, done as it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.intercepting import Tap, app

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "intercept.md").read_text()


def section(number: int) -> str:
    return re.split(r"^## \d\. .*$", GUIDE, flags=re.M)[number]


def blocks(number: int, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", section(number), re.S)


def calls() -> list[tuple[str, dict[str, Any]]]:
    """The tool calls of the table."""
    found = re.findall(r"\| `(\w+) (\{.*?\})` \|", section(3))
    return [(name, json.loads(args.replace("\\|", "|"))) for name, args in found]


def test_the_guide_has_what_is_tested_here() -> None:
    assert len(calls()) == 8
    assert [len(blocks(number, "json")) for number in (2, 4)] == [1, 1]


def test_a_newcomer_gets_from_the_token_to_a_packet_sent_again() -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl, which the guide uses, is not installed")
    with app() as shop, Tap() as tap:
        (config,) = blocks(2, "json")
        replaced = config.replace('"port": 8080', f'"port": {tap.port}')
        assert replaced != config
        done = tap.call("update_config", **json.loads(replaced))
        assert [listener["running"] for listener in done["listeners"]] == [True]
        for page in (1, 2):
            url = f"{shop.url}/api/users?page={page}"
            subprocess.run([curl, "-sf", "-x", f"http://127.0.0.1:{tap.port}", url], check=True)
            tap.both(f"url == /api/users?page={page} && status == 200")
        for name, arguments in calls():
            assert tap.call(name, **arguments), name
        (edits,) = blocks(4, "json")
        sent = tap.call("resend_packet", **json.loads(edits))
        assert sent["sent_count"] == 3
        assert [one["path"] for one in shop.seen[-3:]] == [
            f"/api/users?page={number}" for number in (1, 2, 3)
        ]
        names = [re.findall(r"`/mcp/(\w+)", section(6))]
        assert names == [["history", "packet", "configs", "resend", "logs", "restore", "tools"]]
