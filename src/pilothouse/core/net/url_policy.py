"""Where a browser may go, as pure decisions: read a URL as a browser does, then judge it.

Nothing here resolves a name. `Policy.check_url` judges what was spelled, before resolution;
`Policy.check_address` judges what it resolved to, just before the filtering proxy connects.
Whatever cannot be understood is refused.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

type Address = IPv4Address | IPv6Address
type Kind = Literal["public", "loopback", "private", "link_local", "special"]
type Origin = tuple[str, str, int]

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class UrlError(ValueError):
    """The text is no URL or host that a browser would connect to."""


# Hosts: what a browser makes of a spelling


@dataclass(frozen=True, slots=True)
class Host:
    """A host in its one canonical spelling: lower-case ASCII, no brackets, no trailing dot."""

    name: str
    address: Address | None = None
    """Address that the host is; None where it is a name."""

    @property
    def is_localhost(self) -> bool:
        """Tell whether the spelling itself says "this machine", without asking a resolver."""
        if self.address is not None:
            return kind_of(self.address) == "loopback"
        return self.name == "localhost" or self.name.endswith(".localhost")

    def __str__(self) -> str:
        return f"[{self.name}]" if isinstance(self.address, IPv6Address) else self.name


_MAX_HOST = 253
_TABS_AND_NEWLINES = str.maketrans("", "", "\t\n\r")
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))
_FORBIDDEN_IN_NAME = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]")
# UTS 46 drops these without a trace, so that a soft hyphen cannot hide a name.
_IGNORED = dict.fromkeys(
    [
        *(0xAD, 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x200B, 0x2060, 0x2064, 0x3164, 0xFEFF),
        *(0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
    ]
)
# Letters that browsers fold otherwise than Unicode's compatibility forms.
_OWN_LETTERS = str.maketrans(
    {
        "\u1e9e": "ß",
        **dict.fromkeys("\u03f2\U0001d6d3\U0001d70d\U0001d747\U0001d781\U0001d7bb", "\u03c3"),
    }
)


def canonical_host(text: str) -> Host:
    """Return the host a browser goes to; userinfo before an `@` is dropped, a port is an error."""
    text = text.translate(_TABS_AND_NEWLINES).strip(_CONTROLS_AND_SPACE).rpartition("@")[2]
    if text.startswith("[") or text.count(":") > 1:
        return _ipv6_host(text)
    if len(text) > 8 * _MAX_HOST:
        raise UrlError("the host name is too long")
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except ValueError:
        raise UrlError(f"{_shown(text)} does not decode to text") from None
    name = _ascii_name(decoded)
    if _ends_in_a_number(name):
        address = _ipv4_of(name)
        return Host(str(address), address)
    return Host(name)


def _ipv6_host(text: str) -> Host:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        # The zone says through which interface, which does not change what is reached.
        address = IPv6Address(inner.partition("%")[0])
    except ValueError:
        raise UrlError(f"{_shown(text)} is no IPv6 address") from None
    return Host(str(address), address)


def _ascii_name(text: str) -> str:
    """Apply UTS 46 as far as safety needs it: the same folding, refusing where that is unsure."""
    if not text.isascii():
        if "\ufe61" in text or "\uff0a" in text:
            raise UrlError(f"{_shown(text)} has an asterisk, which no host name may have")
        text = _folded(_folded(text).translate(_IGNORED)).replace("\u3002", ".")
        if any(unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"} for char in text):
            raise UrlError(f"{_shown(text)} has characters no host name may have")
        text = ".".join(_ascii_label(label) for label in text.split("."))
    name = text.lower().removesuffix(".")
    if not name or len(name) > _MAX_HOST or _FORBIDDEN_IN_NAME.search(name):
        raise UrlError(f"{_shown(name)} is no host name")
    if "" in name.split("."):
        raise UrlError(f"{_shown(name)} has an empty label")
    return name


def _folded(text: str) -> str:
    # ß and final sigma are letters of their own in host names; casefold would change the name.
    own = text.translate(_OWN_LETTERS)
    folded = "".join(
        char if char in "ßς" else char.casefold() for char in unicodedata.normalize("NFKC", own)
    )
    return unicodedata.normalize("NFKC", folded)


def _ascii_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")


def _ends_in_a_number(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


def _ipv4_of(name: str) -> IPv4Address:
    """Read up to four numbers, each decimal, octal or hexadecimal; the last fills what is left."""
    try:
        *firsts, last = [_ipv4_number(part) for part in name.split(".")]
        if len(firsts) > 3 or max(firsts, default=0) > 255 or last >= 256 ** (4 - len(firsts)):
            raise ValueError
    except ValueError:
        raise UrlError(f"{_shown(name)} ends in a number but is no IPv4 address") from None
    high = sum(number << 8 * (3 - place) for place, number in enumerate(firsts))
    return IPv4Address(high + last)


def _ipv4_number(part: str) -> int:
    if not re.fullmatch(r"0x[0-9a-f]*|[0-9]+", part):  # int() also takes signs, "0o" and "_"
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


# Addresses: what a connection would reach

_V4_KINDS: tuple[tuple[IPv4Network, Kind], ...] = (
    (IPv4Network("0.0.0.0/8"), "special"),
    (IPv4Network("10.0.0.0/8"), "private"),
    # Alibaba's metadata service, and AWS's below: private addresses that hand out credentials.
    (IPv4Network("100.100.100.200/32"), "special"),
    (IPv4Network("100.64.0.0/10"), "private"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    # Azure's host agent answers here with credentials, although the range is public.
    (IPv4Network("168.63.129.16/32"), "special"),
    (IPv4Network("169.254.0.0/16"), "link_local"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.0.0.0/24"), "special"),
    (IPv4Network("192.0.2.0/24"), "special"),
    (IPv4Network("192.88.99.0/24"), "special"),
    (IPv4Network("192.168.0.0/16"), "private"),
    (IPv4Network("198.18.0.0/15"), "special"),
    (IPv4Network("198.51.100.0/24"), "special"),
    (IPv4Network("203.0.113.0/24"), "special"),
    (IPv4Network("224.0.0.0/3"), "special"),
)
# First match wins; only global unicast and NAT64 are public, all the rest is special.
_V6_KINDS: tuple[tuple[IPv6Network, Kind], ...] = (
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("64:ff9b::/96"), "public"),
    (IPv6Network("2001::/32"), "public"),
    (IPv6Network("2001::/23"), "special"),
    (IPv6Network("2001:db8::/32"), "special"),
    (IPv6Network("3fff::/20"), "special"),
    (IPv6Network("2000::/3"), "public"),
    (IPv6Network("fd00:ec2::254/128"), "special"),
    (IPv6Network("fc00::/7"), "private"),
    (IPv6Network("fec0::/10"), "private"),
    (IPv6Network("fe80::/10"), "link_local"),
)
# Prefixes under which the last 32 bits are an IPv4 address: NAT64, translated, compatible.
_V4_IN_LOW_BITS = tuple(map(IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")))


def kind_of(address: Address) -> Kind:
    """Return what sort of place an address is; IPv4 in IPv6 is judged as the IPv4 it leads to."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _V4_KINDS if address in network), "public")
    if address.ipv4_mapped is not None:
        return kind_of(address.ipv4_mapped)
    for inner in _tunnelled(address):
        kind = kind_of(inner)
        if kind != "public":
            # A tunnel's 127.0.0.1 is the far end's, so it must never pass for our own.
            return "special" if kind == "loopback" else kind
    return next((kind for network, kind in _V6_KINDS if address in network), "special")


