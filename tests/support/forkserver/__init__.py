"""Real `pilothouse` processes without the second and a half that their imports take.

`start(...)` is `subprocess.Popen` for a Python module: a process of its own with its own pipes,
environment and working directory, forked from one that has imported everything. It forks the hub
that it starts, and a hub the parent of its workers, too, unless REAL_PROCESSES is in its
environment. What is about
starting itself (what is imported when, how long it takes, what the command line is called) is
tested with `exec`.
"""

from __future__ import annotations

from tests.support.forkserver.client import Forked, close, command, home_environ, living, start
from tests.support.forkserver.names import REAL_PROCESSES

__all__ = ["REAL_PROCESSES", "Forked", "close", "command", "home_environ", "living", "start"]
