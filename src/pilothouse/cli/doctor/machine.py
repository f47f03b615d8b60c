"""The machine as the doctor's checks see it, and the commands that mend one like it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.machine.chromium import finder
from pilothouse.machine.folders import state_folders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.settings import Settings

LEAST_PYTHON = (3, 13)
PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Facts about the process and its machine for the checks; tests hand in another machine."""

    settings: Settings
    environ: Mapping[str, str]
    system: str = sys.platform
    root: bool = False
    python: tuple[int, ...] = sys.version_info[:3]
    distribution: Mapping[str, str]
    """Fields of /etc/os-release; empty on macOS."""
    proc: Path = Path("/proc")
    package: Path = PACKAGE

    @classmethod
    def here(cls, settings: Settings, environ: Mapping[str, str]) -> Context:
        try:
            distribution = platform.freedesktop_os_release()
        except OSError:
            distribution = {}
        return cls(
            settings=settings,
            environ=environ,
            root=os.geteuid() == 0,
            distribution=distribution,
        )

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", os.defpath)) is not None

    def kernel(self, name: str) -> str:
        """Return the text of a file below /proc, empty where there is none."""
        try:
            return (self.proc / name).read_text().strip()
        except OSError:
            return ""

    def folders(self) -> dict[str, Path]:
        return state_folders(self.settings.home, self.environ)


def this_python() -> str:
    return shlex.quote(sys.executable)


def as_admin(context: Context, command: str) -> str:
    return command if context.root else f"sudo {command}"


def reinstall(package: str) -> str:
    if find_spec("pip"):
        return f"{this_python()} -m pip install --force-reinstall {package}"
    return f"uv pip install --python {this_python()} --reinstall {package}"


def browser_named_by(context: Context) -> str:
    by_variable = context.environ.get(finder.VARIABLE) == context.settings.browser
    return finder.VARIABLE if by_variable else "--browser"


def another_browser(context: Context) -> str:
    """Return the command after which a working browser is found."""
    if not context.settings.browser:
        return install_browser(context)
    other = finder.find_browser({**context.environ, finder.VARIABLE: ""})
    if browser_named_by(context) == finder.VARIABLE:
        forget = f"unset {finder.VARIABLE}"
        return forget if other else f"{forget}; {install_browser(context)}"
    if other:
        return f"pilothouse doctor --browser {shlex.quote(str(other.path))}"
    return install_browser(context)


def install_browser(context: Context) -> str:
    """Return the command that installs a browser on this platform."""
    family = {context.distribution.get("ID"), *context.distribution.get("ID_LIKE", "").split()}
    # Ubuntu's chromium is a snap, which cannot see the profile folders we make.
    if "debian" in family and "ubuntu" not in family:
        if context.root:
            return "apt-get update && apt-get install -y chromium"
        if context.has("sudo"):
            return "sudo apt-get update && sudo apt-get install -y chromium"
    if context.system == "darwin" and context.has("brew"):
        return "brew install --cask google-chrome"
    return f"{this_python()} -m playwright install chromium"


def mend_start(context: Context, path: Path, reason: str) -> str:
    """Return the command for the reason that a browser gave for not starting."""
    if "Socket path too long" in reason:
        return "export TMPDIR=/tmp"
    if "shared libraries" in reason:
        return as_admin(context, f"{this_python()} -m playwright install-deps chromium")
    if "sandbox" in reason.lower() and (fix := allow_namespaces(context)):
        return fix
    # The whole output of the browser says more than the one line that we show.
    flags = "--headless --no-sandbox" if finder.needs_no_sandbox() else "--headless"
    return f"{shlex.quote(str(path))} {flags} --enable-logging=stderr --dump-dom about:blank"


def allow_namespaces(context: Context) -> str:
    """Return the command that gives users the sandbox's namespaces; empty if they have them."""
    for key, denied, granted in (
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ):
        if context.kernel(f"sys/{key.replace('.', '/')}") == denied:
            return as_admin(context, f"sysctl -w {key}={granted}")
    return ""
