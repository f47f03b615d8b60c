"""The stdio relay between a client and a hub that is the test itself: what passes, and when."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.control.protocol import RelayHello
from pilothouse.hub.notices import LOST, RESET
from pilothouse.relay.front import Front
from pilothouse.relay.relay import TRIES, Relay
from tests.support.relaying import Home, aside, pretending
from tests.support.servers import ROOT
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.relaying import Peer, PretendHub
    from tests.support.servers import RawStdio

MIB = 1 << 20
ROOM = 64 * MIB
"""More than a relay may hold, less than what is sent through it."""


@pytest.fixture
def home(sockets: Path, mark: str) -> Home:
    return Home(sockets, mark)


@pytest.fixture
def hub(home: Home) -> Iterator[PretendHub]:
    with pretending(home) as hub:
        yield hub


@contextmanager
def joined(home: Home, hub: PretendHub) -> Iterator[tuple[RawStdio, Peer]]:
    """A client of 2025 that has shaken hands, and the relay's connection to the hub."""
    with home.raw() as client:
        relay = hub.relay()
        client.initialize()
        yield client, relay


def call(client: RawStdio, id: int = 7) -> None:
    client.send_request("tools/call", {"name": "status", "arguments": {}}, id)


def greeted(worker: Peer) -> Any:
    """The first message of the client's own, after the introduction was answered."""
    hello = worker.hear()
    assert hello["method"] == "initialize"
    worker.message(id=hello["id"], result={"protocolVersion": "2025-11-25"})
    assert worker.hear() == {
        "jsonrpc": "2.0",
        "method": "notifications/initialized",
        "params": {},
    }
    return worker.hear()


@contextmanager
def served(home: Home, hub: PretendHub) -> Iterator[tuple[RawStdio, Peer, Peer]]:
    """A client, the hub's end and its worker, which has answered one call."""
    with joined(home, hub) as (client, relay):
        call(client, 1)
        worker = hub.worker(relay)
        assert greeted(worker)["id"] == 1
        worker.message(id=1, result={"content": []})
        assert client.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
        yield client, relay, worker


def test_no_worker_is_asked_for_before_one_is_needed(home: Home, hub: PretendHub) -> None:
    with joined(home, hub) as (client, relay):
        assert client.request("tools/list")["result"]["tools"]
        assert client.request("ping")["result"] == {}
        client.send(b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}')
        assert client.request("resources/list")["result"]["resources"]
        call(client)
        assert relay.hear()["worker"] is True


def test_everything_passes_as_it_is_in_both_directions(home: Home, hub: PretendHub) -> None:
    with served(home, hub) as (client, _, worker):
        odd = b'{ "method":"tools/call" , "id":"x y","jsonrpc":"2.0","params":{"name":"\xc3\xa4"}}'
        client.send(odd)
        assert worker.line() == odd + b"\n"
        said: list[dict[str, Any]] = [
            {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}},
            {"id": 1, "method": "roots/list"},
            {"id": "e", "method": "elicitation/create", "params": {"message": "?"}},
            {"method": "notifications/resources/updated", "params": {"uri": "a://b"}},
        ]
        for message in said:
            worker.message(**message)
            assert client.receive() == {"jsonrpc": "2.0", **message}
        for id in (1, "e"):
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "result": {"roots": []}}
            client.send(json.dumps(answer).encode())
            assert worker.hear() == answer
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        client.send(json.dumps(cancel).encode())
        assert worker.hear() == cancel
        worker.message(id="x y", error={"code": -1, "message": "no"})
        assert client.receive()["error"] == {"code": -1, "message": "no"}


def test_the_log_of_a_worker_goes_to_the_clients_standard_error_alone(
    home: Home, hub: PretendHub
) -> None:
    with served(home, hub) as (client, _, worker):
        lines = [{"level": "info", "event": "tool_invoked", "number": each} for each in range(3)]
        for line in lines:
            worker.message(method="notifications/pilothouse/log", params=line)
        worker.message(method="notifications/progress", params={"progressToken": 1})
        assert client.receive()["method"] == "notifications/progress"
        wait_until(lambda: [json.loads(line) for line in client.log().splitlines()] == lines)


def test_a_worker_that_runs_answers_everything(home: Home, hub: PretendHub) -> None:
    with served(home, hub) as (client, _, worker):
        client.send_request("tools/list", {}, 5)
        assert worker.hear()["method"] == "tools/list"
        worker.message(id=5, result={"tools": []})
        assert client.receive()["result"] == {"tools": []}


