"""`pilothouse doctor`: what is wrong with this machine, and the command that mends it.

A check is a function from a Context to findings. It changes nothing: a folder that is missing is
judged by whether it could be made. The facts come from probes.py, the words from here.
"""

from __future__ import annotations

import errno
import os
import platform
import shlex
import socket
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.cli.doctor import machine, probes, report
from pilothouse.cli.doctor.machine import Context
from pilothouse.cli.doctor.report import Finding
from pilothouse.core.settings import BY_NAME, Settings
from pilothouse.machine.chromium import finder
from pilothouse.machine.folders import folder_for
from pilothouse.machine.port_holders import Holder, listeners
from pilothouse.wiring.extension_pairing import FOLDER, extension_folder, secret_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LISTENING = ("http_port", "bookmarks_port", "config_port", "rest_port")
LOOPBACK = "127.0.0.1"

type Check = Callable[[Context], Iterable[Finding]]


def check_machine(context: Context) -> Iterator[Finding]:
    name = context.distribution.get("PRETTY_NAME") or platform.system()
    yield Finding("machine", "ok", f"{name}, {platform.machine()}{', as root' * context.root}")
    kernel = context.kernel("version").lower()
    if "microsoft" not in kernel:
        return
    if "wsl2" in kernel or "microsoft-standard" in kernel:
        said = "WSL 2: a Chrome of Windows is not reached; Pilothouse starts one inside WSL"
        yield Finding("machine", "note", said)
    else:
        linux = context.environ.get("WSL_DISTRO_NAME", "Debian")
        said = "WSL 1 lacks the namespaces and sockets that Chromium needs"
        yield Finding("machine", "warn", said, f"wsl.exe --set-version {shlex.quote(linux)} 2")


def check_python(context: Context) -> Iterator[Finding]:
    version = ".".join(map(str, context.python))
    least = ".".join(map(str, machine.LEAST_PYTHON))
    if context.python < machine.LEAST_PYTHON:
        fix = f"uv tool install --python {least} pilothouse"
        yield Finding("python", "block", f"{version}, but {least} is the least", fix)
    else:
        yield Finding("python", "ok", f"{version} at {sys.executable}")
    # Python writes bytecode by itself unless it is forbidden to; then every start compiles anew.
    if context.environ.get("PYTHONDONTWRITEBYTECODE") and probes.uncompiled(context.package):
        said = "PYTHONDONTWRITEBYTECODE is set and bytecode is missing, so every start is slow"
        fix = f"{machine.this_python()} -m compileall -q {shlex.quote(str(context.package))}"
        yield Finding("python", "note", said, fix)


def check_browser(context: Context) -> Iterator[Finding]:
    """Check that a browser is found, answers and starts; what comes after a failure is left out."""
    named = context.settings.browser
    found = finder.find_browser(context.environ, named)
    if found is None:
        said = "no Chrome, Chromium or Edge was found"
        if named:
            said = f"{machine.browser_named_by(context)}: {named} is not a program that can be run"
        yield Finding("browser", "block", said, machine.another_browser(context))
        return
    runs, answer = probes.browser_version(found.path)
    if not runs:
        said = f"{found.path} does not run: {answer}"
        yield Finding("browser", "block", said, machine.another_browser(context))
        return
    source = {"named": f"named by {machine.browser_named_by(context)}", "PATH": "on PATH"}
    where = source.get(found.source, f"from {found.source}")
    yield Finding("browser", "ok", f"{answer} at {found.path}, {where}")
    start = probes.start_headless(found.path)
    if start.reason:
        said = f"{found.path} does not start headless; it {start.reason}"
        yield Finding("start", "block", said, machine.mend_start(context, found.path, start.reason))
    else:
        yield Finding(
            "start", "ok", f"headless with an open debugging port in {start.seconds:.1f} s"
        )