def _tunnelled(address: IPv6Address) -> Iterable[IPv4Address]:
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo  # server and client
    is_any_or_loopback = int(address) <= 1
    if not is_any_or_loopback and any(address in network for network in _V4_IN_LOW_BITS):
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    return ()


def _is_this_machine(address: Address) -> bool:
    """Tell whether it is loopback, or "any address", which Linux connects to loopback as well."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return kind_of(address) == "loopback" or int(address) >> (address.max_prefixlen - 8) == 0


# URLs


class UrlTarget(NamedTuple):
    """The parts of an http, https, ws or wss URL that decide where it leads."""

    scheme: str
    host: Host
    port: int


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_AUTHORITY = re.compile(r"[/\\]*([^/\\?#]*)")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")


def cleaned_url(url: str) -> str:
    """Return what a browser reads: without blanks around it, and without tabs and newlines."""
    return url.strip(_CONTROLS_AND_SPACE).translate(_TABS_AND_NEWLINES)


def scheme_of(cleaned: str) -> str:
    """Return the scheme of a cleaned URL in lower case; empty for none."""
    match = _SCHEME.match(cleaned)
    return match[1].lower() if match else ""


def target_of(url: str) -> UrlTarget:
    """Read an absolute URL as browsers do: any number of slashes, `\\` for `/`, last `@` counts."""
    url = cleaned_url(url)
    scheme = scheme_of(url)
    if scheme not in DEFAULT_PORTS:
        raise UrlError(f"{_shown(url)} does not begin with http://, https://, ws:// or wss://")
    authority = _AUTHORITY.match(url, len(scheme) + 1)
    host, port = _split_port(authority[1].rpartition("@")[2] if authority else "")
    return UrlTarget(scheme, canonical_host(host), DEFAULT_PORTS[scheme] if port is None else port)


def origin_of(url: str) -> Origin:
    """Return the (scheme, host, port) of a URL, in the form `Policy.own_origins` takes."""
    target = target_of(url)
    return _origin(target.scheme, target.host, target.port)


def _origin(scheme: str, host: Host, port: int) -> Origin:
    # A page's own WebSockets (hot reload) belong to its origin.
    return {"ws": "http", "wss": "https"}.get(scheme, scheme), host.name, port


def _split_port(text: str) -> tuple[str, int | None]:
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None:
        raise UrlError(f"{_shown(text)} is no host with an optional port")
    if not match[2]:
        return match[1], None
    digits = match[2].lstrip("0")
    if not digits or len(digits) > 5 or int(digits) > 65535:
        raise UrlError(f"{_shown(match[2])} is no port")
    return match[1], int(digits)


def _shown(text: str) -> str:
    """Return outside text for a message: cut, and with control characters made visible."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


