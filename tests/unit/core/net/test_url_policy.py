"""The URL policy: every bad spelling refused, every good one allowed, each rule on its own."""

# ruff: noqa: RUF001  (characters that look like others are what this file is about)

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.net.url_policy import (
    METADATA_NAMES,
    Policy,
    UrlError,
    canonical_host,
    kind_of,
    loopback_only,
    origin_of,
    target_of,
)
from tests.support.rounds import examples

PRODUCTION = Policy()
DEVELOPMENT = Policy(development=True, blocked_ports=frozenset({4000, 9333}))

# Blocked in production: this machine in every spelling.
LOOPBACK_HOSTS = """
localhost LOCALHOST LocalHost localhost. app.localhost a.b.localhost. %6cocalhost %6C%6F%63alhost
ｌｏｃａｌｈｏｓｔ loc\u00adalhost local\u200bhost \U0001d4c1ocalhost ⓛocalhost
127.0.0.1 127.0.0.1. 127.1 127.0.1 127.255.255.254 127.127.127.127
2130706433 0x7f000001 0X7F000001 017700000001 0x7f.1 0x7f.0.0.1 0x7F.0x0.0x0.0x1 0177.0.0.1 0177.1
00000177.0.0.01 127.0.0.0x1 127.0.0x0001 0x7f.0.1 0177.0x0.1 127.0.0.01 0x7f000001.
１２７.０.０.１ １２７．０．０．１ 127。0。0。1 127｡0｡0｡1 127．0.0｡1 ①②⑦.0.0.1 １２７.1 0ｘ7ｆ.1
%31%32%37.0.0.1 127%2E0%2E0%2E1 127.0.0.%31 %30x7f.1 127%E3%80%820.0.1 %EF%BC%91%32%37.1
12\u00ad7.0.0.1 127.0.\u20600.1
[::1] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::0001] [::1%25lo] [::1%lo]
[::ffff:127.0.0.1] [::FFFF:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:7f00:0001]
user@127.0.0.1 user:pass@127.0.0.1 example.com@127.0.0.1 example.com:80@127.1 a@b@127.0.0.1
example.com%2F@127.0.0.1 %40@localhost example.com:443@[::1]
""".split()

# Blocked everywhere: addresses that are neither public nor this machine.
INNER_HOSTS = """
0.0.0.0 0 0x0 00 0. 0.0.0.1 0.1.2.3 [::] [0::0] [::ffff:0.0.0.0] [::ffff:0:0] [0:0:0:0:0:0:0:0]
10.0.0.1 10.1 167772161 0xa000001 012.0.0.1 10.255.255.255 １０.0.0.1 %310.0.0.1
100.64.0.1 100.127.255.255 100.100.100.200 0x64.64.1
169.254.169.254 169.254.43518 0xA9FEA9FE 2852039166 0251.0376.0251.0376 0xa9.0xfe.0xa9.0xfe
169.254.169.254. 169。254。169。254 169.254.169.%32%354 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe]
[::169.254.169.254] [64:ff9b::169.254.169.254] [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::1]
[2001:0:a9fe:a9fe::1] [2001:0:4136:e378:8000:63bf:5601:5601] [::ffff:0:169.254.169.254]
user@169.254.169.254 example.com@0xA9FEA9FE
172.16.0.1 172.31.255.255 172.1048577 0xac100001 0254.020.0.1
192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.1 0xc0a80001 3232235521 0300.0250.0.1
198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.7 168.63.129.16
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 4294967295 0xffffffff
[fc00::1] [fd00:ec2::254] [fd12:3456::1] [fe80::1] [fe80::1%25eth0] [fe80::1%eth0] [febf::1]
[fec0::1] [ff02::1] [ff0e::1] [2001:db8::1] [3fff::1] [100::1] [::2] [5f00::1] [64:ff9b:1::1]
[::10.0.0.1] [::127.0.0.1] [64:ff9b::10.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [2002:c0a8:1::1]
[64:ff9b::] [64:ff9b::1] [2001:0:7f00:1::] [2001:2::1] [::ffff:10.0.0.1] [::ffff:192.168.0.1]
""".split()

