"""`pilothouse chrome`: a browser that can be observed, started the way Chrome demands.

Since Chrome 136 the debugging port is ignored on the default profile, so that malware cannot read
a person's cookies: this one has a profile of its own, which stays, so that logins stay too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from pilothouse.core.child_env import window_environment
from pilothouse.machine.chromium.finder import WITH_LIFELINE, find_browser, needs_no_sandbox
from pilothouse.machine.folders import private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.core.settings import Settings

EXIT_MISUSE = 2
START_S = 30.0


def command(
    settings: Settings, profile: Path, url: str, *, headless: bool, browser: Path
) -> list[str]:
    """Return the browser's command line."""
    return [
        *WITH_LIFELINE,
        str(browser),
        "--remote-debugging-pipe",
        "--remote-debugging-address=127.0.0.1",
        f"--remote-debugging-port={settings.cdp_port}",
        f"--user-data-dir={profile}",
        "--no-first-run",
        "--no-default-browser-check",
        *(["--headless"] if headless else []),
        *(["--no-sandbox"] if needs_no_sandbox() else []),
        url,
    ]


def main(settings: Settings, url: str, *, headless: bool) -> int:
    """Start a browser and stay until it is closed or a signal ends us."""
    browser = find_browser(os.environ, settings.browser)
    if browser is None:
        return _refuse("no Chrome, Chromium or Edge was found; `pilothouse doctor` says what to do")
    if (
        not headless
        and sys.platform.startswith("linux")
        and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    ):
        return _refuse("there is no display to show a window on; add --headless")
    try:
        profile = private_folder(settings.home, os.environ, "data", "chrome-profile")
    except OSError as error:
        return _refuse(f"the profile folder cannot be made ({error}); set PILOTHOUSE_HOME")
    active = profile / "DevToolsActivePort"
    active.unlink(missing_ok=True)
    args = command(settings, profile, url, headless=headless, browser=browser.path)
    process = subprocess.Popen(
        args,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=window_environment(os.environ),
        start_new_session=True,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        return _attend(process, active)
    except (KeyboardInterrupt, SystemExit):
        return 0
    finally:
        _end(process)


def _attend(process: subprocess.Popen[bytes], active: Path) -> int:
    deadline = time.monotonic() + START_S
    # The file is there a moment before its content.
    while not (lines := _lines(active)):
        if process.poll() is not None or time.monotonic() > deadline:
            said = process.stderr.read()[-500:] if process.stderr and process.returncode else b""
            why = said.decode(errors="replace").strip()
            return _refuse(f"the browser did not open its debugging port; {why}")
        time.sleep(0.02)
    port = lines[0]
    sys.stderr.write(
        f"Chrome listens for observers on 127.0.0.1:{port} (profile {active.parent}).\n"
        f"Next: cdp_list_targets, or `pilothouse call cdp_list_targets '{{\"port\": {port}}}'`.\n"
        "Stop with Ctrl-C.\n"
    )
    if process.stderr is not None:
        for _ in process.stderr:
            pass  # read so that the browser never waits for us
    return process.wait()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: a browser is many processes."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except (ProcessLookupError, PermissionError):
        process.wait()  # it left by itself; macOS says "not permitted" of a group of zombies


def _refuse(line: str) -> int:
    sys.stderr.write(f"pilothouse: {line}\n")
    return EXIT_MISUSE
