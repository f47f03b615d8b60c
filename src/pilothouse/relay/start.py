"""How `pilothouse` on stdio joins the user's hub: it is found, or started, and relayed to.

Beside `wiring/standalone.py`, and imported instead of it: nothing heavy is imported here, because a
client starts this whenever it starts itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pilothouse import __version__
from pilothouse.core.child_env import check_named, own_environment
from pilothouse.core.settings import SECRET_VARIABLES, BadSetting, packed
from pilothouse.hub.control.protocol import ControlProtocolError, RelayHello, ask
from pilothouse.hub.files import hub_files
from pilothouse.hub.own_template import own_template
from pilothouse.relay.front import Front
from pilothouse.relay.relay import HubFailed, Relay
from pilothouse.wiring.extension_pairing import is_paired

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings
    from pilothouse.hub.files import HubFiles

OWN = "builtin"
"""The kind of workers that are ours."""
HUB_MODULE = "pilothouse.hub.start"
START_S = 60.0
"""Seconds that a hub may take: the first one on a machine compiles what it imports."""
SHOWN_BYTES = 1_000
"""Bytes shown of what a hub wrote that did not start."""
OF_THE_HUB = (
    "home",
    "http_host",
    "http_port",
    "http_token",
    "local_users",
    "public_url",
    "allowed_origins",
    "worker",
    "worker_env",
    "worker_idle",
    "max_sessions",
    "max_workers",
    "max_memory",
    "hub_idle",
    "registry",
    "peer_url",
    "browser",
    "keep_days",
    "keep_mb",
    "history_mb",
    "upstream_ca",
    "client_cert",
    "upstream_insecure",
    "config_port",
    "rest_port",
    "bookmarks_port",
)
"""The settings that a relay's hub is started with: those of what exists once. All others hold for
that relay's own session, and a hub outlives it."""


def relay_stdio(settings: Settings) -> int | None:
    """Serve the client on stdin and stdout through the hub; None: there can be no hub here.

    Raises:
        BadSetting: a setting cannot be used.
    """
    _check(settings)
    hello = RelayHello(__version__, os.getpid(), packed(settings), _here())
    paired = is_paired(settings)
    template = own_template(settings, paired=paired) if settings.worker == OWN else None
    front = Front(
        template,
        f"pilothouse-{os.urandom(8).hex()}-",
        None if paired else partial(own_template, settings, paired=True),
    )
    try:
        files = hub_files(settings.home, os.environ)
        relay = Relay(front, hello, lambda: HubSearch(files, settings))
        relay.begin()
    except (HubFailed, OSError) as failed:
        sys.stderr.write(
            f"pilothouse: no hub can be started ({failed}); serving in this process alone\n"
        )
        return None
    return relay.run()


def finds_hub(settings: Settings) -> bool:
    """Return whether a hub of this home runs whose workers serve our own tools."""
    try:
        told = ask(str(hub_files(settings.home, os.environ).socket), {"status": True})
    except (OSError, ControlProtocolError):
        return False
    kinds = (settings.worker, told["status"]["settings"].get("worker", OWN)) if told else ()
    return set(kinds) == {OWN}


def _here() -> str:
    """Return the working folder. Raises BadSetting if it is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadSetting(
            "the folder in which this was started is gone; start it in one that is there"
        ) from None


def _check(settings: Settings) -> None:
    """Check the settings; few need more than the standard library. Raises BadSetting."""
    check_named(settings.worker_env)
    if settings.redact or settings.store or settings.client_cert:
        from pilothouse.wiring import standalone

        try:
            standalone.make_redactor(settings)
            standalone.check_store(settings)
            standalone.check_client_cert(settings)
        except standalone.StartError as error:
            raise BadSetting(str(error)) from None


class HubSearch:
    """Search for the hub of a home, which is started if there is none."""

    def __init__(self, files: HubFiles, settings: Settings) -> None:
        self._files = files
        self._settings = settings
        self._until = time.monotonic() + START_S
        self._turn: int | None = None
        """Lock of the one relay that starts a hub: the others wait for that one."""
        self._life: socket.socket | None = None
        """Socket that reads as ended when the hub that we started has ended."""
        self._log_began = 0

    def look(self) -> socket.socket | None:
        """Return a connection to the hub; None: look again soon. Raises HubFailed."""
        try:
            return self._found() or self._start()
        except OSError as error:
            self._end()
            raise HubFailed(f"{error}") from None
        except HubFailed:
            self._end()
            raise

    def _found(self) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(str(self._files.socket))
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            link.close()
            return None
        except OSError:
            link.close()
            raise
        self._end()
        return link

    def _start(self) -> socket.socket | None:
        if time.monotonic() > self._until:
            raise HubFailed(f"the hub did not answer within {START_S:g} s{self._said()}")
        if self._life is not None:
            self._check_alive(self._life)
            return None
        if self._turn is None:
            self._turn = _lock(f"{self._files.lock}.turn")
        if self._turn is None or not self._is_vacant():
            return None
        # Somebody may have started one while we waited for our turn.
        if link := self._found():
            return link
        self._log_began = _size(str(self._files.log))
        self._life = start_hub(self._files, self._settings)
        return None

    def _is_vacant(self) -> bool:
        held = self._files.hold()
        if held is not None:
            os.close(held)
        return held is not None

    def _check_alive(self, life: socket.socket) -> None:
        with suppress(BlockingIOError):
            life.recv(1)
            if self._is_vacant():
                raise HubFailed(f"the hub ended while it started{self._said()}")
            # Another one was quicker.
            life.close()
            self._life = None

    def _said(self) -> str:
        with suppress(OSError), open(self._files.log, "rb") as log:
            log.seek(max(self._log_began, _size(str(self._files.log)) - SHOWN_BYTES))
            if said := log.read().decode(errors="replace").strip():
                return f"; it said: {said}"
        return ""

    def _end(self) -> None:
        if self._life is not None:
            self._life.close()
        if self._turn is not None:
            os.close(self._turn)
        self._life = self._turn = None


def start_hub(files: HubFiles, settings: Settings) -> socket.socket:
    """Start a hub that outlives us and our terminal; return a socket that ends when it has ended.

    It has a process group of its own, but no session: Linux shares the processors between sessions
    (autogroups), and a worker alone in one was seen to wait for hundreds of milliseconds beside a
    busy browser, where a server that its client has started itself waits for some.

    Raises:
        OSError: no process can be made, or its log not be written.
    """
    given = _of_the_hub(settings)
    # Everybody on the machine may read a command line, but only our own user its environment.
    secrets = {name: str(given.pop(name)) for name in SECRET_VARIABLES if name in given}
    argv = [sys.executable, "-P", "-m", HUB_MODULE, json.dumps(given)]
    env = own_environment(os.environ, settings.worker_env)
    env |= {SECRET_VARIABLES[name]: value for name, value in secrets.items()}
    log = os.open(files.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ours, theirs = socket.socketpair()
    try:
        child = os.fork()
        if child == 0:
            try:
                # Twice, so that whoever ends us and all below us leaves it alone.
                os.setpgid(0, 0)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                if os.fork():
                    os._exit(0)
                os.chdir(files.log.parent)
                for number, fd in enumerate((theirs.fileno(), log, log)):
                    os.dup2(fd, number)
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)
        os.waitpid(child, 0)
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(log)
        theirs.close()
    ours.setblocking(False)
    return ours


def _of_the_hub(settings: Settings) -> dict[str, object]:
    given = packed(settings)
    return {name: given[name] for name in OF_THE_HUB if name in given}


def _lock(path: str) -> int | None:
    """Return a descriptor that holds a lock until it is closed, None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
