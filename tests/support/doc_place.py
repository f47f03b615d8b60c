"""A place in which the commands of the documents can be run as they are written.

`pilothouse` is on its PATH, with a home of its own. Programs that no test can have (other people's
clients, npm's global packages) have stand-ins there that say what they were told.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support import forkserver
from tests.support.npm import PEERS
from tests.support.peers import DEVTOOLS
from tests.support.servers import FIXTURE_APP, PRODUCT, ROOT, ServerLog, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 120
CLIENTS = ("claude", "codex", "gemini", "code")
PYTHON = f"PYTHONPATH={shlex.quote(environment()['PYTHONPATH'])} exec {shlex.quote(sys.executable)}"

STAND_INS = {
    # Set-up is what brought us here; what a target would do is checked without doing it again.
    "make": f'exec {shutil.which("make") or "make"} --dry-run -C {shlex.quote(str(ROOT))} "$@"',
    "npm": f"echo {shlex.quote(str(PEERS / 'node_modules'))}",
    "npx": f'shift\nexec node {shlex.quote(str(DEVTOOLS))} --no-usage-statistics "$@"',
}
FORKED = {"my-server": (FIXTURE_APP, "serve", "--standalone"), "pilothouse": (PRODUCT,)}


class Place:
    """A folder to work in, and what a shell finds there."""

    def __init__(self) -> None:
        # Not tmp_path: sockets and Chromium cannot live in a path that long.
        self.folder = Path(tempfile.mkdtemp(prefix="ph-"))
        self.home = self.folder / "home"
        self._said = self.folder / "said"
        programs = self.folder / "bin"
        programs.mkdir()
        for name, script in STAND_INS.items():
            self._program(programs / name, script)
        for name, words in FORKED.items():
            command = shlex.join(forkserver.command(*words))
            self._program(programs / name, f'exec {command} "$@"')
        for name in CLIENTS:
            note = f"{PYTHON} -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"
            script = f'{note} {name} "$@" >> {shlex.quote(str(self._said))}'
            self._program(programs / name, script)
        own = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_HTTP_PORT": "0",
            "PILOTHOUSE_REST_PORT": "0",
            "PILOTHOUSE_CONFIG_PORT": "0",
            "PILOTHOUSE_BOOKMARKS_PORT": "0",
        }
        self.env = environment(own)
        """Of a command that is run here. Ports are free ones: others may use the usual ones."""

    def _program(self, path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, text: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run commands to their end, all of which go well."""
        done = subprocess.run(
            ["sh", "-euc", text],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.folder,
            timeout=GUARD_S,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done

    def told_clients(self) -> list[list[str]]:
        """What clients were told since the last time, each with its name first."""
        lines = self._said.read_text().splitlines() if self._said.exists() else []
        self._said.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    @contextmanager
    def serving(self, text: str) -> Iterator[str]:
        """Run commands of which the last is a server; its URL."""
        process = subprocess.Popen(
            ["sh", "-euc", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.folder,
            start_new_session=True,
        )
        assert process.stderr is not None
        log = ServerLog(process.stderr)
        try:
            yield log.url(GUARD_S)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(GUARD_S)
            log.close(GUARD_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        stop = ["sh", "-c", "pilothouse stop"]
        subprocess.run(stop, env=self.env, capture_output=True, timeout=GUARD_S, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
