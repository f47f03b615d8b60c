"""What both the fork server and those who start it know."""

from __future__ import annotations

from pathlib import Path

SHIM = Path(__file__).with_name("shim.py")
HUB = "pilothouse.hub.start"
ZYGOTE = "pilothouse.hub.workers.worker"
REAL_PROCESSES = {"LC_FORKSERVER_REAL": "1"}
"""Environment of those who start a hub, or a hub its warm parent, by the command that users have;
for tests of the processes themselves: who is whose child, what is left when one is killed."""