# No host at all: what cannot be read is refused.
MALFORMED_URLS = [
    "http://", "http:///", "http://?a", "http://#a", "http://@/", "http://:80/", "http://./",
    "http://../", "http://a..b/", "http://127.0.0.1../", "http://1.2.3.4.5/", "http://256.1.1.1/",
    "http://1.2.3.08/", "http://0x7g.1/", "http://4294967296/",
    "http://foo.0x7f/", "http://0x0x7f.1/", "http://[::1/", "http://::1/",
    "http://[::1]x/", "http://[::1]:80:80/", "http://[127.0.0.1]/", "http://[::g]/", "http://[]/",
    "http://a b/", "http://a%20b/", "http://a%00b/", "http://%ff/", "http://a%2525b/",
    "http://%5B::1%5D/", "http://a^b/", "http://a|b/", "http://a<b/", "http://℀.com/",
    "http://a\u202eb.com/", "http://a\u200db.com/", "http://a\ue000b.com/", "http://\ud800.com/",
    "http://example.com:0/", "http://example.com:65536/", "http://example.com:8o/",
    "http://example.com:-1/", "http://example.com:８０/", "http://example.com:99999999999999/",
    "http://" + "a" * 254 + "/", "http://" + "a." * 5000 + "com/",
]  # fmt: skip

BAD_SCHEME_URLS = [
    "file:///etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/passwd", "fi\tle:///etc/passwd",
    "chrome://settings", "chrome-extension://abcdef/page.html", "devtools://devtools/bundled/x.html",
    "edge://settings", "view-source:http://127.0.0.1/", "view-source:https://example.com/",
    "VIEW-SOURCE:http://example.com", "view-source:file:///etc/passwd", "javascript:alert(1)",
    " javascript:alert(1)", "java\nscript:alert(1)", "\x01javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<b>x</b>", "data:,x", "blob:http://localhost:3000/0f3a", "blob:null/1",
    "filesystem:http://localhost/temporary/x", "ftp://example.com/", "ftps://example.com/",
    "about:config", "about:version", "about:srcdoc", "about:BLANK", "about:x:blank", "about:blankx",
    "about:", "gopher://127.0.0.1:6379/_x", "dict://127.0.0.1:11211/", "ldap://127.0.0.1/",
    "smb://server/share", "jar:http://example.com!/", "mailto:a@example.com", "tel:1", "ssh://host/",
    "unix:/run/docker.sock", "intent://x#Intent;end", "ms-settings:", "vbscript:x",
    "localhost:3000", "example.com", "//example.com/", "/etc/passwd", "\\\\server\\share",
    "127.0.0.1:80", "", " ", ":", "://example.com", "1http://example.com", "http",
]  # fmt: skip

GOOD_HOSTS = """
example.com EXAMPLE.com example.com. www.example.co.uk xn--bcher-kva.example bücher.example faß.de
例え.jp 例え。jp ex%61mple.com %65xample.com user@example.com user:p%40ss@example.com
a@b@example.com localhost.evil.example notlocalhost localhost1.example
127.0.0.1.nip.io 10.0.0.1.example.org
8.8.8.8 1.1.1.1 134744072 0x08080808 010.010.010.010 8.8.2056 8.8.8.8. 93.184.216.34
9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.1.1 169.255.0.0
172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.1.1 198.20.0.0 223.255.255.255
[2606:4700:4700::1111] [2001:4860:4860::8888] [2A00:1450::1] [64:ff9b::8.8.8.8] [::ffff:8.8.8.8]
[2002:808:808::1] my_host.example a-b.example 1.example 0x.example xn--p1ai.example intranet
metadata.example.com metadata.google.internal.example.com 127.example
""".split()

GOOD_URLS = [
    "about:blank", "ABOUT:blank", " about:blank\n", "about:blank#top",
    "https://example.com", "http:example.com", "http:/example.com", "http:////example.com/",
    "http:\\\\example.com\\", "HTTPS://EXAMPLE.COM/", "ws://example.com/socket", "wss://example.com",
    "\thttps://exam\nple.com/\r", "https://example.com:", "https://example.com:8443/a?b#c",
    "https://example.com:00443/", "http://example.com\\@127.0.0.1/", "http://example.com/@127.0.0.1",
    "http://example.com?@127.0.0.1", "http://example.com#@127.0.0.1", "https://example.com/http://10.1",
    "https://example.com/?url=http://169.254.169.254/", "https://example.com/file:///etc/passwd",
]  # fmt: skip


