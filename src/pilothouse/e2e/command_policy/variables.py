"""Judges variables of a started program: they may not make it load or run something else.

Servers take their options from variables, too: uvicorn all of them. One that names an app, a module
or a class is judged like the argument; those of uvicorn that are not known to be plain are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.e2e.command_policy.apps import check_app, check_class, check_module
from pilothouse.e2e.command_policy.own_code import Unfit
from pilothouse.e2e.command_policy.program_file import SETTING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pilothouse.e2e.command_policy.own_code import CommandPlace

_INJECTING = frozenset(
    "PATH HOME SHELL IFS ENV BASH_ENV BASHOPTS SHELLOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE"
    " ZDOTDIR NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE RUBYOPT RUBYLIB GEM_PATH GEM_HOME"
    " PERL5OPT PERL5LIB PERLLIB PERL5DB PHPRC PHP_INI_SCAN_DIR JAVA_TOOL_OPTIONS _JAVA_OPTIONS"
    " JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH MAVEN_OPTS GRADLE_OPTS MAKEFLAGS GNUMAKEFLAGS MAKEFILES"
    " GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES LUA_INIT LUA_PATH LUA_CPATH DOTNET_STARTUP_HOOKS"
    " EDITOR VISUAL PAGER BROWSER ELIXIR_ERL_OPTIONS RUSTC_WRAPPER OPENSSL_CONF SSLKEYLOGFILE"
    " TMPDIR GOFLAGS GOROOT GOPATH GOTOOLCHAIN NODE_COMPILE_CACHE ESBUILD_BINARY_PATH VIRTUAL_ENV"
    " CONDA_PREFIX XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS GUNICORN_CMD_ARGS"
    " OPENSSL_ENGINES OPENSSL_MODULES"
    " R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER R_LIBS R_LIBS_USER TCLLIBPATH"
    " BASH_LOADABLES_PATH".split()
)
_INJECTING_PREFIXES = (
    "LD_", "DYLD_", "PYTHON", "NPM_CONFIG_", "YARN_", "PNPM_", "BUN_", "DENO_", "COREPACK_",
    "GIT_", "BASH_FUNC_", "BUNDLE_", "UV_", "PIP_", "POETRY_", "ERL_", "CORECLR_", "COR_",
    "LUA_INIT_", "CARGO_", "TS_NODE_", "JULIA_", "UVICORN_",
)  # fmt: skip
_OF_UVICORN = (
    "HOST PORT UDS FD RELOAD RELOAD_DIRS RELOAD_INCLUDES RELOAD_EXCLUDES RELOAD_DELAY WORKERS"
    " HTTP2 WS_MAX_SIZE WS_MAX_QUEUE WS_PING_INTERVAL WS_PING_TIMEOUT WS_PER_MESSAGE_DEFLATE"
    " LIFESPAN INTERFACE LOG_LEVEL ACCESS_LOG USE_COLORS PROXY_HEADERS SERVER_HEADER DATE_HEADER"
    " FORWARDED_ALLOW_IPS ROOT_PATH LIMIT_CONCURRENCY BACKLOG LIMIT_MAX_REQUESTS"
    " LIMIT_MAX_REQUESTS_JITTER TIMEOUT_KEEP_ALIVE TIMEOUT_GRACEFUL_SHUTDOWN"
    " TIMEOUT_WORKER_HEALTHCHECK SSL_KEYFILE SSL_CERTFILE SSL_KEYFILE_PASSWORD SSL_VERSION"
    " SSL_CERT_REQS SSL_CA_CERTS SSL_CIPHERS HEADERS H11_MAX_INCOMPLETE_EVENT_SIZE"
    " RESET_CONTEXTVARS FACTORY"
)
_HARMLESS = frozenset(
    "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 PYTHONIOENCODING PYTHONHASHSEED"
    " PYTHONFAULTHANDLER".split()
).union(f"UVICORN_{option}" for option in _OF_UVICORN.split())


def _check_file(given: str, place: CommandPlace, _bases: Sequence[Path]) -> None:
    place.check_inside(given)


_JUDGED: dict[str, Callable[[str, CommandPlace, Sequence[Path]], None]] = {
    **dict.fromkeys(("FLASK_APP", "QUART_APP", "UVICORN_APP"), check_app),
    **dict.fromkeys(("UVICORN_LOOP", "UVICORN_HTTP", "UVICORN_WS"), check_class),
    "DJANGO_SETTINGS_MODULE": check_module,
    "FLASK_ENV_FILE": _check_file,
}
"""Variables that name code to load, which may be the session's own."""


def check_variable(name: str, value: str, place: CommandPlace, bases: Sequence[Path] = ()) -> None:
    """Check a variable that a program would be started with, which looks for modules in `bases`.

    Raises:
        Unfit: it can make the program run other code.
        Outside: what it names does not lie in the folders of the session.
    """
    # Some programs, and some systems, do not tell the cases of a name apart.
    name = name.upper()
    if judge := _JUDGED.get(name):
        if value:  # an empty one is none
            judge(value, place, bases)
    elif name in _INJECTING or (name.startswith(_INJECTING_PREFIXES) and name not in _HARMLESS):
        unfit = Unfit("it can make a program run other code")
        unfit.hint = f"Leave it out, or set it inside a command that {SETTING} lists."
        raise unfit
