"""What a session may start: which command, in which folder, with which environment.

A command is judged by its real path, the end of every link. With SERVER_COMMAND_PATH set only what
it lists may run, and then a listed interpreter or package runner takes no code on its command line:
such flags would turn one allowed program into any. Without it, development allows every program
that others cannot have written, production allows none.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.child_env import server_environment
from pilothouse.core.faults import InvalidInput
from pilothouse.e2e.model import CommandNotAllowed, ServerStartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SETTING = "SERVER_COMMAND_PATH"
MOST_LINKS = 40
"""As many as Linux itself follows."""


def check_command(
    name_or_path: str,
    args: Sequence[str] = (),
    *,
    search_path: str,
    allowed: tuple[str, ...] | None,
    production: bool,
    base: Path | None = None,
) -> Path:
    """The absolute path to run. `base` is where a relative path starts; without, it is refused.

    Raises:
        InvalidInput: an empty or impossible name.
        CommandNotAllowed: it may not be started, or not with these arguments.
        ServerStartFailed: it is not there, or cannot be executed; `cause` says which.
    """
    if not name_or_path or any("\0" in word for word in (name_or_path, *args)):
        raise InvalidInput(
            "A command is a path or a name without zero bytes.", field="command", expected="path"
        )
    if allowed is None and production:
        raise _refused(
            name_or_path,
            "in production only what the server's owner has listed may be",
        )
    path = _located(name_or_path, search_path, base)
    real = Path(os.path.realpath(path))
    runs = path
    if allowed is not None:
        listed = _listed(real, allowed)
        if listed is None:
            raise _refused(str(path), "it is not on the list of allowed commands", real)
        # Under the name that was listed: some programs do different things by different names.
        runs = listed
    _check_file(path, real)
    if allowed is not None:
        for name in {_plain(path.name), _plain(real.name), _plain(runs.name)}:
            if reason := _widens(name, args):
                raise CommandNotAllowed(
                    f"{path} may not be started with these arguments: {reason}.",
                    hint="Pass a script file or a script's name, or have the program itself "
                    f"listed in {SETTING}.",
                    path=str(path),
                    setting=SETTING,
                )
    return runs


def check_cwd(cwd: str, roots: Sequence[Path]) -> Path:
    """The real folder to run in, which lies in one of the roots; the first of them by default.

    Raises:
        CommandNotAllowed: it lies elsewhere.
        InvalidInput: it is not a folder.
    """
    if "\0" in cwd:
        raise InvalidInput("A folder's name has no zero bytes.", field="cwd", expected="folder")
    folder = Path(os.path.realpath(roots[0] / cwd))
    if not any(folder.is_relative_to(os.path.realpath(root)) for root in roots):
        raise CommandNotAllowed(
            f"Nothing may be started in {cwd}: it lies outside the folders of this session.",
            hint=f"Use a folder in {', '.join(map(str, roots))}, or start Pilothouse there, or "
            "add the folder to PILOTHOUSE_ROOTS.",
            cwd=cwd,
            setting="PILOTHOUSE_ROOTS",
        )
    if not os.path.isdir(folder):  # which takes names that no system takes
        raise InvalidInput(f"{cwd} is not a folder.", field="cwd", expected="an existing folder")
    return folder


def child_env(
    environ: Mapping[str, str], extra: Mapping[str, str], port: int = 0, *, restricted: bool
) -> dict[str, str]:
    """The environment of a started command: what servers get of ours, `extra`, and PORT.

    `restricted` (a list of allowed commands, or production) refuses variables that make a program
    load or run something else than what was allowed.

    Raises:
        InvalidInput: not the name or value of a variable.
        CommandNotAllowed: a variable that may not be set.
    """
    for name, value in extra.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidInput(
                f"{name!r} cannot be an environment variable.",
                field="env",
                expected="names without '=', values without zero bytes",
            )
        if restricted and _injects(name.upper()):
            raise CommandNotAllowed(
                f"The variable {name} may not be set: it can make a program run other code.",
                hint="Leave it out of env, or set it inside the command itself.",
                variable=name,
                setting=SETTING,
            )
    return {**server_environment(environ), **extra, **({"PORT": str(port)} if port else {})}


# Files


def _located(given: str, search_path: str, base: Path | None) -> Path:
    if "/" not in given:
        for folder in search_path.split(":"):
            # An empty or relative entry would be the current folder.
            candidate = Path(folder, given)
            is_file = candidate.is_absolute() and os.path.isfile(candidate)
            if is_file and os.access(candidate, os.X_OK):
                return candidate
        raise _missing(given, f"no program {given} is on PATH")
    if os.path.isabs(given):
        return Path(given)
    if base is None:
        raise _refused(given, "the path is not absolute", hint="Give the whole path, from /.")
    return base / given


def _listed(real: Path, allowed: tuple[str, ...]) -> Path | None:
    """The command as the list has it."""
    for entry in allowed:
        if not os.path.isabs(entry):
            continue
        target = os.path.realpath(entry)
        if entry.endswith("/"):
            if real.is_relative_to(target):
                return real
        elif real == Path(target):
            return Path(entry)
    return None


def _check_file(path: Path, real: Path) -> None:
    try:
        reason = next(_weak_spots(path), "")
        info = real.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(str(path), f"there is no file {path}") from None
    except PermissionError:
        raise _not_executable(path) from None
    except OSError as error:
        raise _refused(str(path), error.strerror or "it cannot be read", real) from None
    if reason:
        raise _refused(
            str(path), reason, real, hint="Take the write permission away: chmod o-w, or move it."
        )
    if not stat.S_ISREG(info.st_mode) or not os.access(real, os.X_OK):
        raise _not_executable(path)
    if info.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise _refused(
            str(path), "it would run as another user, so that it could not be stopped", real
        )


def _weak_spots(path: Path) -> Iterator[str]:
    """Where somebody else could put another program in this one's place."""
    ours = {0, os.geteuid()}
    shared = False
    for entry in _entries(path):
        info = entry.lstat()
        if shared and info.st_uid not in ours:
            yield f"{entry} is another user's, in a folder that everybody can write"
        shared = False
        if stat.S_ISLNK(info.st_mode):
            continue
        if info.st_mode & stat.S_IWOTH:
            # In a folder such as /tmp everybody may add, but not replace what is not theirs.
            shared = stat.S_ISDIR(info.st_mode) and bool(info.st_mode & stat.S_ISVTX)
            if not shared:
                yield f"everybody can write {entry}"


