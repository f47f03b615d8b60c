"""`pilothouse wrap -- COMMAND`: the JSON contract of server commands for any plain dev server.

A script such as `exec pilothouse wrap -- npm run dev "$@"` answers --start, --restart, --status
and --shutdown. The server outlives the process that started it, as the contract has it: a
supervisor stays in the background, whose child the server is. Later processes find it by its socket
in a private folder named after the working directory and the command, so no pid is ever guessed.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.cli.wrap.supervisor import LAST, SOCKET, START_MS, CommandOrder
from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.e2e.model import ServerStartFailed
from pilothouse.machine.folders import private_folder
from pilothouse.machine.held_folders import held
from pilothouse.machine.state.places import WRAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.cli.wrap.supervisor import Answer
    from pilothouse.core.settings import Settings

EXIT_FAILED, EXIT_MISUSE = 1, 2
VERBS = ("--start", "--restart", "--status", "--shutdown")
ANSWER_S = 60.0


class WrapMisuse(Exception):
    """The command line cannot be understood."""


def main(settings: Settings, argv: Sequence[str]) -> int:
    """Carry out one verb, print its JSON line and return the exit code."""
    try:
        asked = parse(argv, os.getcwd(), os.environ.get("PORT", ""))
        order = replace(asked, log_mb=settings.log_mb)
        with entered(settings, order) as folder:
            answer = asyncio.run(_carry_out(order, folder))
    except WrapMisuse as error:
        sys.stderr.write(f"pilothouse wrap: {error}\n")
        return EXIT_MISUSE
    except Fault as fault:
        return _fail(fault.render(Envelope.TYPE), fault.message)
    except OSError as error:
        return _fail({"type": "server_start_failed", "message": str(error)}, str(error))
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


@contextmanager
def entered(settings: Settings, order: CommandOrder) -> Iterator[Path]:
    """Work in the folder in which processes with the same order meet, which no sweep removes
    meanwhile.

    Raises:
        OSError: it cannot be made or entered.
    """
    while True:
        folder = private_folder(settings.home, os.environ, "state", f"{WRAP}/{order.name}")
        with held(folder):
            try:
                # A socket's path must be short, and the home of Pilothouse may be anything but.
                os.chdir(folder)
            except FileNotFoundError:  # a sweep had it, and we have waited for that
                continue
            yield folder
            return


def parse(argv: Sequence[str], cwd: str, port: str = "") -> CommandOrder:
    """Parse the words; the verb may stand anywhere, as a script appends it to the command.

    Raises:
        WrapMisuse: no verb, or a flag that is not ours.
    """
    words = list(argv)
    at = next((at for at in reversed(range(len(words))) if words[at] in VERBS), None)
    if at is None:
        raise WrapMisuse(
            f"one of {', '.join(VERBS)} is missing, as in `wrap -- npm run dev --start`"
        )
    verb = words.pop(at)
    numbers = {"--port": int(port) if port.isdecimal() else 0, "--timeout-ms": START_MS}
    while words and words[0] in numbers:
        flag, value, words = words[0], "".join(words[1:2]), words[2:]
        if not value.isdecimal():
            raise WrapMisuse(f"{flag} takes a number, not {value or 'nothing'}")
        numbers[flag] = int(value)
    if words[:1] == ["--"]:
        words = words[1:]
    elif words and words[0].startswith("-"):
        raise WrapMisuse(f"unknown flag {words[0]}; the command comes after `--`")
    return CommandOrder(verb, tuple(words), cwd, numbers["--port"], numbers["--timeout-ms"])


async def _carry_out(order: CommandOrder, folder: Path) -> Answer:
    if order.verb == "--status":
        return await _ask("status") or _stopped()
    with _turn():
        running = await _ask("status")
        if running and running["status"] == "stopped":
            running = None  # it has just ended by itself, and its supervisor is about to
        if order.verb == "--shutdown":
            stopped = await _ask("shutdown") if running else None
            return stopped or {"status": "already_stopped", "message": "It was not running."}
        if order.verb == "--restart" and running:
            return await _ask("restart") or _lost()
        if running:
            message = f"It runs already and answers at {running['url']}."
            return {**running, "status": "already_running", "message": message}
        started = _start(order, folder)
        return {**started, "status": "started"} if order.verb == "--restart" else started


@contextmanager
def _turn() -> Iterator[None]:
    """Hold the lock for one change at a time: two that start at once get one server."""
    with open("lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


async def _ask(question: str) -> Answer | None:
    """Return the supervisor's answer, None if there is no supervisor."""
    try:
        reader, writer = await asyncio.open_unix_connection(SOCKET)
    except OSError:
        return None
    try:
        writer.write(f"{question}\n".encode())
        async with asyncio.timeout(ANSWER_S):
            said = await reader.read()
    except TimeoutError:
        said = b""
    finally:
        writer.close()
    return _understood(said)


def _understood(said: bytes) -> Answer:
    """Return a supervisor's answer; raise the fault if it reported one."""
    answer: Answer = json.loads(said) if said else {}
    if "error" in answer:
        error = answer["error"]
        facts = {name: value for name, value in error.items() if name not in ("type", "message")}
        hint = str(facts.pop("suggestion", ""))
        raise ServerStartFailed(error["message"], hint=hint, **facts)
    return answer or _lost()


def _lost() -> Answer:
    raise ServerStartFailed(
        "The process that keeps the server did not answer.", hint="Try --shutdown, then --start."
    )


def _stopped() -> Answer:
    """Return what is known of the last server."""
    with suppress(OSError, ValueError):
        last = json.loads(Path(LAST).read_text())
        logs = {"logs": last["logs"]} if last["logs"] else {}
        return {"status": "stopped", "message": last["message"], **logs}
    return {"status": "stopped", "message": "It is not running."}


def _start(order: CommandOrder, folder: Path) -> Answer:
    with suppress(OSError, ValueError):
        shutil.rmtree(json.loads(Path(LAST).read_text())["folder"], ignore_errors=True)
    Path(LAST).unlink(missing_ok=True)
    with open("keeper.log", "w") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "pilothouse.cli.wrap.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    with supervisor.stdin as order_goes, supervisor.stdout as answer_comes:
        order_goes.write(json.dumps(asdict(order)).encode())
        order_goes.close()
        # It closes its end of the pipe as soon as it has reported how the start went, and stays.
        return _understood(answer_comes.read())


def _fail(error: Answer, sentence: str) -> int:
    sys.stdout.write(json.dumps({"error": error}) + "\n")
    sys.stderr.write(f"pilothouse wrap: {sentence}\n")
    return EXIT_FAILED