def test_the_tables_are_as_long_as_the_promise() -> None:
    bad = [*LOOPBACK_HOSTS, *INNER_HOSTS, *MALFORMED_URLS, *BAD_SCHEME_URLS]
    assert len(set(bad)) >= 220
    assert len({*GOOD_HOSTS, *GOOD_URLS}) >= 80


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
def test_this_machine_is_refused_in_production_and_open_in_development(host: str) -> None:
    verdict = PRODUCTION.check_url(f"http://{host}/path")
    assert (verdict.allowed, verdict.rule) == (False, "loopback"), host
    assert "PILOTHOUSE_ENV=development" in verdict.reason
    assert DEVELOPMENT.check_url(f"http://{host}:3000/").rule == "localhost"
    assert DEVELOPMENT.check_url(f"ws://{host}:4000/").rule == "blocked_port"


@pytest.mark.parametrize("policy", [PRODUCTION, DEVELOPMENT], ids=["production", "development"])
@pytest.mark.parametrize("host", INNER_HOSTS)
def test_inner_addresses_are_refused_everywhere(host: str, policy: Policy) -> None:
    for url in (f"http://{host}/", f"https://{host}:8443", f"ws:{host}", f"wss:\\\\{host}\\x"):
        verdict = policy.check_url(url)
        assert not verdict.allowed, url
        assert verdict.rule in {"private", "link_local", "special"}
        assert "ALLOWED_HOSTS" in verdict.reason


@pytest.mark.parametrize("url", MALFORMED_URLS)
def test_what_is_no_url_is_refused_as_malformed(url: str) -> None:
    assert DEVELOPMENT.check_url(url).rule == "malformed"
    assert not DEVELOPMENT.check_url(url).allowed


@pytest.mark.parametrize("url", BAD_SCHEME_URLS)
def test_every_other_scheme_is_refused(url: str) -> None:
    assert DEVELOPMENT.check_url(url).rule == "scheme"
    assert not DEVELOPMENT.check_url(url).allowed


@pytest.mark.parametrize("url", GOOD_URLS + [f"https://{host}/a" for host in GOOD_HOSTS])
def test_good_urls_are_allowed_in_both_environments(url: str) -> None:
    for policy in (PRODUCTION, DEVELOPMENT):
        verdict = policy.check_url(url)
        assert verdict.allowed, verdict.reason
        assert verdict.needs_resolution == (verdict.rule == "unresolved")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1\\@example.com/",
        "http://127.0.0.1#@example.com/",
        "http://127.0.0.1?@example.com/",
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http:///////127.0.0.1",
        "http:\\/\\127.0.0.1",
        "ht\ntp://127.0\t.0.1",
        "\x00 http://127.0.0.1",
        "http://example.com:80@127.0.0.1:80/",
    ],
)
def test_the_host_is_the_one_a_browser_would_take(url: str) -> None:
    assert target_of(url).host.name == "127.0.0.1"
    assert PRODUCTION.check_url(url).rule == "loopback"


@pytest.mark.parametrize("name", [*sorted(METADATA_NAMES), "METADATA.google.internal."])
def test_metadata_names_are_refused_by_name_even_when_listed(name: str) -> None:
    for policy in (PRODUCTION, DEVELOPMENT, Policy(allowed_hosts=(name,))):
        assert policy.check_url(f"http://{name}/latest/").rule == "metadata"
        assert policy.check_address(name, ip_address("8.8.8.8"), 80).rule == "metadata"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("user:pw@[::FFFF:1.2.3.4]", "::ffff:1.2.3.4"),
        ("::1", "::1"),
        ("0x7f.1", "127.0.0.1"),
        ("exa\tmple\n.com", "example.com"),
    ],
)
def test_canonical_host_has_one_spelling(text: str, name: str) -> None:
    assert canonical_host(text).name == name


def test_a_host_with_a_port_is_an_error() -> None:
    with pytest.raises(UrlError, match="no host name"):
        canonical_host("localhost:3000")


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("8.8.8.8", "public"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.1.2.3", "private"),
        ("100.64.0.0", "private"),
        ("fd00::1", "private"),
        ("169.254.0.1", "link_local"),
        ("fe80::1", "link_local"),
        ("64:ff9b::169.254.169.254", "link_local"),
        ("2002:0a00:0001::", "private"),
        ("::192.168.0.1", "private"),
        ("64:ff9b::127.0.0.1", "special"),
        ("::", "special"),
        ("0.0.0.0", "special"),
        ("255.255.255.255", "special"),
        ("4000::1", "special"),
    ],
)
def test_kind_of_names_the_range(address: str, kind: str) -> None:
    assert kind_of(ip_address(address)) == kind


