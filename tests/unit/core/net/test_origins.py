"""Which Host and Origin come in: a table of the tricks of DNS rebinding."""

from __future__ import annotations

import pytest

from pilothouse.core.net.origins import OriginPolicy

LOCAL = OriginPolicy()
PUBLIC = OriginPolicy(public_url="https://pilot.example:8443/base")
HOST = "127.0.0.1:4000"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:4000",
        "LOCALHOST:4000",
        "LocalHost",
        "127.0.0.1",
        "127.0.0.1:4000",
        "[::1]",
        "[::1]:4000",
    ],
)
def test_a_host_that_names_this_machine_is_admitted(host: str) -> None:
    assert LOCAL.admits_host(host)
    assert PUBLIC.admits_host(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        " ",
        "localhost.",
        "localhost.:4000",
        "127.0.0.1.",
        "localhost.evil.com",
        "localhost.evil.com:4000",
        "evil.com",
        "evil.com:4000",
        "evil-localhost",
        "127.0.0.1.nip.io",
        "127.0.0.1.nip.io:4000",
        "127.0.0.10",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "::1",
        "[::1",
        "[::]",
        "[::ffff:127.0.0.1]",
        "localhost:",
        "localhost:x",
        "localhost:123456",
        "localhost:4000:4000",
        "localhost@evil.com",
        "localhost, evil.com",
        "localhost\n",
        "localhost\r\nX: y",
        "http://localhost",
        "localhost/",
        "localho\u017ft",
        "\u24d1ocalhost",
        "pilot.example:8443",
    ],
)
def test_every_other_host_is_refused(host: str | None) -> None:
    assert not LOCAL.admits_host(host)


def test_the_public_host_is_admitted_beside_the_local_ones() -> None:
    assert PUBLIC.admits_host("pilot.example:8443")
    assert PUBLIC.admits_host("Pilot.Example:8443")
    for other in ("pilot.example", "pilot.example:443", "evil.pilot.example:8443", "", None):
        assert not PUBLIC.admits_host(other), other


def test_a_public_url_may_be_written_in_capitals() -> None:
    policy = OriginPolicy(public_url="https://Pilot.Example")
    assert policy.admits_host("pilot.example")
    assert policy.admits_origin("https://pilot.example", "pilot.example")


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_the_default_port_of_the_public_url_may_be_left_out(scheme: str, port: int) -> None:
    policy = OriginPolicy(public_url=f"{scheme}://pilot.example:{port}")
    assert policy.admits_host("pilot.example"), "clients leave the default port out of Host"
    assert policy.admits_origin(f"{scheme}://pilot.example", "pilot.example")


def test_no_origin_is_no_page_and_is_admitted() -> None:
    assert LOCAL.admits_origin(None, HOST)
    assert PUBLIC.admits_origin(None, "pilot.example:8443")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:4000", "127.0.0.1:4000"),
        ("http://localhost:4000", "localhost:4000"),
        ("HTTP://LOCALHOST:4000", "localhost:4000"),
        ("http://localhost:4000", "LOCALHOST:4000"),
        ("http://[::1]:4000", "[::1]:4000"),
        ("http://localhost", "localhost"),
        ("http://localhost:80", "localhost"),
        ("http://localhost", "localhost:80"),
    ],
)
def test_the_servers_own_origin_is_admitted(origin: str, host: str) -> None:
    assert LOCAL.admits_origin(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://127.0.0.1:4000", "127.0.0.1:4000"),
        ("HTTPS://localhost:4000", "localhost:4000"),
        ("https://localhost", "localhost"),
        ("https://localhost:443", "localhost"),
        ("https://localhost", "localhost:443"),
    ],
)
def test_a_site_of_the_other_scheme_is_another_server(origin: str, host: str) -> None:
    secure = OriginPolicy(is_https=True)
    plain = "http" + origin[5:]
    assert secure.admits_origin(origin, host)
    assert not secure.admits_origin(plain, host)
    assert not LOCAL.admits_origin(origin, host)
    anywhere = OriginPolicy(is_https=True, any_host=True)
    assert anywhere.admits_origin("https://pilot.lan:4000", "pilot.lan:4000")
    assert not anywhere.admits_origin("http://pilot.lan:4000", "pilot.lan:4000")


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "file://",
        "http://",
        "localhost:4000",
        "//127.0.0.1:4000",
        "http://127.0.0.1",
        "http://127.0.0.1:3000",
        "http://localhost:4000",
        "http://localhost:3000",
        "http://evil.com",
        "http://evil.com:4000",
        "http://127.0.0.1.evil.com:4000",
        "http://127.0.0.1:4000.evil.com",
        "http://127.0.0.1.nip.io:4000",
        "http://127.0.0.1:4000@evil.com",
        "http://evil.com@127.0.0.1:4000",
        "http://user:password@127.0.0.1:4000",
        "http://127.0.0.1:4000/",
        "http://127.0.0.1:4000/path",
        "http://127.0.0.1:4000?x",
        "http://127.0.0.1:4000#x",
        "http://127.0.0.1:4000\\@evil.com",
        "http://127.0.0.1:4000 http://evil.com",
        "http://127.0.0.1:4000\n",
        "ws://127.0.0.1:4000",
        "chrome-extension://abcdefghijklmnop",
        "https://pilot.example:8443",
    ],
)
def test_every_other_site_is_refused(origin: str) -> None:
    assert not LOCAL.admits_origin(origin, HOST)


def test_userinfo_that_looks_like_this_machine_is_refused() -> None:
    assert not LOCAL.admits_origin("http://localhost@evil.com", "localhost")
    assert not PUBLIC.admits_origin("https://pilot.example:8443@evil.com", "pilot.example:8443")


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        ("https://pilot.example:8443", True),
        ("HTTPS://Pilot.Example:8443", True),
        ("http://pilot.example:8443", False),
        ("https://pilot.example", False),
        ("https://evil.pilot.example:8443", False),
        ("https://pilot.example.evil.com:8443", False),
        ("http://localhost:4000", False),
    ],
)
def test_the_public_origin_is_admitted_with_its_own_scheme_only(
    origin: str, admitted: bool
) -> None:
    assert PUBLIC.admits_origin(origin, "pilot.example:8443") is admitted


def test_sites_that_the_user_named_are_admitted_and_no_others() -> None:
    policy = OriginPolicy(extra_origins=frozenset({"http://localhost:6274"}))
    assert policy.admits_origin("http://localhost:6274", HOST)
    assert policy.admits_origin("http://LOCALHOST:6274", HOST)
    assert not policy.admits_origin("https://localhost:6274", HOST)
    assert not policy.admits_origin("http://localhost:62740", HOST)


def test_a_site_named_in_capitals_is_the_same_site() -> None:
    policy = OriginPolicy(extra_origins=frozenset({"http://LocalHost:6274"}))
    assert policy.admits_origin("http://localhost:6274", HOST)
