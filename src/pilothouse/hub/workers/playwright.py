"""@playwright/mcp as a worker: one Node process and one browser for each session."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.hub.workers import StartFailed, can_be_temp
from pilothouse.hub.workers.command import HttpCommand
from pilothouse.hub.workers.spawned import CommandLaunch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pilothouse.hub.model import SessionRecord
    from pilothouse.machine.spawn import Spawn

PACKAGE = Path("@playwright", "mcp")
SCRIPT = "cli.js"
# Nothing but this one line: what follows is advice to people, which names addresses as well.
LISTENING = re.compile(r"^Listening on https?://(localhost|127\.0\.0\.1):(\d+)()$")
FIND_S = 10.0
HOW_TO_GET_IT = (
    "install it with `npm install -g @playwright/mcp`, or name the folder where it is:"
    " --worker playwright-mcp:FOLDER"
)


class PlaywrightMcp(HttpCommand):
    """The kind whose workers are @playwright/mcp."""

    def __init__(
        self,
        spawn: Spawn,
        env: Mapping[str, str],
        run_folder: Path,
        *,
        folder: str = "",
        flags: Sequence[str] = (),
        browser: Callable[[], str] = lambda: "",
    ) -> None:
        """Take `run_folder`, for what workers write; `folder`, where the package is, if not npm's;
        `browser`, which gives the path of the one to use, or '' for Playwright's own."""
        super().__init__(spawn, self._launch_for, LISTENING)
        # The hub knows whether a session lives. Behind it, heartbeats end those that are silent.
        self._env = {**env, "PLAYWRIGHT_MCP_PING_TIMEOUT_MS": "0"}
        self._run_folder = run_folder
        self._folder = folder
        self._flags = tuple(flags)
        self._browser = browser
        self._script: Path | None = None

    async def prepare(self) -> None:
        if self._script is None:
            try:
                self._script = await self._find()
            except StartFailed as failed:
                self._trouble = str(failed)
                raise

    def _launch_for(self, record: SessionRecord) -> CommandLaunch:
        assert self._script is not None
        private = Path(tempfile.mkdtemp(prefix="playwright-", dir=self._run_folder))
        browser = self._browser()
        argv = [
            *("node", str(self._script)),
            *("--host", "127.0.0.1", "--port", "0"),
            *("--browser", "chromium", "--headless", "--isolated"),
            *("--output-dir", str(private)),
            *(("--executable-path", browser) if browser else ()),
            *self._flags,
        ]
        cwd = Path(record.cwd) if record.cwd else private
        # The profile of a browser that was killed goes with the folder.
        temp = {"TMPDIR": str(private)} if can_be_temp(private) else {}
        env = {**self._env, **temp}
        return CommandLaunch(argv, cwd, env, lambda: shutil.rmtree(private, ignore_errors=True))

    async def _find(self) -> Path:
        """Find the script to run: never through npx, which starts a shell that it does not end."""
        if self._folder:
            given = Path(self._folder)
            places = [given, given / PACKAGE, given / "node_modules" / PACKAGE]
        else:
            places = [Path(root) / PACKAGE for root in await self._npm_roots()]
        for place in places:
            if (place / SCRIPT).is_file():
                return place / SCRIPT
        where = ", ".join(map(str, places)) or "npm, which is not there either"
        raise StartFailed(f"@playwright/mcp is not in {where}; {HOW_TO_GET_IT}")

    async def _npm_roots(self) -> list[str]:
        npm = shutil.which("npm", path=self._env.get("PATH"))
        if npm is None:
            return []
        argv = [npm, "root", "--global"]
        process = await self._spawn(
            argv, cwd=Path("/"), env=self._env, stdout="pipe", stderr="pipe"
        )
        try:
            async with asyncio.timeout(FIND_S):
                assert process.stdout is not None
                return (await process.stdout.read()).decode().split("\n")[:1]
        except TimeoutError:
            return []
        finally:
            await process.stop(0)
