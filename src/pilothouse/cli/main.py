"""The `pilothouse` command: parse, resolve the settings, hand over to wiring/standalone.py.

Nothing heavy is imported here: `--help`, `--version` and mistakes must answer at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pilothouse import __version__
from pilothouse.core.settings import BY_NAME, GROUPS, SETTINGS, BadSetting, Settings, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pilothouse.core.settings import Setting
    from pilothouse.server.groups import AnyGroupSpec
    from pilothouse.wiring.standalone import Extend

EXIT_MISUSE = 2

COMMANDS = {
    "": "serve one MCP client on stdin and stdout (the default)",
    "serve": "serve MCP over HTTP, with a dashboard",
    "observe": "serve only the observe group: console, network and bodies of any Chrome tab",
    "e2e": "serve only the e2e group: dev server and browser sessions",
    "intercept": "serve only the intercept group: record, modify and resend traffic",
    "bookmarks": "serve only the bookmarks group: the user's own Chrome bookmarks",
    "wrap": "run a plain dev server under the contract of a session's server command",
    "chrome": "start a browser that can be observed, with a profile of its own",
    "call": "call one tool and print its answer",
    "token": "print the access token of the intercept group, or with --http that of HTTP clients",
    "pair": "show the code that connects your Chrome, for the bookmarks group",
    "ca": "show, export, install or uninstall the intercepting proxy's certificate authority",
    "doctor": "check this machine and say how to mend what is wrong",
    "status": "show the hub of this home: its sessions and their workers",
    "stop": "end the hub of this home, with all its workers",
    "logs": "show what a hub has logged that a client started",
}


class Misuse(Exception):
    """The command line cannot be understood; the message is one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        if unknown:
            flag = unknown.group(1).split("=", 1)[0]
            known = [option for action in self._actions for option in action.option_strings]
            near = _near(flag, known)
            hint = f"did you mean {near[0]}?" if near else f"`{self.prog} --help` lists the flags"
            message = f"unknown {'flag' if flag.startswith('-') else 'argument'} {flag}; {hint}"
        raise Misuse(message)


def _parser(command: str) -> _Parser:
    summary = COMMANDS[command]
    listed = "\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items() if name)
    parser = _Parser(
        prog=f"pilothouse {command}".strip(),
        description=f"Pilothouse: {summary}."
        if command
        else "Pilothouse: one MCP server to run,"
        " drive, watch and intercept a web app. Without a command it serves one client on stdio.",
        epilog=None
        if command
        else f"commands:\n{listed}\n\n`pilothouse COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pilothouse {__version__}")
    _add_words(parser, command)
    for setting in SETTINGS:
        _add_setting(parser, command, setting)
    return parser


def _add_words(parser: _Parser, command: str) -> None:
    """Add what a command takes beside the settings."""
    if command in ("", "serve"):
        parser.add_argument(
            "--standalone", action="store_true", help="everything in this process, no hub"
        )
    if command == "call":
        parser.add_argument("tool", nargs="?", help="name of the tool; left out, lists them")
        parser.add_argument(
            "json", nargs="?", help="arguments as JSON, or - to read them from stdin"
        )
        parser.add_argument(
            "--structured", action="store_true", help="print the structured content"
        )
        parser.add_argument("--schema", action="store_true", help="print what the tool takes")
    if command == "chrome":
        parser.add_argument("url", nargs="?", default="about:blank", help="page to open")
        parser.add_argument("--headless", action="store_true", help="without a window")
    if command in ("token", "pair"):
        parser.add_argument("--new", action="store_true", help="make another; the old one ends")
    if command == "token":
        parser.add_argument(
            "--http", action="store_true", help="the token of HTTP clients that are asked for one"
        )
    if command == "ca":
        actions = ("show", "export", "install", "uninstall")
        parser.add_argument(
            "action", nargs="?", default="show", choices=actions, help="what to do, default show"
        )
        parser.add_argument("file", nargs="?", help="where to export to; left out, stdout")
    if command in ("doctor", "status"):
        parser.add_argument("--json", action="store_true", help="print it as JSON")
    if command == "logs":
        parser.add_argument("--follow", "-f", action="store_true", help="go on as more is logged")
        parser.add_argument("--lines", "-n", type=int, default=50, help="how many, default 50")