def test_a_lost_worker_is_told_to_those_who_wait_and_the_next_call_gets_another(
    home: Home, hub: PretendHub
) -> None:
    with served(home, hub) as (client, relay, worker):
        call(client, 2)
        worker.hear()
        call(client, 3)
        worker.hear()
        worker.link.sendall(b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"te')
        worker.close()
        lost = [client.receive(), client.receive()]
        assert [one["id"] for one in lost] == [2, 3]
        assert {one["error"]["message"] for one in lost} == {LOST}
        assert client.request("ping")["result"] == {}
        call(client, 4)
        second = hub.worker(relay)
        assert greeted(second)["id"] == 4
        for id in (4, 5):
            second.message(id=id, result={"content": [{"type": "text", "text": "{}"}]})
        told, untold = client.receive(), client.receive()
        assert [one["text"] for one in told["result"]["content"]] == ["{}", RESET]
        assert [one["text"] for one in untold["result"]["content"]] == ["{}"]


def test_an_idle_worker_that_goes_away_is_missed_by_nobody(home: Home, hub: PretendHub) -> None:
    with served(home, hub) as (client, relay, worker):
        worker.close()
        assert client.request("ping", id=5) == {"jsonrpc": "2.0", "id": 5, "result": {}}
        call(client, 6)
        assert greeted(hub.worker(relay))["id"] == 6


def test_a_hub_that_goes_away_takes_its_workers_along_and_the_next_is_joined(
    home: Home, hub: PretendHub
) -> None:
    with served(home, hub) as (client, relay, worker):
        call(client, 2)
        worker.hear()
        relay.close()
        assert client.receive()["error"]["message"] == LOST
        assert worker.hear() is None
        call(client, 3)
        assert greeted(hub.worker(hub.relay()))["id"] == 3


def test_a_call_is_tried_again_when_the_hub_ends_before_it_named_a_worker(
    home: Home, hub: PretendHub
) -> None:
    with joined(home, hub) as (client, relay):
        call(client)
        assert relay.hear()["worker"] is True
        relay.close()
        again = hub.relay()
        assert greeted(hub.worker(again))["id"] == 7


def test_a_call_fails_in_words_when_no_worker_can_be_reached(home: Home, hub: PretendHub) -> None:
    with joined(home, hub) as (client, relay):
        call(client)
        for _ in range(TRIES):
            assert relay.hear()["worker"] is True
            relay.say(worker={"lines": str(home.folder / "nobody"), "fresh": False})
        assert "before it could be reached" in client.receive()["error"]["message"]
        call(client, 8)
        assert greeted(hub.worker(relay))["id"] == 8


def test_a_fault_of_the_hub_is_the_answer_to_all_that_wait(home: Home, hub: PretendHub) -> None:
    with joined(home, hub) as (client, relay):
        call(client, 7)
        call(client, 8)
        client.send(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}'
        )
        assert client.request("ping")["result"] == {}
        assert relay.hear()["worker"] is True
        relay.say(fault={"message": "all workers are in use", "code": -32603, "retryAfter": 9.6})
        answer = client.receive()
        assert answer["id"] == 7
        assert answer["error"] == {
            "code": -32603,
            "message": "all workers are in use",
            "data": {"retryAfterSec": 10},
        }
        call(client, 9)
        assert greeted(hub.worker(relay))["id"] == 9


def test_a_refusal_is_told_and_the_next_call_asks_again(home: Home, hub: PretendHub) -> None:
    with joined(home, hub) as (client, relay):
        relay.say(refused="too many sessions")
        assert relay.hear() is None
        call(client)
        assert greeted(hub.worker(hub.relay()))["id"] == 7


def test_tools_are_asked_of_the_worker_where_the_hub_serves_others_than_ours(
    home: Home, hub: PretendHub
) -> None:
    with home.raw() as client:
        relay = hub.relay(worker="playwright-mcp")
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        client.send_request("initialize", hello, 1)
        worker = hub.worker(relay)
        assert worker.hear()["params"] == hello
        worker.message(id=1, result={"serverInfo": {"name": "other"}})
        assert client.receive()["result"]["serverInfo"]["name"] == "other"


def test_noise_of_a_worker_does_not_reach_the_client(home: Home, hub: PretendHub) -> None:
    with served(home, hub) as (client, _, worker):
        worker.link.sendall(b'\nDebugger listening\n{"a":1}\n')
        worker.message(id=9, result={})
        assert client.receive() == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_a_picture_of_megabytes_passes_whole(home: Home, hub: PretendHub) -> None:
    picture = "x" * (8 * MIB)
    with served(home, hub) as (client, _, worker):
        sending = aside(lambda: worker.message(id=9, result={"data": picture}))
        assert client.receive() == {"jsonrpc": "2.0", "id": 9, "result": {"data": picture}}
        sending.join()


def test_a_client_that_reads_slowly_has_the_worker_wait(home: Home, hub: PretendHub) -> None:
    piece, times = "x" * MIB, 128
    with served(home, hub) as (client, _, worker):
        sent: list[int] = []

        def flood() -> None:
            for number in range(times):
                worker.message(method="notifications/message", params={"n": number, "d": piece})
                sent.append(number)

        sending = aside(flood)
        wait_until(lambda: _waits(sent))
        assert len(sent) < ROOM // MIB
        assert psutil.Process(client.process.pid).memory_info().rss < ROOM + 64 * MIB
        assert [client.receive()["params"]["n"] for _ in range(times)] == list(range(times))
        sending.join()