def check_sandbox(context: Context) -> Iterator[Finding]:
    if not context.system.startswith("linux"):
        yield Finding("sandbox", "ok", "the system gives it to every user")
    elif context.root:
        said = "root cannot have it: Chromium runs with --no-sandbox; open only pages you trust"
        yield Finding("sandbox", "note", said)
    elif fix := machine.allow_namespaces(context):
        said = "ordinary users get no namespaces; only a Chromium with a setuid helper starts"
        yield Finding("sandbox", "warn", said, fix)
    else:
        yield Finding("sandbox", "ok", "ordinary users may make namespaces")


def check_ports(context: Context) -> Iterator[Finding]:
    holders = listeners()
    for name in LISTENING:
        port = getattr(context.settings, name)
        if not port:
            yield Finding("port", "ok", f"{name} takes any free one")
            continue
        host = context.settings.http_host if name == "http_port" else LOOPBACK
        error = probes.bind_error(host, port)
        holder = holders.get(port, Holder())
        use = f"{port} ({name})"
        if error is None:
            yield Finding("port", "ok", f"{use} is free")
        elif error.errno == errno.EADDRINUSE and holder.is_pilothouse:
            yield Finding("port", "ok", f"{use} is held by a running Pilothouse, pid {holder.pid}")
        elif error.errno == errno.EADDRINUSE:
            yield _port_to_move(context, name, host, f"held by {holder}", port + 1)
        elif error.errno == errno.EACCES:
            default = BY_NAME[name].default
            yield _port_to_move(context, name, host, "reserved for root", default)
        else:
            variable = BY_NAME["http_host"].about.env[0]
            said = f"{use}: {host} ({variable} or --http-host) is no address of this machine"
            yield Finding("port", "warn", said, f"export {variable}={LOOPBACK}")
    yield _debugging_port(context, holders)


def check_state(context: Context) -> Iterator[Finding]:
    for kind, folder in context.folders().items():
        quoted = shlex.quote(str(folder))
        there = probes.nearest_existing(folder)
        if not probes.may_write_into(there):
            reason = "cannot be written" if there.is_dir() else "is not a folder"
            said = f"{kind}: {folder} cannot be used, {there} {reason}"
            # Taking the folder may need rights that the user lacks; naming another never does.
            yield Finding("state", "block", said, 'export PILOTHOUSE_HOME="$HOME/.pilothouse"')
        elif there != folder:
            yield Finding("state", "ok", f"{kind}: {folder} will be made")
        elif probes.permissions(folder.resolve()) != 0o700:
            mode = probes.permissions(folder.resolve())
            said = f"{kind}: {folder} has mode {mode:04o}, others must not read it"
            yield Finding("state", "warn", said, f"chmod 700 {quoted}")
        else:
            yield Finding("state", "ok", f"{kind}: {folder} can be written, mode 0700")


def check_profiles(context: Context) -> Iterator[Finding]:
    locks = [lock for folder in context.folders().values() for lock in probes.profile_locks(folder)]
    for lock in locks:
        remove = "rm -f " + " ".join(
            shlex.quote(str(lock.with_name(name)))
            for name in ("SingletonLock", "SingletonSocket", "SingletonCookie")
        )
        try:
            host, pid = probes.lock_owner(lock)
        except (OSError, ValueError):
            yield Finding("profile", "warn", f"{lock} is not a lock of Chromium", remove)
            continue
        if host != socket.gethostname():
            said = f"{lock.parent} was last used on {host}; remove the lock if it is not any more"
            yield Finding("profile", "warn", said, remove)
        elif probes.holds_lock(pid, lock):
            yield Finding("profile", "ok", f"{lock.parent} is in use by the browser of pid {pid}")
        else:
            said = f"{lock.parent} is locked by pid {pid}, which has ended"
            yield Finding("profile", "warn", said, remove)
    if not locks:
        yield Finding("profile", "ok", "no browser profile is locked")


def check_tokens(context: Context) -> Iterator[Finding]:
    files = [path for folder in context.folders().values() for path in probes.private_files(folder)]
    # Stricter than 0600, such as 0400, is fine; what matters is who else may read.
    open_files = [path for path in files if probes.permissions(path) & 0o077]
    for path in open_files:
        said = f"{path} has mode {probes.permissions(path):04o}, others must not read it"
        yield Finding("token", "warn", said, f"chmod 600 {shlex.quote(str(path))}")
    if not open_files:
        yield Finding("token", "ok", "no file with a token is open to others")


