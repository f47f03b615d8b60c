"""Other people's servers as workers, with real processes and all their manners."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.hub.http.client import NoAnswer, delete, post
from pilothouse.hub.mcp import template_probe
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.workers import Running, StartFailed, command
from pilothouse.hub.workers.command import HttpCommand, StdioCommand
from pilothouse.hub.workers.spawned import CommandLaunch
from pilothouse.machine.child import start_child
from tests.support import forkserver
from tests.support.listener_rig import hello
from tests.support.living import living
from tests.support.rounds import ROUNDS
from tests.support.servers import FIXTURE_APP, ROOT, environment
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.workers.command import CommandKind
    from pilothouse.machine.child import Child

pytestmark = pytest.mark.anyio

GUARD_S = 60.0
ODD = str(ROOT / "tests" / "support" / "odd_server.py")
MODERN = {"MCP-Protocol-Version": "2026-07-28"}
KEY = Key("session", "s")
HELLO = hello()["params"]


class Commands:
    """Starts odd servers, and others by their command line."""

    def __init__(self, mark: str, sockets: Path) -> None:
        self._env = environment({"LC_MARK": mark})
        self._sockets = sockets
        self._kinds: list[CommandKind] = []
        self.started = 0
        self.workers = 0

    async def _spawn(self, *args: Any, **wishes: Any) -> Child:
        self.started += 1
        return await start_child(*args, **wishes)

    def kind(self, *argv: str, over: str, **env: str) -> CommandKind:
        def plan(record: SessionRecord) -> CommandLaunch:
            self.workers += 1
            return CommandLaunch(argv, ROOT, self._env | env)

        kind: CommandKind
        if over == "http":
            kind = HttpCommand(self._spawn, plan)
        else:
            kind = StdioCommand(self._spawn, plan, self._sockets)
        self._kinds.append(kind)
        return kind

    def odd(self, over: str, *manners: str, **env: str) -> CommandKind:
        return self.kind(sys.executable, ODD, over, *manners, over=over, **env)

    async def start(self, over: str, *manners: str, within: float = GUARD_S) -> Running:
        return await run(self.odd(over, *manners), within)

    async def close(self) -> None:
        for kind in self._kinds:
            await kind.close()


async def run(kind: CommandKind, within: float = GUARD_S) -> Running:
    return await kind.start(KEY, SessionRecord("s", KEY, "2025", 0.0, 0.0), within)


@pytest.fixture
async def commands(mark: str, sockets: Path) -> AsyncIterator[Commands]:
    mine = Commands(mark, sockets)
    yield mine
    await mine.close()
    await until(lambda: living(mark) == [])


async def echo(worker: Running, method: str = "echo", **params: Any) -> Any:
    return (await post(worker.address, method, params, MODERN)).body["result"]["you"]


# Starting


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("manners", [[], ["noise"], ["split"], ["noise", "split"]], ids=str)
async def test_a_server_is_reached_whatever_else_it_writes(
    commands: Commands, over: str, manners: list[str]
) -> None:
    worker = await commands.start(over, *manners)
    assert await echo(worker, word="ü") == {
        "jsonrpc": "2.0",
        "method": "echo",
        "params": {"word": "ü"},
        "id": 1,
    }


async def test_a_server_that_takes_a_port_is_given_a_free_one(commands: Commands) -> None:
    argv = [sys.executable, "-c", f"import os,sys;os.environ['ODD_PORT']=sys.argv[1];"
            f"sys.argv[1:]=['http','silent'];exec(open({ODD!r}).read())", "{port}"]  # fmt: skip
    kind = commands.kind(*argv, over="http")
    workers = await asyncio.gather(*(run(kind) for _ in range(3)))
    assert len({worker.address.port for worker in workers}) == 3
    for worker in workers:
        assert (await echo(worker))["method"] == "echo"


@pytest.mark.parametrize("manners", [["six"], ["six", "silent"]], ids=str)
async def test_a_server_is_reached_by_whichever_address_its_localhost_is(
    commands: Commands, manners: list[str]
) -> None:
    argv = [sys.executable, "-c", f"import os,sys;os.environ['ODD_PORT']=sys.argv[1];"
            f"sys.argv[1:]={['http', *manners]};exec(open({ODD!r}).read())"]  # fmt: skip
    worker = await run(commands.kind(*argv, "{port}" if "silent" in manners else "0", over="http"))
    assert worker.address.host == "::1"
    assert (await echo(worker))["method"] == "echo"


async def test_one_that_does_not_say_where_it_listens_is_given_up_with_what_it_said(
    commands: Commands, mark: str
) -> None:
    with pytest.raises(StartFailed, match=r"say on which port .* within 3 s; it said: warming up"):
        await commands.start("http", "silent", "noise", within=3)
    await until(lambda: living(mark) == [])


@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_a_command_that_is_not_there_is_told(commands: Commands, over: str) -> None:
    with pytest.raises(StartFailed, match="/no/such/server cannot be run"):
        await run(commands.kind("/no/such/server", over=over))


async def test_one_that_ends_at_once_is_told_with_its_last_words(commands: Commands) -> None:
    with pytest.raises(StartFailed, match="exit code 1; it said: no licence for this machine"):
        await commands.start("http", "die")


async def test_over_stdio_the_one_who_asks_first_hears_the_last_words(commands: Commands) -> None:
    worker = await commands.start("stdio", "die")
    body = (await post(worker.address, "echo", headers=MODERN)).body
    assert "no licence for this machine" in body["error"]["message"]
    await asyncio.wait_for(worker.died, GUARD_S)


async def test_a_start_that_is_given_up_leaves_nothing(commands: Commands, mark: str) -> None:
    starting = asyncio.create_task(commands.start("http", "silent", "stay"))
    await until(lambda: len(living(mark)) == 3)
    starting.cancel()
    await until(lambda: living(mark) == [])


# Ending


@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_one_that_does_not_heed_sigterm_is_killed_with_its_child(
    commands: Commands, mark: str, over: str
) -> None:
    worker = await commands.start(over, "stay")
    await until(lambda: len(living(mark)) == 3)
    await worker.stop(0.2)
    assert living(mark) == []
    assert worker.died.done()
    await worker.stop(0.2)


@pytest.mark.chaos
@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_one_that_is_killed_is_noticed_and_leaves_nothing(
    commands: Commands, mark: str, over: str
) -> None:
    for _ in range(ROUNDS):
        worker = await commands.start(over, "stay")
        await until(lambda: len(living(mark)) == 3)
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.wait_for(worker.died, GUARD_S)
        assert living(mark) == []


async def test_one_that_ends_under_a_request_answers_it_with_an_error(commands: Commands) -> None:
    worker = await commands.start("stdio", "later")
    body = (await post(worker.address, "echo", headers=MODERN)).body
    assert "it was too much for me" in body["error"]["message"]
    worker = await commands.start("http", "later")
    with pytest.raises(NoAnswer):
        await post(worker.address, "echo")


# The bridge


class Conversation:
    """A session over the bridge, with its push stream."""

    def __init__(self, worker: Running, session: str) -> None:
        self.worker = worker
        self.headers = {"Mcp-Session-Id": session}

    async def post(self, method: str, **params: Any) -> Any:
        return (await post(self.worker.address, method, params, self.headers)).body

    async def send(self, message: dict[str, Any]) -> int:
        status, _ = await raw(self.worker, "POST", self.headers, message)
        return status


@asynccontextmanager
async def conversation(worker: Running) -> AsyncIterator[Conversation]:
    told = await post(worker.address, "initialize", HELLO)
    assert told.session
    yield Conversation(worker, told.session)


async def raw(
    worker: Running, method: str, headers: dict[str, str], message: object = None
) -> tuple[int, list[dict[str, Any]]]:
    """Status and messages of a whole answer."""
    reader, writer = await asyncio.open_unix_connection(worker.address.path)
    writer.write(request(method, headers, message))
    answer = await asyncio.wait_for(reader.read(), GUARD_S)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), messages(body)


def request(method: str, headers: dict[str, str], message: object = None) -> bytes:
    body = b"" if message is None else json.dumps(message).encode()
    fields = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} /mcp HTTP/1.0\r\n{lines}\r\n".encode() + body


def messages(body: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines or ([body] if body else [])]


async def test_each_who_shakes_hands_has_a_process_and_an_id_of_its_own(
    commands: Commands,
) -> None:
    worker = await commands.start("stdio")
    told = [await post(worker.address, "initialize", HELLO) for _ in range(3)]
    assert len({one.session for one in told}) == 3
    pids = {one.body["result"]["pid"] for one in told}
    assert len(pids) == 3
    assert worker.pid in pids
    again = await post(worker.address, "echo", headers={"Mcp-Session-Id": told[1].session})
    assert again.body["result"]["pid"] == told[1].body["result"]["pid"]


async def test_a_session_that_is_unknown_or_ended_is_not_found(commands: Commands) -> None:
    worker = await commands.start("stdio")
    assert (await post(worker.address, "echo")).status == 404
    assert (await post(worker.address, "echo", headers={"Mcp-Session-Id": "x"})).status == 404
    async with conversation(worker) as talk:
        assert (await delete(worker.address, talk.headers)).status == 200
        assert (await post(worker.address, "echo", headers=talk.headers)).status == 404


async def test_many_who_use_the_same_ids_get_their_own_answers(commands: Commands) -> None:
    worker = await commands.start("stdio")
    words = [f"word {number}" for number in range(50)]
    told = await asyncio.gather(*(echo(worker, word=word) for word in words))
    assert [one["params"]["word"] for one in told] == words


async def test_progress_comes_before_the_answer_with_the_asker_s_own_token(
    commands: Commands,
) -> None:
    worker = await commands.start("stdio")
    message = {"jsonrpc": "2.0", "id": "a", "method": "tell",
               "params": {"_meta": {"progressToken": "mine"}}}  # fmt: skip
    _, (progress, answer) = await raw(worker, "POST", MODERN, message)
    assert progress["params"] == {"progressToken": "mine", "progress": 1}
    assert answer["id"] == "a"


async def test_what_nobody_asked_for_comes_on_the_push_stream(commands: Commands) -> None:
    worker = await commands.start("stdio")
    async with conversation(worker) as talk:
        reader, writer = await asyncio.open_unix_connection(worker.address.path)
        writer.write(request("GET", talk.headers))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head
        assert b"text/event-stream" in head
        assert (await raw(worker, "GET", talk.headers))[0] == 409
        heard = {"jsonrpc": "2.0", "method": "notifications/hello", "params": {"n": 1}}
        assert await talk.send(heard) == 202
        event = messages(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), GUARD_S))
        assert event[0]["params"]["heard"] == heard
        assert (await talk.post("ask"))["result"]["you"]["method"] == "ask"
        event = messages(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), GUARD_S))
        assert event[0]["method"] == "roots/list"
        reply = {"jsonrpc": "2.0", "id": "its-own", "result": {"roots": []}}
        assert await talk.send(reply) == 202
        event = messages(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), GUARD_S))
        assert event[0]["params"]["heard"] == reply
        writer.close()


async def test_what_nobody_was_there_to_hear_comes_with_the_next_answer(
    commands: Commands,
) -> None:
    worker = await commands.start("stdio")
    async with conversation(worker) as talk:
        heard = {"jsonrpc": "2.0", "method": "notifications/hello", "params": {}}
        assert await talk.send(heard) == 202
        message = {"jsonrpc": "2.0", "id": 5, "method": "echo", "params": {}}
        _, said = await raw(worker, "POST", talk.headers, message)
        assert [one.get("id") for one in said] == [None, 5]


async def test_a_cancellation_names_the_request_as_the_server_knows_it(
    commands: Commands,
) -> None:
    worker = await commands.start("stdio")
    async with conversation(worker) as talk:
        message = {"jsonrpc": "2.0", "id": "long", "method": "slow", "params": {}}
        waiting = asyncio.create_task(raw(worker, "POST", talk.headers, message))
        await asyncio.sleep(0)
        await talk.post("echo")  # so that the other was sent before
        params = {"requestId": "long"}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert await talk.send(note) == 202
        _, said = await waiting
        assert said[-1] == {"jsonrpc": "2.0", "id": "long", "result": {"cancelled": True}}


async def test_in_the_2026_era_a_client_that_leaves_cancels_its_request(
    commands: Commands,
) -> None:
    worker = await commands.start("stdio")
    reader, writer = await asyncio.open_unix_connection(worker.address.path)
    message = {"jsonrpc": "2.0", "id": 1, "method": "slow", "params": {}}
    writer.write(request("POST", MODERN, message))
    await asyncio.wait_for(reader.readuntil(b"heard"), GUARD_S)
    writer.close()
    # The odd server answers the cancellation itself, which nobody waits for any more.
    assert (await echo(worker, word="still here"))["params"] == {"word": "still here"}


# What all workers of a kind answer alike


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("over", "words"),
    [("http", ["serve", "--port", "0"]), ("http", ["serve", "--port", "{port}"]), ("stdio", [])],
    ids=["http", "http by port", "stdio"],
)
async def test_a_real_server_s_template_is_captured_in_both_eras_and_nothing_stays(
    commands: Commands, mark: str, over: str, words: list[str]
) -> None:
    argv = forkserver.command(FIXTURE_APP, *words)
    kind = commands.kind(*argv, over=over)
    both = await asyncio.gather(kind.template(), kind.template())
    assert both[0] is both[1]
    template = both[0]
    for era in (template.handshake, template.modern):
        assert "cdp_list_targets" in {tool["name"] for tool in era["tools/list"]["tools"]}
    assert template.versions[-1] == "2025-11-25"
    await until(lambda: living(mark) == [])


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_a_server_that_knows_one_era_alone_is_taken_for_what_it_is(
    commands: Commands, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_probe, "OTHER_ERA_S", 1.0)
    template = await commands.odd(over, "2025").template()
    assert [tool["name"] for tool in template.handshake["tools/list"]["tools"]] == ["who"]
    assert template.versions[-1] == "2025-11-25"
    assert template.modern == {}


async def test_a_start_for_a_template_that_takes_long_goes_on_for_who_comes_next(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert command.TEMPLATE_S == 8, "as for every worker"
    monkeypatch.setattr(command, "TEMPLATE_S", 0.1)
    go = tmp_path / "go"
    waits = f"until test -e {go}; do sleep 0.05; done; exec {sys.executable} {ODD} http"
    kind = commands.kind("sh", "-c", waits, over="http")
    for _ in range(2):
        with pytest.raises(StartFailed, match=r"within 0.1 s"):
            await kind.template()
    await asyncio.to_thread(go.touch)
    monkeypatch.setattr(command, "TEMPLATE_S", GUARD_S)
    monkeypatch.setattr(template_probe, "OTHER_ERA_S", GUARD_S)
    assert (await kind.template()).modern
    assert commands.started == 1


async def test_a_start_for_a_template_that_takes_too_long_is_given_up(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "START_S", 0.5)
    monkeypatch.setattr(command, "TEMPLATE_S", 0.5)
    kind = commands.odd("http", "silent")

    async def is_given_up() -> bool:
        with pytest.raises(StartFailed) as caught:
            await kind.template()
        return "on which port" in str(caught.value)

    await until(is_given_up)


async def test_a_client_waits_no_longer_for_a_template_than_for_a_worker(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TEMPLATE_S", 0.5)
    kind = commands.kind(sys.executable, "-c", "import time; time.sleep(1000)", over="stdio")
    reported: list[str] = []
    kind.report = lambda event, **details: reported.append(event)
    for _ in range(2):
        with pytest.raises(StartFailed, match=r"within 0.5 s") as caught:
            await kind.template()
        assert caught.value.retry_after > 0
    # The start goes on for who comes next, and is counted once.
    assert commands.workers == 1
    assert reported == ["worker_start_failed"]


@pytest.mark.usefixtures("unhurried")
async def test_a_template_that_could_not_be_had_is_asked_for_again(commands: Commands) -> None:
    kind = commands.odd("http", "die")
    for _ in range(2):
        with pytest.raises(StartFailed, match="no licence"):
            await kind.template()
    assert commands.started == 2 * 2


@pytest.mark.usefixtures("unhurried")
async def test_a_template_that_cannot_be_had_is_not_asked_for_all_the_time(
    commands: Commands,
) -> None:
    kind = commands.odd("http", "die")
    failed = []
    for _ in range(8):
        with pytest.raises(StartFailed, match="no licence") as caught:
            await kind.template()
        failed.append(caught.value.retry_after)
    assert commands.started == 2 * 3
    assert failed[:2] == [0, 0]
    assert all(wait > 1 for wait in failed[2:])
