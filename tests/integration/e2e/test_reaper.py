"""Children with real processes: whatever dies, and however, nothing outlives its owner."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import pytest

from pilothouse.machine import child as children
from pilothouse.machine.child import Child, start_child
from tests.support.living import living, none_left
from tests.support.rounds import ROUNDS
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="these commands are those of Linux"),
]

GUARD_S = 30.0
ROOT = Path(__file__).resolve().parents[3]

# Forks twice, opens a session of its own and does not heed SIGTERM; the command itself is over.
DAEMON = "trap '' TERM; (setsid sh -c 'sleep 600 & sleep 601 & wait' >/dev/null 2>&1 &); exit 0"
# Beside the daemon a part that stays in the foreground.
STUBBORN = DAEMON.removesuffix("exit 0") + "echo up; sleep 602 & wait; wait; sleep 603"


class Family:
    """The processes of one test, known by a mark that each inherits."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        # A reaper bears the name of what it watches.
        self.shell = folder / f"sh-{self.mark}"
        self.shell.symlink_to("/bin/sh")
        self._strangers = psutil.Process().children()

    def children(self) -> list[psutil.Process]:
        """Ours, without those that were there before the test."""
        return [one for one in psutil.Process().children() if one not in self._strangers]

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LC_MARK": self.mark}

    def living(self) -> list[psutil.Process]:
        """Those that are no zombies."""
        return living(self.mark, named=self.mark)

    async def ended(self) -> None:
        await until(lambda: not self.living())

    async def start(
        self,
        script: str,
        stdout: int | Literal["pipe"] = "pipe",
        stderr: int | Literal["pipe"] = "pipe",
    ) -> Child:
        argv = [str(self.shell), "-c", script]
        return await start_child(argv, cwd=ROOT, env=self.env, stdout=stdout, stderr=stderr)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    mine = Family(tmp_path)
    yield mine
    none_left(mine.living())


@pytest.fixture
async def nothing(family: Family) -> AsyncIterator[int]:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def reaper_of(child: Child) -> psutil.Process:
    return psutil.Process(child._reaper.pid)


async def read(child: Child) -> str:
    assert child.stdout is not None
    return (await child.stdout.read()).decode()


# What a child is given


async def test_a_child_gets_what_was_asked_and_nothing_else(tmp_path: Path) -> None:
    script = "pwd; env; echo -; readlink /proc/self/fd/* ; cat; ps -o pid=,pgid=,sid= -p $$"
    env = {"PATH": os.environ["PATH"], "ODD": "a=b\nü", "EMPTY": ""}
    child = await start_child(
        ["/bin/sh", "-c", script], cwd=tmp_path, env=env, stdout="pipe", stderr="pipe"
    )
    assert await child.wait() == 0
    said, _, rest = (await read(child)).partition("-\n")
    folder, *variables = said.splitlines()
    assert folder == str(tmp_path)
    assert set(variables) == {
        *f"PATH={env['PATH']}\nODD=a=b\nü\nEMPTY=\nPWD={tmp_path}".split("\n")
    }
    *open_files, ids = rest.splitlines()
    inherited = [name for name in open_files if not name.startswith("/proc/")]
    assert inherited[0] == "/dev/null"
    assert all(name.startswith("pipe:") for name in inherited[1:])
    assert len(inherited) == 3
    assert ids.split() == [str(child.pid)] * 3
    await child.wait_gone()


async def test_signals_are_as_a_program_expects_them() -> None:
    argv = ["/bin/sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"]
    child = await start_child(argv, cwd=ROOT, env=dict(os.environ), stdout="pipe", stderr="pipe")
    blocked, ignored = (int(mask, 16) for mask in (await read(child)).split()[1::2])
    # 32 and 33 are glibc's own for its threads, and out of a program's reach.
    assert (blocked, ignored & (1 << 31) - 1) == (0, 0)
    await child.wait_gone()


