"""What no call may do to the machine, whatever was drawn for it.

Only these commands are ever started, only loopback is asked, and nothing waits long: a call that
takes its full 30 seconds because it was told to says nothing about hanging.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

WAIT_MS = 400
START_MS = 15_000
DEEP = 50
COMMANDS: tuple[list[str], ...] = (
    [sys.executable, "<files>/shop/server.py"],
    ["true"],
    ["false"],
    ["sleep", "30"],
    ["echo", "listening on http://127.0.0.1:1"],
    ["<files>/missing"],
    ["<files>/upload.txt"],
    ["x" * 5_000],
    ["/" + "y/" * 3_000],
    [""],
    [],
)
"""What startSession may be told to run."""
CONTRACT = ("/bin/true", "/bin/false", "<files>/missing", "<files>", "", "\x00", "true", "z" * 400)
FOLDERS = ("<files>/shop", "<files>", "..", "/", "<files>/missing", "x" * 5_000, "a\0b")
ENVIRONMENT = {"PORT": "0", "FUZZ": "\u202e\n", "LC_FUZZ": "x"}

_WAITS = {
    "timeout": WAIT_MS,
    "timeout_ms": 1_000,
    "interval_ms": 10,
    "delayMs": 50,
    "delay_ms": 50,
    "count": 20,
    "maxSeconds": 2,
    "cpuSlowdown": 4,
    "times": 3,
}
_ADDRESS = re.compile(r"(?i)\b(https?|wss?):(//)?([^/?#\s]*)")
_LOCAL = re.compile(
    r"(?i)(.*@)?(127\.0\.0\.1|localhost|\[::1\]?|\[::ffff:169\.254\.169\.254\]|169\.254\.169\.254"
    r"|0x7f\.1|[\w.-]*\.invalid|<app>|xn--|a\x00b|)(:\d*)?"
)
LISTENERS = ("HTTP_PROXY", "FORWARDER", "SSL_FORWARDER", "QUIC_FORWARDER", "UDP_FORWARDER", "X")


def harmless(tool: str, arguments: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return arguments that do nothing to the machine, as odd as they were else."""
    kept = {name: _tamed(value) for name, value in arguments.items()}
    for name, most in _WAITS.items():
        value = kept.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > most:
            kept[name] = most
    if tool in _PATIENT and "timeout" not in kept:
        kept["timeout"] = WAIT_MS
    if tool == "startSession":
        _start(kept, random)
    if tool == "update_config":
        kept["config_json"] = _config(kept.get("config_json"), random)
    if "access_token" in kept and random.random() < 0.98:
        # Ten wrong ones a minute lock out for the rest of it, and nothing else would be tried.
        kept["access_token"] = "<token>"
    if tool == "evaluate" and isinstance(kept.get("script"), str):
        kept["script"] = kept["script"][:200_000]
    return kept


_PATIENT = frozenset(
    {
        *("navigate", "click", "type", "fillForm", "selectOption", "pressKey", "hover", "drag"),
        *("uploadFile", "screenshot", "snapshot", "find", "evaluate", "getContent", "waitFor"),
        "waitForSelector",
    }
)


def _start(arguments: dict[str, Any], random: Random) -> None:
    """Replace all that would be run. What is no command by its type is refused anyway."""
    command = list(random.choice(COMMANDS))
    if "command" in arguments and _is_texts(arguments["command"]):
        arguments["command"] = command
    if isinstance(arguments.get("commandPath"), str):
        arguments["commandPath"] = random.choice(CONTRACT)
    if "args" in arguments and _is_texts(arguments["args"]):
        arguments["args"] = arguments["args"][:5]
    if isinstance(arguments.get("env"), dict):
        arguments["env"] = ENVIRONMENT
    if isinstance(arguments.get("cwd"), str):
        arguments["cwd"] = random.choice(FOLDERS)
    for service in arguments.get("services") or () if _is_list(arguments, "services") else ():
        if isinstance(service, dict):
            service["command"] = list(random.choice(COMMANDS))
            service.pop("env", None)
            service["cwd"] = "<files>/shop"
    arguments["timeout"] = START_MS if random.random() < 0.2 else 1_000
    arguments.pop("cdp", None) if random.random() < 0.5 else None
    if isinstance(arguments.get("cdp"), str):
        arguments["cdp"] = random.choice(("127.0.0.1:<hostile>", "127.0.0.1:1", "x", ":", ""))


def _is_list(arguments: dict[str, Any], name: str) -> bool:
    return isinstance(arguments.get(name), list)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _config(drawn: Any, random: Random) -> Any:
    """Return a configuration whose listeners are on free ports and lead nowhere else."""
    if drawn != "<config>" and random.random() < 0.5 and not isinstance(drawn, dict):
        return drawn
    listener = {
        "id": random.choice((1, 2, 1, -1, 10**9)),
        "enabled": random.random() < 0.7,
        "ca_name": random.choice(("PacketProxy per-user CA", "", "\u202e")),
        "port": random.choice(("<free:0>", "<free:1>", 0, -1, 65536, "80", None)),
        "type": random.choice(LISTENERS),
        "server_id": random.choice((-1, 1, 99)),
    }
    server = {
        "id": 1,
        "ip": random.choice(("127.0.0.1", "localhost", "nobody.invalid", "")),
        "port": random.choice((1, 0, 65536)),
        "encoder": random.choice(("HTTP", "x")),
        "use_ssl": random.random() < 0.3,
        "http_proxy": random.random() < 0.3,
    }
    edit = {
        "id": 1,
        "enabled": True,
        "server_id": random.choice((-1, 1, 7)),
        "direction": random.choice(("ALL", "CLIENT_REQUEST", "SERVER_RESPONSE", "x")),
        "pattern": random.choice(("(a+)+$", "cart", "[", "\\x", "")),
        "replaced": random.choice(("", "$1", "\\0", "{{random}}")),
        "method": random.choice(("SIMPLE", "REGEX", "BINARY", "x")),
    }
    config: dict[str, Any] = {
        "listenPorts": [listener][: random.randrange(2)],
        "servers": [server][: random.randrange(2)],
        "modifications": [edit][: random.randrange(2)],
        "sslPassThroughs": [],
    }
    if random.random() < 0.1:
        config[random.choice((*config, "x"))] = random.choice((None, {}, [1], "x", [[]]))
    return config


def _tamed(value: Any) -> Any:
    """Return a value without addresses of other machines."""
    if _depth(value) >= DEEP:
        return value  # nothing but brackets
    if isinstance(value, dict):
        return {name: _tamed(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_tamed(one) for one in value]
    return _ADDRESS.sub(_local, value) if isinstance(value, str) else value


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, dict | list) and value and depth < DEEP:
        value = next(iter(value.values() if isinstance(value, dict) else value))
        depth += 1
    return depth


def _local(found: re.Match[str]) -> str:
    if _LOCAL.fullmatch(found[3]):
        return found[0]
    return f"{found[1]}://nobody.invalid"