def _entries(path: Path) -> Iterator[Path]:
    """Every folder, link and file that the kernel passes on the way to what a path names."""
    waiting = list(reversed(path.parts[1:]))
    current = Path("/")
    links = 0
    yield current
    while waiting:
        part = waiting.pop()
        if part == "..":
            current = current.parent
            yield current
            continue
        entry = current / part
        yield entry
        if not entry.is_symlink():
            current = entry
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError("too many links")
        target = entry.readlink()
        if target.is_absolute():
            current = Path("/")
            yield current
        else:
            # Whoever follows goes on from the folder that the link lies in.
            yield current
        waiting += reversed([part for part in target.parts if part != "/"])


def _refused(given: str, reason: str, real: Path | None = None, hint: str = "") -> Exception:
    where = f" ({real})" if real is not None and str(real) != given else ""
    return CommandNotAllowed(
        f"{given}{where} may not be started: {reason}.",
        hint=hint or f"The server's owner allows commands by listing their paths in {SETTING}.",
        path=given,
        setting=SETTING,
    )


def _missing(path: str, reason: str) -> ServerStartFailed:
    return ServerStartFailed(
        f"The command cannot be started: {reason}.",
        hint="Check the path, or give the program's whole path.",
        cause={"type": "command_not_found", "path": path},
    )


def _not_executable(path: Path) -> ServerStartFailed:
    return ServerStartFailed(
        f"The command cannot be started: {path} is not an executable file.",
        hint="Make it executable (chmod +x) or name another command.",
        cause={"type": "permission_denied", "path": str(path)},
    )


# Arguments


