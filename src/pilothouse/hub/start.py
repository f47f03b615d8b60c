"""The hub: one process of a user that all agents join, each with a worker of its own.

`pilothouse serve` runs it in the foreground; a relay that finds none starts it as a module
(relay/start.py). What it is made of is wired in assembly.py, and imported by whoever is the hub:
those that find another one should not have to wait for that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from pilothouse.core.settings import BY_NAME, SECRET_VARIABLES, BadSetting, unpacked
from pilothouse.hub.control.protocol import ask
from pilothouse.hub.files import hub_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pilothouse.core.settings import Settings
    from pilothouse.hub.files import HubFiles

    type Ready = Callable[[str], None]
    """Callback that gets the URL once the hub listens."""

DESCRIPTORS = 16_384
"""Number of files and connections that the hub may have open."""
PATIENCE_S = 30.0
"""Seconds that another hub of this home may take to start or to end."""


def serve_hub(settings: Settings, given: Mapping[str, Any], ready: Ready) -> int:
    """Be the hub for `pilothouse serve` until a signal, or name the one that runs already.

    Args:
        settings: All of them.
        given: Those that stand on the command line.
        ready: Is called once it listens.

    Raises:
        StartError: it cannot start as asked.
    """
    from pilothouse.wiring import standalone

    standalone.check_startable(settings)
    standalone.check_store(settings)
    standalone.check_client_cert(settings)
    files = hub_files(settings.home, os.environ)
    running = become_hub(files)
    if running is not None:
        return _beside(files, running, given)
    _run(settings, files, ready, exact_port="http_port" in given)
    return 0


def main(order: str) -> int:
    """Be a hub that a relay has started; `order` has its settings, as JSON."""
    secrets = {name: os.environ.pop(variable, "") for name, variable in SECRET_VARIABLES.items()}
    given = {name: value for name, value in secrets.items() if value}
    settings = unpacked({**json.loads(order), **given})
    files = hub_files(settings.home, os.environ)
    if become_hub(files) is not None:
        return 0
    from pilothouse.wiring.standalone import StartError

    files.bound_log()
    try:
        _run(settings, files, lambda url: None, exact_port=False, leaves=True)
    except StartError as error:
        sys.stderr.write(f"pilothouse: {error}\n")
        return 2
    return 0


def become_hub(files: HubFiles) -> dict[str, Any] | None:
    """Become the hub of this home, until we end; if another one is, return its status.

    Raises:
        StartError: another one neither answers nor ends.
    """
    until = time.monotonic() + PATIENCE_S
    while files.hold() is None:
        try:
            told = ask(str(files.socket), {"status": True})
        except (OSError, ValueError):
            told = None
        if told is not None:
            status: dict[str, Any] = told["status"]
            return status
        if time.monotonic() > until:
            from pilothouse.wiring.standalone import StartError

            raise StartError(
                f"another hub of this home does not answer at {files.socket}; wait for its end, or"
                f" use another home: {BY_NAME['home'].about.env[0]}"
            )
        time.sleep(0.05)
    return None


def _beside(files: HubFiles, running: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Name the hub that runs, unless another one was asked for."""
    url = running["url"]
    # By its home it was found, and any port is as good as another.
    met = {"home": given.get("home"), "http_port": 0}
    wishes = {name: value for name, value in given.items() if met.get(name) != value}
    # It compares them itself, because nobody is told its secrets.
    told = ask(str(files.socket), {"compare": wishes}) or {}
    if other := told.get("differ", []):
        from pilothouse.wiring.standalone import StartError

        flags = ", ".join(BY_NAME[name].flags("serve")[0] for name in other)
        raise StartError(
            f"a hub of this home runs at {url} (pid {running['pid']}) with another {flags};"
            f" `pilothouse stop` ends it, or set {BY_NAME['home'].about.env[0]} to another folder"
        )
    sys.stderr.write(f"Pilothouse is serving already (pid {running['pid']}):\n")
    sys.stdout.write(f"{url}\n")
    return 0


def _run(
    settings: Settings, files: HubFiles, ready: Ready, *, exact_port: bool, leaves: bool = False
) -> None:
    import anyio

    from pilothouse.hub.assembly import HubPlan, serve
    from pilothouse.wiring import standalone

    oauth = standalone.make_oauth(settings)
    tls = standalone.make_tls(settings)
    redactor = standalone.make_redactor(settings)
    log = standalone.make_log(settings, redactor)
    listener = standalone.listener(settings, exact=exact_port)
    plan = HubPlan(settings, files, redactor, log, listener, oauth, tls, ready, leaves)
    _have_room_for_connections()
    standalone.calm_collector()
    try:
        anyio.run(serve, plan)
    except ExceptionGroup as failed:
        wrong: Exception | None = failed.subgroup(BadSetting)
        if wrong is None:
            raise
        while isinstance(wrong, ExceptionGroup):
            wrong = wrong.exceptions[0]
        raise standalone.StartError(str(wrong)) from None


def _have_room_for_connections() -> None:
    """Allow more descriptors: a thousand listening clients need more than many systems allow."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
