"""Which variables a process gets that we start: one list, of which each kind gets its part. Pure.

Nothing else is inherited. A terminal holds the keys of clouds, models and repositories, and what
we start is often somebody else's code: a dev server with its packages, a browser, an MCP server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pilothouse.core.settings import SETTINGS, BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR")
ALL_FAMILY = "LC_"
LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables for where our own Python may find its libraries; it starts a session's browser."""
SCREEN = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XAUTHORITY")
"""Variables for a window. The last names the file without which an X server lets nobody in."""
DESKTOP = ("XDG_CURRENT_DESKTOP", "GTK_IM_MODULE", "XMODIFIERS")
"""Variables for a window in which a person types."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
NPM_ADDRESSES = ("https_proxy", "proxy", "registry")
NPM_OTHERS = (
    *("audit", "cache", "cafile", "fund", "globalconfig", "ignore_scripts", "loglevel", "noproxy"),
    *("offline", "prefer_offline", "prefix", "strict_ssl", "update_notifier", "userconfig"),
)
"""npm's settings by their names: others of its variables hold tokens and keys."""
OWN = (
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    *("PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONDEVMODE"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PLAYWRIGHT_NODEJS_PATH"),
)
"""Variables for our own code alone: its folders, modules, trusted CAs, its driver's Node.js."""


def _spellings(prefix: str, names: Iterable[str]) -> frozenset[str]:
    """Return names with a prefix as they are written in either case."""
    return frozenset(one for name in names for one in ((prefix + name).upper(), prefix + name))


_PROXIES = _spellings("", PROXIES)
_ADDRESSES = _PROXIES | _spellings("npm_config_", NPM_ADDRESSES)
_SCREEN = frozenset((*LIBRARIES, *SCREEN))
_WORKER = _ADDRESSES | _spellings("npm_config_", NPM_OTHERS) | {"PLAYWRIGHT_BROWSERS_PATH"}
_OWN_SECRETS = frozenset(name for one in SETTINGS if one.about.secret for name in one.about.env)
_CREDENTIALS = re.compile(r"^([a-z][a-z0-9+.-]*://)?[^/?#]*@", re.IGNORECASE)
_NAME = re.compile(r"[^=\0\s]+")


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a dev server or a command of the contract gets of our environment."""
    return _chosen(environ, frozenset())


def browser_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a session's browser gets."""
    return _chosen(environ, _SCREEN)


def window_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a browser gets that a person uses."""
    return _chosen(environ, _SCREEN | _PROXIES | set(DESKTOP))


def worker_environment(environ: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return what other people's server gets as a worker; `named` are variables let through."""
    return {**_chosen(environ, _WORKER), **_named(environ, named)}


def own_environment(environ: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return what a process of our own code gets: it may start all of the others."""
    return {**_chosen(environ, _WORKER | _SCREEN | set(OWN)), **_named(environ, named)}


def without_own_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return all but what is ours, for a command that somebody runs through us in a terminal."""
    return {name: value for name, value in environ.items() if not is_own(name)}


def is_own(name: str) -> bool:
    """Tell whether a variable is ours and nobody else's."""
    return "PILOTHOUSE" in name.upper() or name.upper() in _OWN_SECRETS


def check_named(names: Iterable[str]) -> None:
    """Check the variables that are to be let through.

    Raises:
        BadSetting: not a variable's name, or one of our own.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadSetting(f"--worker-env: expected the name of a variable alone, not {name!r}")
        if is_own(name):
            raise BadSetting(f"--worker-env: {name} is Pilothouse's own and given to no worker")


def _chosen(environ: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    kept = {
        name: _without_credentials(value) if name in _ADDRESSES else value
        for name, value in environ.items()
        if name in ALL or name.startswith(ALL_FAMILY) or name in names
    }
    return {name: value for name, value in kept.items() if value is not None}


def _named(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: environ[name] for name in names if name in environ and not is_own(name)}


def _without_credentials(address: str) -> str | None:
    """Return an address without user and password, None where that cannot be told apart."""
    bare = _CREDENTIALS.sub(r"\1", address.strip())
    return None if "@" in bare else bare