@dataclass(frozen=True, slots=True)
class _Runner:
    """What a program that runs code may be told; any other option of its own is refused.

    A list of what is dangerous would never be complete: options are refused unless known.
    """

    flags: str = ""
    """Options that stand alone; one ending in * stands for all that begin so."""
    valued: str = ""
    """Options that take the next word."""
    verbs: str = ""
    """The first operand is one of these; a second says what it is done to."""
    scripts: str = ""
    """Or it is one of these: what follows is not the program's own any more."""
    modules: bool = False
    """`-m NAME` runs a module."""
    programs: bool = False
    """The operand is a program, whose own arguments are judged as well."""
    options_anywhere: bool = False
    """Its options are taken from between and after the operands as well, up to `--`."""


_SHELL = _Runner(flags="-e -u -x -eu -ex -ux -eux -l --login --norc --noprofile --posix")
_PYTHON = _Runner(flags="-u -B -E -I -O -OO -q -s -S", modules=True)
_NODE = _Runner(
    flags="--watch --watch-preserve-output --enable-source-maps --no-warnings --trace-warnings"
    " --no-deprecation --max-old-space-size=* --test"
)
_FETCHED = _Runner(flags="-y --yes --no --no-install -q --quiet", programs=True)
_IN_ENVIRONMENT = _Runner(verbs="run", programs=True)
_SCRIPTS = _Runner(
    flags="-s --silent",
    verbs="run run-script",
    scripts="start test dev serve preview build",
    programs=True,
)
_MAKE = _Runner(flags="-s -k -B", options_anywhere=True)
_PLAIN = _Runner()

_RUNNERS = {
    **dict.fromkeys("sh ash dash bash rbash zsh ksh mksh yash fish csh tcsh pwsh".split(), _SHELL),
    **dict.fromkeys(("python", "pypy", "pythonw", "ipython"), _PYTHON),
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node", "nodemon", "electron"), _NODE),
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx"), _FETCHED),
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "rye", "hatch", "pipx"), _IN_ENVIRONMENT),
    **dict.fromkeys(("yarn", "yarnpkg", "pnpm"), _SCRIPTS),
    "npm": _Runner(
        flags="-s --silent -q --quiet --if-present",
        verbs="run run-script start test",
        options_anywhere=True,
    ),
    "bun": _Runner(flags="--watch --hot", verbs="run", scripts="start dev", programs=True),
    "deno": _Runner(flags="-A --watch --allow-* --deny-*", verbs="run serve task"),
    "bundle": _Runner(verbs="exec", programs=True),
    "php": _Runner(valued="-S -t"),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    **dict.fromkeys(
        "ruby irb perl lua luajit rscript r julia tclsh wish guile racket elixir erl iex groovy"
        " scala osascript jshell swift ghci runghc runhaskell ocaml raku".split(),
        _PLAIN,
    ),
}

# Programs whose arguments are another program, or code, by their nature: no way to use them is
# narrower than the list.
_LAUNCHERS = frozenset(
    "env xargs nohup nice ionice chrt taskset timeout time setsid stdbuf sudo doas su runuser"
    " setpriv capsh chroot unshare nsenter flock watch parallel find strace ltrace gdb lldb script"
    " expect ssh corepack busybox toybox tmux screen awk gawk mawk nawk sed vi vim nvim emacs ed ex"
    " less more man git tar rsync socat docker podman systemd-run start-stop-daemon at batch"
    " cross-env dotenv env-cmd concurrently npm-run-all ld.so ld-linux ld-musl".split()
)
_CODE_MODULES = frozenset(
    "timeit pdb code cProfile profile trace idlelib idlelib.idle IPython pip".split()
)
_PACKAGE = re.compile(r"(@[\w.-]+/)?[\w.-]+(@[\w.^~-]+)?")
_VERSIONED = re.compile(r"([a-z][a-z_-]*?)[-_.]?\d")
_SCRIPT_SUFFIX = re.compile(r"(-cli)?\.(exe|js|cjs|mjs)$")