def check_extension(context: Context) -> Iterator[Finding]:
    folder = extension_folder(context.package)
    if folder is None:
        yield Finding("extension", "ok", "not part of this build")
        return
    said = f"{folder}; load it at chrome://extensions with developer mode on"
    where = folder_for(context.settings.home, context.environ, "config", FOLDER)
    if secret_in(where).present():
        yield Finding("extension", "ok", f"{said}; `pilothouse pair` shows its code")
    else:
        yield Finding("extension", "note", f"{said}; it was never paired", "pilothouse pair")


def check_libraries(_: Context) -> Iterator[Finding]:
    """Look for Playwright and mitmproxy without importing them, which would cost a second."""
    for package in ("playwright", "mitmproxy"):
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            yield Finding(
                "library", "block", f"{package} is not installed", machine.reinstall(package)
            )
            continue
        folder = Path(next(iter(spec.submodule_search_locations)))
        parts = ("driver/node", "driver/package/cli.js") if package == "playwright" else ()
        missing = [part for part in parts if not (folder / part).is_file()]
        if missing:
            said = f"{package} lacks {' and '.join(missing)}"
            yield Finding("library", "block", said, machine.reinstall(package))
        else:
            yield Finding("library", "ok", f"{package}{' with its driver' if parts else ''}")


CHECKS: tuple[Check, ...] = (
    check_machine,
    check_python,
    check_libraries,
    check_browser,
    check_sandbox,
    check_ports,
    check_state,
    check_profiles,
    check_tokens,
    check_extension,
)


def examine(context: Context, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """Yield all findings; a failed check is one too: on a sick machine the others still count."""
    for check in checks:
        try:
            yield from check(context)
        except Exception as error:
            name = check.__name__.removeprefix("check_")
            yield Finding(name, "warn", f"could not be checked: {type(error).__name__}: {error}")


def main(settings: Settings, as_json: bool = False) -> int:
    """Print the findings; return the exit code, 1 when one of them blocks."""
    findings = list(examine(Context.here(settings, os.environ)))
    if as_json:
        sys.stdout.write(report.as_json(findings) + "\n")
    else:
        report.show(findings, sys.stdout)
    return report.exit_code(findings)


def _port_to_move(context: Context, name: str, host: str, why: str, first: int) -> Finding:
    """Name a port that cannot be had, and the next one that is free and no other setting wants."""
    wanted = {getattr(context.settings, other) for other in LISTENING}
    nearby = (port for port in range(first, min(first + 100, 65536)) if port not in wanted)
    other = next((port for port in nearby if probes.bind_error(host, port) is None), 0)
    setting, port = BY_NAME[name], getattr(context.settings, name)
    variable = setting.about.env[0]
    said = f"{port} ({name}) is {why}; {variable} or {setting.flag} moves it"
    return Finding("port", "warn", said, f"export {variable}={other}")


def _debugging_port(context: Context, holders: Mapping[int, Holder]) -> Finding:
    """Report on a port that is not ours: `observe` attaches to a browser the user started there."""
    host, port = context.settings.cdp_host, context.settings.cdp_port
    if host not in (LOOPBACK, "localhost", "::1"):
        return Finding("port", "note", f"{port} (cdp_port) is on {host}, which is not asked")
    if port in holders:
        return Finding("port", "ok", f"{port} (cdp_port), where observe looks: {holders[port]}")
    found = finder.find_browser(context.environ, context.settings.browser)
    program = shlex.quote(str(found.path)) if found else "google-chrome"
    if finder.needs_no_sandbox():
        program += " --no-sandbox"
    # Chrome 136 and later open the port only for a profile that is not the user's own.
    start = f'{program} --remote-debugging-port={port} --user-data-dir="$(mktemp -d)"'
    said = f"{port} (cdp_port), where observe looks: nobody; to have a browser there, start it so"
    return Finding("port", "note", said, start)