async def test_arguments_of_any_size_arrive_whole(family: Family) -> None:
    long = ["x" * 100_000, "", "a b", "ü\n"]
    argv = ["/bin/sh", "-c", 'printf "%s|" ${#1} "$2" "$3" "$4"', "name", *long]
    child = await start_child(argv, cwd=ROOT, env=family.env, stdout="pipe", stderr="pipe")
    assert await read(child) == "100000||a b|ü\n|"
    await child.wait_gone()


async def test_output_may_go_to_a_file(tmp_path: Path, family: Family) -> None:
    with (tmp_path / "log").open("wb") as log:
        child = await family.start("echo out; echo err >&2", log.fileno(), log.fileno())
        assert (child.stdout, child.stderr) == (None, None)
        assert await child.wait() == 0
        await child.wait_gone()
    assert (tmp_path / "log").read_text() == "out\nerr\n"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)])
async def test_the_exit_code_is_told(
    family: Family, tmp_path: Path, script: str, code: int
) -> None:
    child = await family.start(f"until [ -e '{tmp_path}/go' ]; do sleep 0.01; done; {script}")
    assert child.exit_code is None
    (tmp_path / "go").touch()
    assert await child.wait() == code
    assert child.exit_code == code
    await child.wait_gone()
    assert await child.stop() is True


async def test_all_that_a_command_wrote_is_there_when_its_end_is_told(family: Family) -> None:
    # A process of it holds the output open, so that the end of the stream cannot tell.
    for _ in range(ROUNDS):
        child = await family.start("sleep 600 & printf '%050000d' 7; exit 4")
        assert await child.wait() == 4
        assert child.stdout is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await child.stdout.readexactly(60_000)
        assert len(child.stdout._buffer) == 50_000  # type: ignore[attr-defined]
        await child.stop()


# What cannot be started


async def test_what_cannot_be_started_raises_and_leaves_nothing(
    tmp_path: Path, family: Family, nothing: int
) -> None:
    plain, headless = tmp_path / "plain", tmp_path / "headless"
    plain.write_text("#!/bin/sh\n")
    headless.write_text("echo hello\n")
    headless.chmod(0o755)
    before = descriptors()
    cases = [
        (tmp_path / "gone", ROOT, FileNotFoundError, tmp_path / "gone"),
        (plain, ROOT, PermissionError, plain),
        (headless, ROOT, OSError, headless),
        (Path("/bin/sh"), tmp_path / "nowhere", FileNotFoundError, tmp_path / "nowhere"),
        (Path("/bin/sh"), plain, NotADirectoryError, plain),
    ]
    for path, cwd, kind, named in cases:
        with pytest.raises(kind) as failed:
            await start_child([str(path)], cwd=cwd, env=family.env, stdout="pipe", stderr=nothing)
        assert failed.value.filename == str(named)
        assert failed.value.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
    with pytest.raises(ValueError, match="zero byte"):
        await start_child(["/bin/sh", "a\0b"], cwd=ROOT, env={}, stdout="pipe", stderr="pipe")
    assert descriptors() == before
    assert family.children() == []


async def test_a_start_that_is_given_up_leaves_nothing(family: Family) -> None:
    for _ in range(ROUNDS):
        before = descriptors()
        starting = asyncio.create_task(family.start(STUBBORN))
        await asyncio.sleep(random.uniform(0, 0.05))
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await (await starting).stop(0)
        await family.ended()
        await until(lambda before=before: descriptors() == before)  # type: ignore[misc]


# The end


async def test_stop_lets_a_command_end_by_itself(family: Family) -> None:
    # No long sleeper: one that is told to end while it is being forked would not hear it.
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    child = await family.start(script)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"up\n"
    assert await child.stop(GUARD_S) is True
    assert child.exit_code == 5
    assert await read(child) == "bye\n"
    assert family.living() == []


async def test_stop_kills_what_does_not_heed_it(family: Family) -> None:
    child = await family.start(STUBBORN)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"up\n"
    # The shell, its sleeper, the shell of the daemon and its two: all but the reaper have the mark.
    await until(lambda: len(family.living()) >= 5)
    started = time.monotonic()
    assert await child.stop(0.2) is False
    assert 0.2 <= time.monotonic() - started < GUARD_S
    assert family.living() == []
    assert child.exit_code == -signal.SIGKILL
    assert child.gone