def _plain(name: str) -> str:
    """A program's name without version and suffix: python3.13 is python, npm-cli.js is npm."""
    name = _SCRIPT_SUFFIX.sub("", name.lower())
    if name.startswith(("ld-linux", "ld-musl")):
        return name[:8].rstrip("-")
    found = _VERSIONED.match(name)
    return found[1] if found and found[1] in _RUNNERS.keys() | _LAUNCHERS else name


def _widens(name: str, args: Sequence[str]) -> str:
    """Why these arguments could make a listed program run anything; empty if they could not."""
    if name in _LAUNCHERS:
        return f"{name} starts any other program"
    runner = _RUNNERS.get(name)
    if runner is None:
        return ""
    words = list(args)
    if runner.options_anywhere:
        own = words[: words.index("--")] if "--" in words else words
        for word in own:
            if word.startswith("-") and not _known(word, runner.flags):
                return f"{name} takes no {word} here"
            if runner is _MAKE and "=" in word:
                return f"{name} takes no variables here"
        words = [word for word in words if not word.startswith("-")]
    if reason := _skip_options(name, runner, words):
        return reason
    if not words:
        return ""
    if runner.verbs:
        if words[0] in runner.scripts.split():
            return ""
        if words[0] not in runner.verbs.split():
            return f"{name} {words[0]} is not one of: {runner.verbs} {runner.scripts}".rstrip()
        del words[0]
        if reason := _skip_options(name, runner, words):
            return reason
    return _operand(name, runner, words)


def _skip_options(name: str, runner: _Runner, words: list[str]) -> str:
    """Takes the known options off the front; why the first unknown one is refused."""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-m" and runner.modules:
            module = words[0] if words else ""
            words.clear()  # what follows is the module's
            return f"{name} -m {module} takes code" if module in _CODE_MODULES else ""
        if option in runner.valued.split():
            del words[:1]
        elif not _known(option, runner.flags):
            return f"{name} takes no {option} here"
    return ""


def _known(option: str, flags: str) -> bool:
    return any(
        option.startswith(flag[:-1]) if flag.endswith("*") else option == flag
        for flag in flags.split()
    )


def _operand(name: str, runner: _Runner, words: list[str]) -> str:
    if not words:
        return ""
    what, *rest = words
    if "://" in what or what.startswith(("data:", "node:", "npm:", "jsr:")):
        return f"{name} would run code from {what}"
    if not runner.programs:
        return ""
    if runner is _FETCHED and not _PACKAGE.fullmatch(what):
        return f"{what} is not the name of a package"
    program = what.rpartition("/")[2] if not what.startswith("@") else what
    return _widens(_plain(program.partition("@")[0] or program), rest)


# Variables

_INJECTING = frozenset(
    "PATH HOME SHELL IFS ENV BASH_ENV BASHOPTS SHELLOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE"
    " ZDOTDIR NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE RUBYOPT RUBYLIB GEM_PATH GEM_HOME"
    " PERL5OPT PERL5LIB PERLLIB PERL5DB PHPRC PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS _JAVA_OPTIONS"
    " JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH MAVEN_OPTS GRADLE_OPTS MAKEFLAGS GNUMAKEFLAGS MAKEFILES"
    " GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES LUA_INIT LUA_PATH LUA_CPATH DOTNET_STARTUP_HOOKS"
    " EDITOR VISUAL PAGER BROWSER ELIXIR_ERL_OPTIONS RUSTC_WRAPPER OPENSSL_CONF SSLKEYLOGFILE"
    " TMPDIR GOFLAGS GOROOT GOPATH GOTOOLCHAIN".split()
)
_INJECTING_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "NPM_CONFIG_", "YARN_", "PNPM_", "BUN_", "DENO_", "COREPACK_",
    "GIT_", "BASH_FUNC_", "BUNDLE_", "UV_", "PIP_", "POETRY_", "ERL_", "CORECLR_", "COR_",
    "LUA_INIT_", "CARGO_",
)  # fmt: skip
_HARMLESS = frozenset(
    "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 PYTHONIOENCODING PYTHONHASHSEED"
    " PYTHONFAULTHANDLER".split()
)


def _injects(name: str) -> bool:
    return name in _INJECTING or (name.startswith(_INJECTING_PREFIXES) and name not in _HARMLESS)
