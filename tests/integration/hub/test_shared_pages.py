"""A fork that only looks at what its parent has does not copy it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.servers import ROOT, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PSS is Linux's")

SCRIPT = """
import gc, json, os, re, sys
from pilothouse.machine.shared_pages import share_what_lives

class Thing:
    def __init__(self, n): self.n, self.name = n, f"thing {n}"

things = [Thing(n) for n in range(100_000)]
if "share" in sys.argv:
    share_what_lives()
else:
    gc.freeze()

def private():
    with open("/proc/self/smaps_rollup") as rollup:
        return int(re.search(r"Private_Dirty: +(\\d+)", rollup.read())[1])

read, write = os.pipe()
if os.fork() == 0:
    before = private()
    total = sum(len(thing.name) for thing in things)
    copied = private() - before
    # What was immortal serves on as any object does.
    gc.enable()
    things[0].name = json.loads(json.dumps({"new": things[1].name}))["new"]
    things.clear()
    gc.collect()
    os.write(write, f"{total} {copied} {len(things)}".encode())
    os._exit(0)
os.close(write)
print(os.read(read, 100).decode(), os.waitstatus_to_exitcode(os.wait()[1]))
"""


def copied(*argv: str) -> int:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *argv],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment(),
        cwd=ROOT,
    )
    total, kilobytes, left, code = map(int, ran.stdout.split())
    assert (total, left, code) == (sum(len(f"thing {n}") for n in range(100_000)), 0, 0)
    return kilobytes


def test_looking_at_what_is_shared_copies_next_to_nothing() -> None:
    assert copied("share") < 1_000
    assert copied() > 5_000  # as it would be without