def _add_setting(parser: _Parser, command: str, setting: Setting) -> None:
    flags = setting.flags(command)
    about = setting.about
    default = "" if setting.default in ("", (), None) else f", default {_shown(setting.default)}"
    env = f" [{' or '.join(about.env)}{default}]" if about.env else ""
    unit = f" ({about.unit})" if about.unit and about.unit != "port" else ""
    help = f"{about.help}{unit}{env}".replace("%", "%%")
    if setting.type is bool:
        parser.add_argument(
            *flags,
            dest=setting.name,
            default=None,
            action=argparse.BooleanOptionalAction,
            help=help,
        )
    else:
        parser.add_argument(
            *flags,
            dest=setting.name,
            default=None,
            action="append",
            metavar=about.unit.upper().replace("/", "_") or setting.name.upper(),
            help=help,
        )


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _given(command: str, parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that are given on the command line."""
    given: dict[str, Any] = {}
    for setting in SETTINGS:
        values = getattr(parsed, setting.name)
        if values is None:
            continue
        flag = setting.flags(command)[0]
        if isinstance(values, bool):
            given[setting.name] = values
        elif setting.repeatable:
            given[setting.name] = tuple(
                part for value in values for part in setting.parse(value, flag)
            )
        else:
            given[setting.name] = setting.parse(values[-1], flag)
    return given


def main(
    argv: Sequence[str] | None = None,
    specs: Sequence[AnyGroupSpec] | None = None,
    extend: Extend | None = None,
) -> int:
    """Run a command and return its exit code; misuse is 2, with one line that says what to do."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = words.pop(0) if words and words[0] in COMMANDS else ""
    try:
        if words and not command and not words[0].startswith("-"):
            raise Misuse(_unknown_command(words[0]))
        if command == "wrap" and not {"-h", "--help"} & set(words[:1]):
            # Its words belong to another command, which has flags of its own.
            from pilothouse.cli.wrap import command as wrap

            return wrap.main(resolve({}, os.environ), words)
        parsed = _parser(command).parse_args(words)
        given = _given(command, parsed)
        settings = _with_whole_paths(resolve(given, os.environ))
        return _run(_Request(command, parsed, given, settings), specs, extend)
    except (Misuse, BadSetting) as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130


def _with_whole_paths(settings: Settings) -> Settings:
    """Return the settings with paths that other processes of ours find, wherever these run."""
    given = {name: getattr(settings, name) for name in ("upstream_ca", "client_cert")}
    whole = {
        name: os.path.abspath(os.path.expanduser(path)) for name, path in given.items() if path
    }
    return replace(settings, **whole)


def _unknown_command(word: str) -> str:
    near = _near(word, [name for name in COMMANDS if name])
    hint = f"did you mean {near[0]}?" if near else "`pilothouse --help` lists the commands"
    return f"unknown command {word!r}; {hint}"


def _near(word: str, known: Sequence[str]) -> list[str]:
    """Return the known word that was meant, if that can be guessed."""
    import difflib

    return difflib.get_close_matches(word, known, n=1)


def _refuse(line: str) -> int:
    sys.stderr.write(f"pilothouse: {line}\n")
    return EXIT_MISUSE


class _Request(NamedTuple):
    """Command with what it is given; a tuple, as that is quickly made at every start."""

    command: str
    parsed: argparse.Namespace
    given: dict[str, Any]
    """Settings that are given on the command line."""
    settings: Settings


def _run(request: _Request, specs: Sequence[AnyGroupSpec] | None, extend: Extend | None) -> int:
    command, parsed, settings = request.command, request.parsed, request.settings
    if command == "doctor":
        from pilothouse.cli.doctor import checks

        return checks.main(settings, as_json=parsed.json)

    check_home(settings)
    if command in ("chrome", "token", "pair", "ca"):
        return _run_alone(request)

    if command in GROUPS:
        settings = _for_group(settings, command)

    if command in ("", "bookmarks") and specs is None:
        ended = _relay(command, settings, standalone=getattr(parsed, "standalone", False))
        if ended is not None:
            return ended

    if command in ("status", "stop", "logs"):
        from pilothouse.cli import hub as hub_commands

        return hub_commands.main(command, settings, parsed)

    return _serve(request._replace(settings=settings), specs, extend)


def _run_alone(request: _Request) -> int:
    """Run a command that needs neither the hub nor the groups."""
    command, parsed, settings = request.command, request.parsed, request.settings
    if command == "chrome":
        from pilothouse.cli import chrome

        return chrome.main(settings, parsed.url, headless=parsed.headless)

    if command == "token":
        from pilothouse.cli import token

        return token.main(settings, new=parsed.new, http=parsed.http)

    if command == "pair":
        from pilothouse.cli import pair

        return pair.main(settings, new=parsed.new)

    from pilothouse.cli import ca

    return ca.main(settings, parsed.action, parsed.file)


def _serve(request: _Request, specs: Sequence[AnyGroupSpec] | None, extend: Extend | None) -> int:
    """Serve clients, or the one call of a command."""
    command, parsed, settings = request.command, request.parsed, request.settings
    from pilothouse.wiring import standalone as app
    from pilothouse.wiring.groups import GROUP_SPECS

    served = GROUP_SPECS if specs is None else specs
    try:
        if command == "call":
            from pilothouse.cli import call

            return call.main(settings, served, parsed)
        if command == "serve" or settings.transport == "http":
            if command in ("", "serve") and specs is None and not parsed.standalone:
                from pilothouse.hub import start as hub

                return hub.serve_hub(settings, request.given, announce)
            exact = bool(request.given.keys() & {"http_port", "e2e_http_port"})
            return app.serve_http(settings, served, extend, announce, exact_port=exact)
        return app.serve_stdio(settings, served, extend)
    except app.StartError as error:
        return _refuse(str(error))


def _for_group(settings: Settings, group: str) -> Settings:
    """Return the settings of a process that serves one group alone."""
    port = settings.e2e_http_port if group == "e2e" else settings.http_port
    return replace(settings, tools=(group,), profile="full", http_port=port)


def _relay(command: str, settings: Settings, *, standalone: bool) -> int | None:
    """Serve the client through the hub; return None if it is served in this process.

    There is one socket for the user's Chrome: where a hub has it, bookmarks are reached by the hub.
    """
    if not joins_hub(settings, standalone=standalone):
        return None
    from pilothouse.relay import start

    if command == "bookmarks" and not start.finds_hub(settings):
        return None
    return start.relay_stdio(settings)


def joins_hub(settings: Settings, *, standalone: bool) -> bool:
    """Return whether a client on stdio is served by the hub. Not one that wants the metrics of its
    own process on a port: a relay has none, and a worker is not there from the start."""
    return not standalone and settings.transport == "stdio" and settings.metrics_port < 0


def check_home(settings: Settings) -> None:
    """Make the folder for all state, if one is named. Raises BadSetting if it cannot be used."""
    if not settings.home:
        return
    from pilothouse.machine.folders import OpenToOthers, open_home

    variable = BY_NAME["home"].about.env[0]
    try:
        open_home(settings.home)
    except OpenToOthers as error:
        raise BadSetting(f"{variable}: {error}") from None
    except OSError as error:
        raise BadSetting(
            f"{variable}: {settings.home} cannot be made ({error.strerror});"
            " name a folder that you may write"
        ) from None
    if not os.access(settings.home, os.W_OK | os.X_OK):
        raise BadSetting(f"{variable}: {settings.home} cannot be written; name another folder")


def announce(url: str, write: Callable[[str], object] | None = None) -> None:
    """Print what a person who started the server wants to know."""
    from pilothouse.core.snippets import snippets

    lines = [f"Pilothouse {__version__} is serving on {url}", ""]
    lines += [f"  MCP      {url}/mcp", f"  page     {url}/", "", "Paste one line into your client:"]
    lines += [f"  {name:26}{line}" for name, line in snippets(url).items()]
    lines += ["", "Stop with Ctrl-C."]
    (write or sys.stderr.write)("\n".join(lines) + "\n")
