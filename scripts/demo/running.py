"""A whole run: the story, the report, the last words, and the time that the session is kept."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
from rich.console import Console
from rich.markup import escape

from scripts.demo import keeping
from scripts.demo.agent import Hub, connected, user_hub
from scripts.demo.report import report
from scripts.demo.story import FILES, Story
from scripts.demo.telling import DemoFailed, Teller


def run(folder: Path, keep_s: float, tell: int) -> int:
    """Be the agent; a byte is written to `tell` when the demo has gone well."""
    console = Console(highlight=False)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    try:
        anyio.run(_run, folder, keep_s, tell, console)
    except Exception as error:
        console.print(f"\n[bold red]The demo failed:[/] {escape(_words(_first(error)))}")
        return 1
    return 0


async def _run(folder: Path, keep_s: float, tell: int, console: Console) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_leave_when_told, tasks.cancel_scope)
        with tempfile.TemporaryDirectory(prefix="ph-") as made:
            await _drive(folder, keep_s, tell, console, Path(made) / "server.log")
        tasks.cancel_scope.cancel()


async def _drive(folder: Path, keep_s: float, tell: int, console: Console, log: Path) -> None:
    teller = Teller(console)
    async with connected(teller, log) as agent:
        await Story(agent, teller, folder).run()
        hub = user_hub()
        (folder / FILES[0]).write_text(report(teller, FILES, hub.url, folder), "utf-8")
        console.print(_last_words(folder, teller, hub, keep_s))
        if keep_s > 0:
            keeping.note(folder)
            _let_go(tell)
            await keeping.stay(hub.pid, keep_s)
            keeping.forget(folder)
    if keep_s <= 0:
        _let_go(tell)


async def _leave_when_told(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


def _last_words(folder: Path, teller: Teller, hub: Hub, keep_s: float) -> str:
    calls = sum(len(chapter.calls) for chapter in teller.chapters)
    words = [
        f"\n[bold green]Done[/] in {teller.elapsed_s:.0f} s with {calls} tool calls.",
        f"  report     {folder / FILES[0]}, with all other files beside it",
        f"  dashboard  {hub.url}/  (`make run` names it, too)",
    ]
    if keep_s > 0:
        words.append(
            f"  session    stays open for {keep_s / 60:.0f} minutes, for the dashboard;"
            " `make demo ARGS=--stop` ends it"
        )
    return "\n".join(words)


def _let_go(tell: int) -> None:
    """Say that all went well; whoever reads what the demo prints is not to wait for us."""
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    # Nobody is there to hear it if the demo was killed.
    with suppress(BrokenPipeError):
        os.write(tell, b"!")
    os.close(tell)


def _first(error: BaseException) -> BaseException:
    """What went wrong, out of the groups in which task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, DemoFailed) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    output, seconds, descriptor = sys.argv[1:]
    sys.exit(run(Path(output), float(seconds), int(descriptor)))