async def test_a_process_forked_during_the_stop_is_told_as_well(family: Family) -> None:
    for _ in range(3 * ROUNDS):
        child = await family.start("echo up; sleep 600")
        assert child.stdout is not None
        await child.stdout.readline()
        # A sleeper that nobody told would hold this up for the whole grace, and be killed.
        assert await child.stop(GUARD_S) is True


async def test_a_halted_command_ends(family: Family) -> None:
    child = await family.start("sleep 600")
    os.kill(child.pid, signal.SIGSTOP)
    assert await child.stop(GUARD_S) is True
    assert child.exit_code == -signal.SIGTERM


async def test_stop_may_be_called_again_and_at_once(family: Family) -> None:
    child = await family.start(STUBBORN)
    assert child.stdout is not None
    await child.stdout.readline()
    slow = asyncio.create_task(child.stop(GUARD_S))
    await asyncio.sleep(0)
    assert not any(await asyncio.gather(child.stop(0.1), child.stop(0.1)))
    assert await slow is False, "the shortest grace counts"
    assert await child.stop() is False
    child.kill_now()
    assert family.living() == []


async def test_kill_now_does_not_wait(family: Family) -> None:
    child = await family.start("trap '' TERM; sleep 600 & wait; sleep 601")
    child.kill_now()
    assert await child.wait() == -signal.SIGKILL
    await child.wait_gone()


async def test_a_server_that_its_command_left_behind_is_watched(family: Family) -> None:
    child = await family.start(DAEMON)
    assert await child.wait() == 0
    assert not child.gone
    await until(lambda: len(family.living()) >= 3)
    assert await child.stop(0.1) is False
    assert family.living() == []
    assert child.exit_code == 0


async def test_the_end_of_what_was_left_behind_is_noticed(family: Family) -> None:
    child = await family.start("(sleep 0.3 &); echo up")
    assert await child.wait() == 0
    assert not child.gone
    await asyncio.wait_for(child.wait_gone(), GUARD_S)
    assert await read(child) == "up\n"


async def test_orphans_do_not_pile_up_as_zombies(family: Family) -> None:
    child = await family.start(
        "i=0; while [ $i -lt 20 ]; do (sleep 0.01 &) ; i=$((i+1)); done; echo up; sleep 600"
    )
    assert child.stdout is not None
    await child.stdout.readline()
    reaper = reaper_of(child)
    await until(lambda: [process.pid for process in reaper.children()] == [child.pid])
    await child.stop()


async def test_output_that_nobody_reads_does_not_hold_up_the_end(family: Family) -> None:
    child = await family.start("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")
    assert await child.stop(GUARD_S) is True
    assert len(await read(child)) < 2 << 20


# The death of others


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
async def test_a_reaper_lives_through_what_a_terminal_sends(family: Family, number: int) -> None:
    child = await family.start("echo up; sleep 600")
    assert child.stdout is not None
    await child.stdout.readline()
    reaper_of(child).send_signal(number)
    # It answers afterwards, and as it should: it was not ended by the signal.
    assert await child.stop(GUARD_S) is True
    assert child.exit_code == -signal.SIGTERM


async def test_a_reaper_that_is_asked_to_end_ends_everything(family: Family) -> None:
    child = await family.start(DAEMON.removesuffix("exit 0") + "exec sleep 604")
    await until(lambda: len(family.living()) >= 4)
    reaper_of(child).terminate()
    assert await child.wait() == -signal.SIGTERM or child.exit_code == -signal.SIGKILL
    await asyncio.wait_for(child.wait_gone(), GUARD_S + 5)
    assert family.living() == []


async def test_a_command_dies_with_a_killed_reaper(family: Family) -> None:
    child = await family.start("trap '' TERM; sleep 600 & echo up; wait; sleep 601")
    assert child.stdout is not None
    await child.stdout.readline()
    reaper_of(child).kill()
    assert await child.wait() == -signal.SIGKILL
    await family.ended()
    assert await child.stop() is False