# After resolution


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.nip.io", "intranet"])
@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "link_local"),
        ("0.0.0.0", "special"),
        ("::ffff:169.254.169.254", "link_local"),
        ("64:ff9b::a00:1", "private"),
    ],
)
def test_a_name_rebound_to_an_inner_address_is_refused(host: str, address: str, rule: str) -> None:
    for policy in (PRODUCTION, DEVELOPMENT):
        verdict = policy.check_address(host, ip_address(address), 80)
        assert (verdict.allowed, verdict.rule) == (False, rule)
        assert address.split(":")[-1] in verdict.reason or "IPv6" in verdict.reason


def test_a_public_address_is_allowed_after_resolution() -> None:
    for address in ("93.184.216.34", "2606:4700::1", "64:ff9b::8.8.8.8"):
        verdict = PRODUCTION.check_address("example.com", ip_address(address), 443)
        assert (verdict.allowed, verdict.rule) == (True, "public")
        assert not verdict.needs_resolution


def test_localhost_names_must_resolve_to_this_machine() -> None:
    assert DEVELOPMENT.check_address("app.localhost", IPv4Address("127.0.0.1"), 3000).allowed
    assert DEVELOPMENT.check_address("localhost", IPv6Address("::1"), 3000).allowed
    for address in ("8.8.8.8", "10.0.0.1", "0.0.0.0"):
        assert not DEVELOPMENT.check_address("localhost", ip_address(address), 3000).allowed
    assert not PRODUCTION.check_address("localhost", IPv4Address("127.0.0.1"), 3000).allowed


def test_an_address_that_resolved_to_another_one_is_refused() -> None:
    verdict = DEVELOPMENT.check_address("8.8.8.8", IPv4Address("1.1.1.1"), 80)
    assert (verdict.allowed, verdict.rule) == (False, "mismatch")
    assert DEVELOPMENT.check_address("0x08080808", IPv4Address("8.8.8.8"), 80).allowed


def test_an_unreadable_host_is_refused_after_resolution() -> None:
    assert PRODUCTION.check_address("a b", IPv4Address("8.8.8.8"), 80).rule == "malformed"


def test_blocked_ports_are_blocked_by_every_way_to_this_machine() -> None:
    listed = Policy(
        allowed_hosts=("localhost", "0.0.0.0", "[::]", "app.test", "10.0.0.1"),
        development=True,
        blocked_ports=frozenset({9222}),
    )
    for url in ("http://localhost:9222", "http://0:9222", "ws://[::]:9222"):
        assert listed.check_url(url).rule == "blocked_port"
    assert listed.check_address("app.test", IPv4Address("127.0.0.5"), 9222).rule == "blocked_port"
    assert listed.check_address("app.test", IPv4Address("127.0.0.5"), 9223).allowed
    assert listed.check_url("http://10.0.0.1:9222").allowed
    assert DEVELOPMENT.check_url("http://example.com:4000").allowed


# Own origins


def test_own_origins_are_always_open_with_their_websockets() -> None:
    own = frozenset({("http", "LOCALHOST.", 3000), origin_of("https://App.Internal/x")})
    led = {"app.internal": (IPv4Address("10.0.0.1"),)}
    for policy in (
        Policy(own_origins=own, own_addresses=led),
        Policy(own_origins=own, own_addresses=led, allowed_hosts=()),
        Policy(
            own_origins=own,
            own_addresses=led,
            development=True,
            blocked_ports=frozenset({3000, 443}),
        ),
    ):
        for url in ("http://localhost:3000/a", "ws://localhost:3000/hmr", "wss://app.internal"):
            verdict = policy.check_url(url)
            assert (verdict.rule, verdict.needs_resolution) == ("own_origin", False)
        tunnel = policy.check_address("app.internal", IPv4Address("10.0.0.1"), 443)
        assert tunnel.rule == "own_origin"


