"""Which variables each kind of child gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.child_env import (
    browser_environment,
    check_named,
    own_environment,
    server_environment,
    window_environment,
    without_own_settings,
    worker_environment,
)
from pilothouse.core.settings import SETTINGS, BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    type Choose = Callable[[Mapping[str, str]], dict[str, str]]

KINDS: tuple[Choose, ...] = (
    server_environment,
    browser_environment,
    window_environment,
    worker_environment,
    own_environment,
)
EVERYBODY = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "USER": "me",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TZ": "Asia/Tokyo",
    "TMPDIR": "/t",
}
WINDOW = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": "/run/user/1"}
WORKERS = {
    "PLAYWRIGHT_BROWSERS_PATH": "/browsers",
    "NO_PROXY": "localhost",
    "https_proxy": "http://proxy.test:3128",
    "npm_config_cache": "/npm",
    "NPM_CONFIG_USERCONFIG": "/home/me@work/.npmrc",
}
SECRET = {
    "AWS_SECRET_ACCESS_KEY": "x",
    "OPENAI_API_KEY": "x",
    "GITHUB_TOKEN": "x",
    "DATABASE_URL": "x",
    "SSH_AUTH_SOCK": "x",
    "NPM_TOKEN": "x",
    "npm_config__authToken": "x",
    "npm_config_//registry.test/:_authToken": "x",
    "NPM_CONFIG_OTP": "x",
    "PLAYWRIGHT_SERVICE_ACCESS_TOKEN": "x",
    "PYTHONANYWHERE_TOKEN": "x",
    "NODE_OPTIONS": "x",
    "LD_PRELOAD": "x",
    "PATH_OF_KEYS": "x",
    **{name: "x" for one in SETTINGS for name in one.about.env},
}
WHOLE = {**EVERYBODY, **WINDOW, **WORKERS, **SECRET}


def test_each_kind_gets_its_part_of_one_list() -> None:
    assert server_environment(WHOLE) == EVERYBODY
    assert browser_environment(WHOLE) == EVERYBODY | WINDOW
    assert worker_environment(WHOLE) == EVERYBODY | WORKERS
    assert own_environment(WHOLE) == EVERYBODY | WINDOW | WORKERS
    proxies = {name: WORKERS[name] for name in ("NO_PROXY", "https_proxy")}
    assert window_environment(WHOLE) == EVERYBODY | WINDOW | proxies


def test_what_our_own_process_gets_is_enough_for_all_that_it_starts() -> None:
    ours = own_environment(WHOLE)
    for choose in KINDS:
        assert choose(ours) == choose(WHOLE)


@given(st.text(st.characters(codec="ascii", exclude_characters="=\0"), min_size=1))
def test_no_other_variable_gets_through(name: str) -> None:
    known = ("LC_", "XDG_", "NPM_CONFIG_", "PYTHON", "SSL_CERT_", "LD_LIBRARY", "DYLD_LIBRARY")
    if name.upper() not in {one.upper() for one in own_environment(WHOLE)}:
        got = [choose({name: "x"}) for choose in KINDS]
        assert got == [{}] * len(KINDS) or name.upper().startswith(known)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://proxy.test:3128/", "http://proxy.test:3128/"),
        ("http://me:pass@proxy.test:3128/", "http://proxy.test:3128/"),
        ("HTTP://me@proxy.test", "HTTP://proxy.test"),
        ("socks5h://me:p%40ss@[::1]:1080", "socks5h://[::1]:1080"),
        ("http://me:p@ss@proxy.test", "http://proxy.test"),
        ("me:pass@proxy.test:3128", "proxy.test:3128"),
        ("proxy.test:3128", "proxy.test:3128"),
        ("http://me:pa/ss@proxy.test", None),
        ("http://me:pa?s#s@proxy.test", None),
        ("http://proxy.test/?user=me@proxy.test", None),
    ],
)
@pytest.mark.parametrize(
    "name", ["HTTP_PROXY", "https_proxy", "npm_config_registry", "NPM_CONFIG_HTTPS_PROXY"]
)
def test_an_address_loses_user_and_password(name: str, given: str, kept: str | None) -> None:
    for choose in (worker_environment, own_environment):
        assert choose({name: given}).get(name) == kept


def test_a_variable_that_is_named_is_let_through_as_it_is() -> None:
    given = {"HTTP_PROXY": "http://me:pass@proxy.test", "MY_TOKEN": "x", "OTHER_TOKEN": "y"}
    for choose in (worker_environment, own_environment):
        got = choose(given, ("HTTP_PROXY", "MY_TOKEN", "MISSING"))
        assert got == {"HTTP_PROXY": "http://me:pass@proxy.test", "MY_TOKEN": "x"}


@pytest.mark.parametrize("name", ["", "A=b", "A B", "A\0", "A\n"])
def test_only_names_of_variables_can_be_let_through(name: str) -> None:
    with pytest.raises(BadSetting, match="--worker-env: expected the name"):
        check_named(["FINE", name])


@pytest.mark.parametrize(
    "name",
    [
        "PACKET_PROXY_ACCESS_TOKEN",
        "PACKETPROXY_ACCESS_TOKEN",
        "PILOTHOUSE_HTTP_TOKEN",
        "PILOTHOUSE_REGISTRY",
        "PILOTHOUSE_HOME",
    ],
)
def test_our_own_variables_are_nobody_else_s(name: str) -> None:
    with pytest.raises(BadSetting, match=f"{name} is Pilothouse's own"):
        check_named([name])
    assert worker_environment({name: "x"}, (name,)) == {}
    assert without_own_settings({name: "x", "NODE_ENV": "test"}) == {"NODE_ENV": "test"}