# The policy


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, the rule that made it, and a sentence that says what would change it."""

    allowed: bool
    rule: str
    reason: str
    needs_resolution: bool = False
    """Flag for allowed so far: the address the name resolves to has yet to pass `check_address`."""


class _HostPattern(NamedTuple):
    host: Host
    port: int | None
    below: bool
    """Flag for `*.suffix`: names below the suffix, not the suffix itself."""

    def matches(self, host: Host, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if self.below:
            return host.address is None and host.name.endswith("." + self.host.name)
        return host.name == self.host.name


def _host_pattern(text: str) -> _HostPattern:
    below = text.strip().startswith("*.")
    try:
        bare = text.strip().removeprefix("*.")
        is_bare_ipv6 = bare.count(":") > 1 and not bare.startswith("[")
        name, port = (bare, None) if is_bare_ipv6 else _split_port(bare)
        host = canonical_host(name)
        if set("*@") & set(bare) or (below and host.address is not None):
            raise UrlError(bare)
    except UrlError:
        raise UrlError(f"ALLOWED_HOSTS: {_shown(text)} is no host, host:port or *.suffix") from None
    return _HostPattern(host, port, below)


# Names under which clouds hand credentials to whatever runs on the machine.
METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.aws.internal",
        "metadata.azure.com",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.oraclecloud.com",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
        "rancher-metadata",
    }
)

_KIND_IN_WORDS: dict[Kind, str] = {
    "public": "a public address",
    "loopback": "this machine's own address",
    "private": "a private address",
    "link_local": "a link-local address, where cloud credentials are served",
    "special": "an address reserved for special use",
}


@dataclass(frozen=True)
class Policy:
    """The rules of where one session's browser may go; their order is that in `_judge`."""

    own_origins: frozenset[Origin] = frozenset()
    """The session's own servers; always open, so nobody else's port may stand here."""
    own_addresses: Mapping[str, tuple[Address, ...]] = field(default_factory=dict, hash=False)
    """Addresses of own origins' names when they were judged. An own name that leads elsewhere
    by now is judged like anybody's; this machine's own names need no entry."""
    allowed_hosts: tuple[str, ...] | None = None
    """`ALLOWED_HOSTS`; None is unset, empty is "own origins only"."""
    development: bool = False
    blocked_ports: frozenset[int] = frozenset()
    """Ports of this machine that are Pilothouse's own or another session's."""
    _own: frozenset[Origin] = field(init=False, repr=False, compare=False)
    _patterns: tuple[_HostPattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = frozenset(_origin(s, canonical_host(h), port) for s, h, port in self.own_origins)
        object.__setattr__(self, "_own", own)
        object.__setattr__(self, "_patterns", tuple(map(_host_pattern, self.allowed_hosts or ())))

    def check_url(self, url: str) -> Verdict:
        """Judge a URL as spelled. A name that must be resolved is allowed so far."""
        cleaned = cleaned_url(url)
        scheme = scheme_of(cleaned)
        if scheme == "about" and cleaned.partition("#")[0].partition(":")[2] == "blank":
            return Verdict(True, "blank", "about:blank is the empty page")
        if scheme not in DEFAULT_PORTS:
            shown = f"{scheme[:40]}: URLs are" if scheme else "A URL without a scheme is"
            reason = f"{shown} blocked; write it in full, as in http://localhost:3000/"
            return Verdict(
                False, "scheme", f"{reason} (http, https, ws or wss; no setting adds one)"
            )
        try:
            target = target_of(cleaned)
        except UrlError as error:
            return Verdict(False, "malformed", f"The URL is blocked: {error}; correct the URL")
        return self._judge(target.scheme, target.host, target.port, target.host.address)

    def check_address(
        self, host: str, address: Address, port: int, scheme: str | None = None
    ) -> Verdict:
        """Judge the address a host resolved to. In a tunnel the scheme is unknown: None."""
        try:
            spelled = canonical_host(host)
        except UrlError as error:
            return Verdict(False, "malformed", f"The host is blocked: {error}; correct the URL")
        if spelled.address is not None and int(spelled.address) != int(address):
            reason = f"{spelled} is blocked: it is an address but was resolved to {address}"
            return Verdict(False, "mismatch", f"{reason}; no setting allows it")
        return self._judge(scheme, spelled, port, address)

    def kept_addresses(self, scheme: str | None, host: Host, port: int) -> tuple[Address, ...]:
        """Return where an own origin leads whatever a resolver says by now; else nothing."""
        return self.own_addresses.get(host.name, ()) if self._is_own(scheme, host, port) else ()

    def _judge(self, scheme: str | None, host: Host, port: int, address: Address | None) -> Verdict:
        where = f"{host}:{port}"
        open_question = address is None
        kind = None if address is None else kind_of(address)
        if self._is_own(scheme, host, port) and self._leads_as_judged(host, address):
            return Verdict(True, "own_origin", f"{where} belongs to this session")
        if host.name in METADATA_NAMES:
            reason = f"{where} is blocked: it is a cloud metadata service; no setting allows it"
            return Verdict(False, "metadata", reason)
        is_here = host.is_localhost if address is None else _is_this_machine(address)
        if is_here and port in self.blocked_ports:
            reason = f"{where} is blocked: the port is Pilothouse's own or another session's"
            return Verdict(False, "blocked_port", f"{reason}; no setting allows it")
        # A listed name is trusted as far as the local network, but never to the addresses that
        # hand out credentials: those must be listed as addresses.
        is_trap = host.address is None and kind in ("link_local", "special")
        if self.allowed_hosts is not None and not is_trap:
            if any(pattern.matches(host, port) for pattern in self._patterns):
                return Verdict(True, "allowed_host", f"{where} is listed", open_question)
            reason = f"{where} is blocked: only hosts listed in ALLOWED_HOSTS are open"
            return Verdict(False, "not_listed", f"{reason}; list {host} there to allow it")
        if host.is_localhost and kind in (None, "loopback"):
            if self.development:
                return Verdict(True, "localhost", f"{where} is this machine", open_question)
            reason = f"{where} is blocked: it is this machine, which is open only in development"
            fix = f"set PILOTHOUSE_ENV=development or list {host} in ALLOWED_HOSTS"
            return Verdict(False, "loopback", f"{reason}; {fix} to allow it")
        if kind is None:
            return Verdict(True, "unresolved", f"{where} has yet to be resolved", open_question)
        if host.is_localhost:
            reason = f"{where} is blocked: it resolved to {address}, not to this machine"
            return Verdict(False, "localhost", f"{reason}; correct the hosts file")
        if kind == "public":
            return Verdict(True, "public", f"{where} is a public address")
        resolved = "it is" if host.address is not None else f"it resolved to {address},"
        reason = f"{where} is blocked: {resolved} {_KIND_IN_WORDS[kind]}"
        fix = f"list {host} in ALLOWED_HOSTS to allow it"
        return Verdict(
            False, kind, f"{reason}; {'no setting lets a name lead there' if is_trap else fix}"
        )

    def _leads_as_judged(self, host: Host, address: Address | None) -> bool:
        """Tell whether an own host's address is the one that it had when it was judged."""
        if address is None or host.address is not None:
            return True  # as spelled, there is nothing that could have changed
        if host.is_localhost:
            return kind_of(address) == "loopback"
        return address in self.own_addresses.get(host.name, ())

    def _is_own(self, scheme: str | None, host: Host, port: int) -> bool:
        schemes = ("http", "https") if scheme is None else (scheme,)
        return any(_origin(one, host, port) in self._own for one in schemes)


def loopback_only(host: str, addresses: Iterable[Address]) -> Verdict:
    """Judge a debugging port's host: every address it resolved to must be this machine's own."""
    resolved = tuple(addresses)
    shown = _shown(host)
    if not resolved:
        return Verdict(False, "unresolved", f"{shown} is blocked: it did not resolve; correct it")
    for address in resolved:
        if kind_of(address) != "loopback":
            reason = f"{shown} is blocked: {address} is {_KIND_IN_WORDS[kind_of(address)]}"
            fix = "use 127.0.0.1, or set CDP_SECURITY_LOCALONLY=false to allow it"
            return Verdict(False, "not_loopback", f"{reason}, not loopback; {fix}")
    return Verdict(True, "loopback", f"{shown} is this machine")