OWNER = """
import asyncio, os, sys
from pathlib import Path
from pilothouse.machine.child import start_child

async def main():
    env = {"PATH": os.environ["PATH"], "LC_MARK": sys.argv[1]}
    async def cycle():
        while True:
            child = await start_child(
                [sys.argv[3], "-c", sys.argv[2]],
                cwd=Path("/"), env=env, stdout="pipe", stderr="pipe",
            )
            await asyncio.sleep(0.05)
            await child.stop(0.05)
    print("going", flush=True)
    await asyncio.gather(cycle(), cycle())

asyncio.run(main())
"""


def owner(family: Family, script: str, code: str = OWNER) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, family.mark, script, str(family.shell)],
        stdout=subprocess.PIPE,
    )


@pytest.mark.chaos
@pytest.mark.parametrize("script", [STUBBORN, DAEMON], ids=["stubborn", "daemon"])
async def test_nothing_outlives_an_owner_that_is_killed_at_any_moment(
    family: Family, script: str
) -> None:
    for _ in range(ROUNDS):
        with owner(family, script) as process:
            assert process.stdout is not None
            process.stdout.readline()
            await asyncio.sleep(random.uniform(0, 0.3))
            process.kill()
        await family.ended()


async def test_nothing_outlives_an_event_loop_that_forgot_it(family: Family) -> None:
    forgets = OWNER.replace("await child.stop(0.05)", "return")
    code = forgets.replace("asyncio.sleep(0.05)", "child.wait()")
    with owner(family, DAEMON, code) as process:
        assert process.wait(GUARD_S) == 0
    await family.ended()


async def test_a_fork_of_the_owner_does_not_keep_its_children(family: Family) -> None:
    # The fork holds the owner's end of the socket open, which then cannot tell of its death.
    forks = "os.fork() or print(os.getpid(), flush=True); signal.pause()"
    code = "import signal\n" + OWNER.replace("await child.stop(0.05)", forks)
    with owner(family, DAEMON, code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        fork = psutil.Process(int(process.stdout.readline()))
        process.kill()
        await until(lambda: family.living() == [fork])
        fork.kill()
        await until(lambda: family.living() == [])


# Elsewhere than on Linux


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reaper that takes itself to be on another system."""
    plain = children.REAPER.read_text().replace('sys.platform == "linux"', "False")
    (tmp_path / "reaper.py").write_text(plain)
    monkeypatch.setattr(children, "REAPER", tmp_path / "reaper.py")


@pytest.mark.usefixtures("elsewhere")
async def test_without_a_subreaper_the_process_group_is_ended(family: Family) -> None:
    child = await family.start("trap '' TERM; (sleep 600 &); sleep 601 & echo up; wait; sleep 602")
    assert child.stdout is not None
    await child.stdout.readline()
    assert await child.stop(0.1) is False
    assert family.living() == []
    polite = await family.start("sleep 600 & echo up; wait")
    assert await polite.stop(GUARD_S) is True
    left = await family.start("sleep 600 & exit 0")
    assert await left.wait() == 0
    assert not left.gone
    await left.stop(GUARD_S)
    assert family.living() == []


# Many


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.chaos
async def test_many_children_leave_no_descriptor_task_or_zombie(family: Family) -> None:
    await (await family.start("exit 0")).wait_gone()
    before = descriptors()
    for number in range(4 * ROUNDS):
        child = await family.start(DAEMON if number % 2 else "echo up; sleep 600")
        await child.stop(0)
    await until(lambda: descriptors() == before)
    assert family.children() == []
    assert family.living() == []
    assert [task for task in asyncio.all_tasks() if "_watch" in repr(task)] == []


async def test_twenty_stops_at_once_take_one_grace(family: Family) -> None:
    started = await asyncio.gather(*(family.start(DAEMON) for _ in range(20)))
    # By its end each has set its trap: before that, it would go without force.
    await asyncio.gather(*(child.wait() for child in started))
    begun = time.monotonic()
    assert not any(await asyncio.gather(*(child.stop(0.5) for child in started)))
    assert time.monotonic() - begun < GUARD_S
    assert family.living() == []
