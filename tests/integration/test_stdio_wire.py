"""The stdio wire: JSON-RPC lines only, whatever a tool, its child or the client does."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.integration.test_edge import ODD_MESSAGES
from tests.support.servers import RawStdio, incidents

MEBIBYTE = 1024 * 1024


def test_noise_of_tools_and_children_never_reaches_stdout() -> None:
    with RawStdio("--profile", "full") as server:
        server.initialize()
        answer = server.request("tools/call", {"name": "makeNoise", "arguments": {}})
        assert answer["result"]["structuredContent"] == {"done": True}
        rest, log = server.close()
    assert rest == b""
    for source in ("print", "fd 1", "a child", "a shell"):
        assert f"noise from {source}" in log


def test_the_log_is_json_lines_with_component_event_and_session() -> None:
    with RawStdio("--profile", "full", env={"LOG_LEVEL": "debug"}) as server:
        server.initialize()
        server.request("tools/call", {"name": "echo_number", "arguments": {"packet_id": 404}})
        _, log = server.close()
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"timestamp", "level", "component", "event"} <= line.keys() for line in lines)
    failed = next(line for line in lines if line["event"] == "error_occurred")
    assert failed["sessionId"] == "stdio"
    assert failed["details"] == {"tool": "echo_number", "code": "target_not_found"}


def test_secrets_in_a_failure_are_masked_in_answer_and_log() -> None:
    signature = "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    token = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{signature}"
    with RawStdio("--profile", "full", "--redact", "hunter[0-9]") as server:
        server.initialize()
        text = f"Authorization: Bearer {token} hunter2"
        failed = server.request("tools/call", {"name": "fail_page", "arguments": {"text": text}})
        crashed = server.request(
            "tools/call", {"name": "echo_code", "arguments": {"text": "crash"}}
        )
        _, log = server.close()
    shown = json.dumps(failed) + json.dumps(crashed) + log
    assert failed["result"]["isError"] is True
    assert token not in shown
    assert "hunter2" not in shown
    assert "[redacted]" in json.dumps(failed)


def test_odd_lines_get_a_valid_error_and_the_next_line_is_served() -> None:
    with RawStdio() as server:
        server.initialize()
        for case, raw in ODD_MESSAGES.items():
            if raw == b"":
                continue  # an empty line is nothing to answer
            server.send(raw)
            answer = server.receive()
            assert answer["error"]["code"] in (-32700, -32600), case
        assert server.request("ping", id=9)["result"] == {}
        rest, log = server.close()
    assert rest == b""
    assert not incidents(log.splitlines())


def test_a_line_over_four_mebibytes_is_refused_and_not_kept() -> None:
    with RawStdio() as server:
        server.initialize()
        server.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (5 * MEBIBYTE) + b'"}')
        assert server.receive()["error"]["code"] == -32600
        assert server.request("ping", id=2)["result"] == {}


def test_a_message_in_single_bytes_and_two_in_one_write_are_all_served() -> None:
    with RawStdio() as server:
        server.initialize()
        stdin = server.process.stdin
        assert stdin is not None
        for byte in b'{"jsonrpc":"2.0","id":5,"method":"ping"}':
            stdin.write(bytes([byte]))
            stdin.flush()
        stdin.write(b"\n\n")
        stdin.flush()
        assert server.receive()["id"] == 5
        two = (
            b'{"jsonrpc":"2.0","id":6,"method":"ping"}\r\n{"jsonrpc":"2.0","id":7,"method":"ping"}'
        )
        server.send(two)
        assert {server.receive()["id"], server.receive()["id"]} == {6, 7}


def test_a_large_answer_arrives_whole_while_the_client_reads_slowly() -> None:
    with RawStdio("--profile", "full") as server:
        server.initialize()
        text = "ä" * 20_000
        answer = server.request(
            "tools/call", {"name": "echo_code", "arguments": {"text": text, "times": 50}}
        )
    assert answer["result"]["structuredContent"]["said"] == [text] * 50


@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT"])
def test_the_server_leaves_with_exit_code_zero(how: str) -> None:
    with RawStdio() as server:
        server.initialize()
        if how == "eof":
            server.close()
        else:
            os.kill(server.process.pid, getattr(signal, how))
        assert server.process.wait(30) == 0


def test_an_incident_is_told_by_id_only_and_logged_in_full() -> None:
    with RawStdio("--profile", "full") as server:
        server.initialize()
        answer = server.request("tools/call", {"name": "echo_code", "arguments": {"text": "crash"}})
        leak = server.request(
            "tools/call", {"name": "leak_page", "arguments": {"text": "secret title"}}
        )
        _, log = server.close()
    error = answer["result"]["structuredContent"]["error"]
    assert error["code"] == "INTERNAL_ERROR"
    assert "secret detail" not in json.dumps(answer)
    found = incidents(log.splitlines())
    assert [line["details"]["incident"] for line in found] == [
        error["details"]["incident"],
        leak["result"]["structuredContent"]["error"]["incident"],
    ]
    assert "secret detail" in found[0]["details"]["error"]
    assert "secret title" not in json.dumps(leak)