@pytest.mark.parametrize("allowed_hosts", [None, (), ("app.example",)])
def test_an_own_name_that_leads_elsewhere_by_now_is_judged_like_any_other(
    allowed_hosts: tuple[str, ...] | None,
) -> None:
    policy = Policy(
        own_origins=frozenset({("http", "app.example", 80), ("http", "localhost", 3000)}),
        own_addresses={"app.example": (IPv4Address("93.184.216.34"),)},
        allowed_hosts=allowed_hosts,
        blocked_ports=frozenset({80}),
    )
    host = canonical_host("app.example")
    assert policy.kept_addresses("http", host, 80) == (IPv4Address("93.184.216.34"),)
    assert policy.kept_addresses(None, host, 80) == (IPv4Address("93.184.216.34"),)
    assert policy.kept_addresses("http", host, 81) == ()
    assert policy.check_address("app.example", IPv4Address("93.184.216.34"), 80).allowed
    for elsewhere in ("169.254.169.254", "127.0.0.1", "::1", "0.0.0.0", "fd00:ec2::254"):
        for scheme in ("http", None):
            verdict = policy.check_address("app.example", ip_address(elsewhere), 80, scheme)
            assert not verdict.allowed, (elsewhere, verdict)
    assert policy.check_address("localhost", IPv4Address("127.0.0.1"), 3000).rule == "own_origin"
    assert not policy.check_address("localhost", IPv4Address("10.0.0.1"), 3000).allowed
    # One that led nowhere when the session began has no address that was judged.
    unknown = Policy(own_origins=frozenset({("http", "late.example", 80)}))
    assert unknown.check_url("http://late.example/").rule == "own_origin"
    assert unknown.check_address("late.example", IPv4Address("8.8.8.8"), 80).rule == "public"
    assert not unknown.check_address("late.example", IPv4Address("10.0.0.1"), 80).allowed


def test_an_own_origin_opens_neither_another_port_nor_scheme_nor_name() -> None:
    policy = Policy(own_origins=frozenset({("http", "localhost", 3000)}))
    for url in ("http://localhost:3001", "https://localhost:3000", "http://127.0.0.1:3000"):
        assert not policy.check_url(url).allowed


# ALLOWED_HOSTS


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://api.example.com", True),
        ("https://API.example.com.:8443", True),
        ("https://x.api.example.com", False),
        ("https://cdn.test", False),
        ("https://a.cdn.test", True),
        ("https://a.b.cdn.test:444", True),
        ("https://evilcdn.test", False),
        ("http://dev.example:3000", True),
        ("http://dev.example:3001", False),
        ("http://dev.example", False),
        ("http://10.1.2.3", True),
        ("http://0xa010203", True),
        ("http://10.1.2.4", False),
        ("http://[fd00::0:1]:8080", True),
        ("http://[fd00::1]:8081", False),
        ("http://[fd00::2]", True),
        ("https://xn--bcher-kva.example", True),
        ("https://example.com", False),
        ("http://localhost:3000", False),
        ("http://127.0.0.1", False),
        ("http://1.1.1.1", False),
        ("about:blank", True),
    ],
)
def test_only_listed_hosts_are_open_when_a_list_is_set(url: str, allowed: bool) -> None:
    hosts = ("api.example.com", "*.cdn.test", "dev.example:3000", "10.1.2.3", "[fd00::1]:8080")
    policy = Policy(allowed_hosts=(*hosts, "fd00::2", "bücher.example"), development=True)
    assert policy.check_url(url).allowed is allowed
    if not allowed:
        assert policy.check_url(url).rule == "not_listed"


def test_an_empty_list_leaves_only_own_origins() -> None:
    policy = Policy(allowed_hosts=(), development=True)
    for url in ("https://example.com", "http://localhost:3000", "http://8.8.8.8"):
        verdict = policy.check_url(url)
        assert (verdict.allowed, verdict.rule) == (False, "not_listed")
        assert "ALLOWED_HOSTS" in verdict.reason


def test_a_listed_name_may_be_on_the_local_network_but_not_lead_to_credentials() -> None:
    policy = Policy(allowed_hosts=("wiki.corp", "*.corp", "169.254.1.1"))
    assert policy.check_url("http://wiki.corp").needs_resolution
    assert policy.check_address("wiki.corp", IPv4Address("10.0.0.9"), 80).allowed
    assert policy.check_address("a.corp", IPv4Address("8.8.8.8"), 80).allowed
    for trap in (
        *("169.254.169.254", "0.0.0.0", "168.63.129.16", "fe80::1", "::ffff:169.254.1.1"),
        *("100.100.100.200", "fd00:ec2::254"),
    ):
        assert not policy.check_address("wiki.corp", ip_address(trap), 80).allowed
    assert policy.check_url("http://169.254.1.1").allowed
    assert not policy.check_address("other.test", IPv4Address("8.8.8.8"), 80).allowed


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "*",
        "*.",
        "*.*.com",
        "*.10.0.0.1",
        "http://a.com",
        "a.com/x",
        "a.com:0",
        "u@a.com",
        "a b",
    ],
)
def test_a_bad_pattern_is_named_when_the_policy_is_made(pattern: str) -> None:
    with pytest.raises(UrlError, match="ALLOWED_HOSTS"):
        Policy(allowed_hosts=("example.com", pattern))