def test_a_worker_that_reads_slowly_has_the_client_wait(home: Home, hub: PretendHub) -> None:
    piece, times = b"x" * MIB, 128
    with served(home, hub) as (client, _, worker):
        sent: list[int] = []

        def flood() -> None:
            for number in range(times):
                params = b'{"n":%d,"d":"%b"}' % (number, piece)
                client.send(b'{"jsonrpc":"2.0","method":"notifications/x","params":%b}' % params)
                sent.append(number)

        sending = aside(flood)
        wait_until(lambda: _waits(sent))
        assert len(sent) < ROOM // MIB
        assert psutil.Process(client.process.pid).memory_info().rss < ROOM + 64 * MIB
        assert [worker.hear()["params"]["n"] for _ in range(times)] == list(range(times))
        sending.join()


def _waits(sent: list[int], last: list[int] = [0, 0]) -> bool:  # noqa: B006  # it remembers
    """Whether it has not gone on for a while."""
    if len(sent) != last[0]:
        last[:] = [len(sent), 0]
    last[1] += 1
    return last[0] > 0 and last[1] > 50


def test_answers_under_way_are_written_when_the_client_has_closed(
    home: Home, hub: PretendHub
) -> None:
    with served(home, hub) as (client, relay, worker):
        call(client, 5)
        assert worker.hear()["id"] == 5
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert worker.hear() is None
        worker.message(id=5, result={"late": True})
        assert client.receive() == {"jsonrpc": "2.0", "id": 5, "result": {"late": True}}
        assert client.process.wait(30) == 0
        assert relay.hear() is None


def test_a_client_that_closes_while_a_worker_starts_gets_its_answer(
    home: Home, hub: PretendHub
) -> None:
    with joined(home, hub) as (client, relay):
        call(client, 5)
        assert client.process.stdin is not None
        client.process.stdin.close()
        worker = hub.worker(relay)
        assert greeted(worker)["id"] == 5
        assert worker.hear() is None
        worker.message(id=5, result={})
        assert client.receive()["id"] == 5
        assert client.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_relay_and_so_its_session(
    home: Home, hub: PretendHub, number: signal.Signals
) -> None:
    with served(home, hub) as (client, relay, worker):
        call(client)
        worker.hear()
        client.process.send_signal(number)
        assert client.process.wait(30) == 0
        assert worker.hear() is None
        assert relay.hear() is None


def test_a_client_that_reads_no_more_ends_the_relay(home: Home, hub: PretendHub) -> None:
    with served(home, hub) as (client, relay, worker):
        assert client.process.stdout is not None
        client.process.stdout.close()
        worker.message(method="notifications/message")
        assert client.process.wait(30) == 0
        assert relay.hear() is None


def test_a_client_that_is_killed_does_not_keep_the_worker_that_serves_it(
    home: Home, hub: PretendHub
) -> None:
    with served(home, hub) as (client, relay, worker):
        call(client, 5)
        assert worker.hear()["id"] == 5  # which is never answered
        assert client.process.stdin is not None
        assert client.process.stdout is not None
        client.process.stdin.close()
        client.process.stdout.close()
        assert client.process.wait(30) == 0
        assert relay.hear() is None


def test_a_hub_that_is_silent_is_given_up(home: Home, hub: PretendHub) -> None:
    class Found:
        def look(self) -> socket.socket:
            link = socket.socket(socket.AF_UNIX)
            link.connect(str(home.files.socket))
            return link

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    (asked, ask), (answer, answered) = os.pipe(), os.pipe()
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "status"}}
    os.write(ask, json.dumps(message).encode())
    os.close(ask)
    hello = RelayHello("1", 1, {}, "/")
    try:
        assert Relay(Front(None, "own-"), hello, Found, (asked, answered, 2), 0.2).run() == 0
        told = json.loads(os.read(answer, 1 << 16))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for descriptor in (asked, answer, answered):
            os.close(descriptor)
    assert told["id"] == 3
    assert "the hub does not answer" in told["error"]["message"]


def test_the_hub_is_told_the_settings_and_the_folder(home: Home, hub: PretendHub) -> None:
    with home.raw("--cdp-port", "9333", PILOTHOUSE_ROOTS="/a:/b") as client:
        hello = hub._accept(hub._control).hear()["hello"]
        assert hello["pid"] == client.process.pid
        assert hello["cwd"] == str(ROOT)
        assert hello["settings"]["cdp_port"] == 9333
        assert hello["settings"]["roots"] == ["/a", "/b"]
        assert hello["settings"]["home"] == str(home.folder)