# The debugging port


@pytest.mark.parametrize(
    ("addresses", "allowed"),
    [
        (["127.0.0.1"], True),
        (["127.0.0.1", "::1"], True),
        (["127.9.9.9", "::ffff:127.0.0.1"], True),
        (["127.0.0.1", "10.0.0.1"], False),
        (["0.0.0.0"], False),
        (["::"], False),
        (["::ffff:0.0.0.0"], False),
        (["8.8.8.8"], False),
        (["64:ff9b::7f00:1"], False),
        (["fe80::1"], False),
        ([], False),
    ],
)
def test_a_debugging_host_must_be_loopback_alone(addresses: list[str], allowed: bool) -> None:
    verdict = loopback_only("chrome.local", [ip_address(address) for address in addresses])
    assert verdict.allowed is allowed
    assert "chrome.local" in verdict.reason


# Any spelling of an address is judged like the address

_FULL_WIDTH = str.maketrans("0123456789abcdefx.", "０１２３４５６７８９ａｂｃｄｅｆｘ．")


@st.composite
def spelled_ipv4(draw: st.DrawFn) -> tuple[IPv4Address, str]:
    """An inner IPv4 address and one of the many ways to write it."""
    first, bits = draw(
        st.sampled_from(
            [
                (0, 24),
                (10 << 24, 24),
                (127 << 24, 24),
                (0x64400000, 22),
                (0xA9FE0000, 16),
                (0xAC100000, 20),
                (0xC0A80000, 16),
                (0xC6120000, 17),
                (0xE0000000, 28),
            ]
        )
    )
    value = first + draw(st.integers(0, 2**bits - 1))
    heads = draw(st.integers(0, 3))
    numbers = [value >> 8 * (3 - place) & 255 for place in range(heads)]
    numbers.append(value & (1 << 8 * (4 - heads)) - 1)
    parts = [draw(st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0{:o}", "000{:o}"])) for _ in numbers]
    text = ".".join(form.format(number) for form, number in zip(parts, numbers, strict=True))
    text += draw(st.sampled_from(["", "."]))
    spelled = "".join(draw(st.sampled_from(ways_to_write(char))) for char in text)
    return IPv4Address(value), draw(st.sampled_from(["", "u@", "example.com:80@"])) + spelled


def ways_to_write(char: str) -> list[str]:
    wide = char.translate(_FULL_WIDTH)
    ways = [char, f"%{ord(char):02X}", wide, quote(wide), char + "\t"]
    return [*ways, "。", "｡", "%E3%80%82"] if char == "." else ways


@given(spelled_ipv4())
@settings(max_examples=examples(300))
def test_any_spelling_of_an_inner_ipv4_is_judged_like_the_address(
    case: tuple[IPv4Address, str],
) -> None:
    address, spelling = case
    assert canonical_host(spelling).address == address
    for policy in (PRODUCTION, DEVELOPMENT):
        spelled, plain = (policy.check_url(f"http://{h}:81/") for h in (spelling, address))
        assert (spelled.allowed, spelled.rule) == (plain.allowed, plain.rule)
    assert not PRODUCTION.check_url(f"http://{spelling}/").allowed


@given(st.text(max_size=60))
@settings(max_examples=examples(300))
def test_any_text_gets_a_verdict_and_a_reason(text: str) -> None:
    for url in (text, "http://" + text, "https://example.com:" + text):
        verdict = DEVELOPMENT.check_url(url)
        assert verdict.rule
        assert verdict.reason.isprintable()


@given(st.ip_addresses(v=6))
@settings(max_examples=examples(300))
def test_an_ipv6_literal_is_judged_like_its_address(address: IPv6Address) -> None:
    verdict = PRODUCTION.check_url(f"http://[{address.exploded}]/")
    assert verdict.allowed == (kind_of(address) == "public")
