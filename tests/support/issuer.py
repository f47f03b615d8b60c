"""A token issuer for tests: real keys, a real JWKS endpoint on loopback, and forged tokens too."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm, get_default_algorithms

type PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

ABSENT: Final = object()
"""As the value of a claim or header parameter: leave it out of the token."""

AUDIENCE: Final = "https://pilothouse.example/mcp"
GATE_SECONDS: Final = 20


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """The RSA key of that name; generated once per run, because it is slow."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(name: str, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def public_jwk(kid: str, key: PrivateKey, **members: object) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwk.pop("key_ops", None)
    return jwk | {"kid": kid, "use": "sig"} | members


def compact(
    header: Mapping[str, object] | bytes,
    payload: Mapping[str, object] | bytes,
    sign: Callable[[bytes], bytes],
) -> str:
    """A JWS in compact form, of anything: no library that would refuse to build a bad one."""

    def segment(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    def as_json(part: Mapping[str, object] | bytes) -> bytes:
        if isinstance(part, bytes):
            return part
        return json.dumps({k: v for k, v in part.items() if v is not ABSENT}).encode()

    signed = segment(as_json(header)) + b"." + segment(as_json(payload))
    return (signed + b"." + segment(sign(signed))).decode()


def signer(algorithm: str, key: PrivateKey) -> Callable[[bytes], bytes]:
    implementation = get_default_algorithms()[algorithm]
    return lambda message: implementation.sign(message, key)


class Issuer:
    """Use as a context manager; the endpoint answers until the block ends or `stop` is called."""

    def __init__(self, clock: Callable[[], float] = time.time, audience: str = AUDIENCE) -> None:
        self.clock = clock
        self.audience = audience
        self.keys: dict[str, PrivateKey] = {"rsa": rsa_key("rsa"), "ec": ec_key("ec")}
        self.extra_jwks: list[dict[str, Any]] = []
        self.stranger_url = ""
        """Where an issuer publishes its keys that nobody here trusts."""
        self.fetches = 0
        self._fetched = threading.Condition()
        self.down = False
        self.redirect_to: str | None = None
        self.body: bytes | None = None
        self.gate = threading.Event()
        """While clear, a fetch is counted and then waits for its answer."""
        self.gate.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.jwks_url = f"{self.url}/jwks.json"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port: from now on connections are refused."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def wait_for_fetches(self, count: int) -> None:
        """Block until the JWKS was asked for that many times; to be called in a thread."""
        with self._fetched:
            assert self._fetched.wait_for(lambda: self.fetches >= count, GATE_SECONDS)

    def rotate(self, kid: str) -> None:
        """Withdraw every key and publish one new RSA key under `kid`."""
        self.keys = {kid: rsa_key(kid)}

    def jwks(self) -> dict[str, Any]:
        return {"keys": [*(public_jwk(k, v) for k, v in self.keys.items()), *self.extra_jwks]}

    def claims(self, **changes: object) -> dict[str, object]:
        now = int(self.clock())
        return {
            "iss": self.url,
            "aud": self.audience,
            "sub": "alice",
            "client_id": "agent",
            "scope": "mcp:execute",
            "iat": now,
            "exp": now + 300,
        } | changes

    def mint(
        self,
        *,
        alg: str = "RS256",
        header: Mapping[str, object] | None = None,
        key: PrivateKey | None = None,
        **claims: object,
    ) -> str:
        """A token that is good but for what the arguments change."""
        kid = "ec" if alg.startswith("ES") else next(iter(self.keys))
        full_header = {"alg": alg, "typ": "JWT", "kid": kid} | dict(header or {})
        sign = signer(alg, key or self.keys.get(str(full_header["kid"]), self.keys[kid]))
        return compact(full_header, self.claims(**claims), sign)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with issuer._fetched:
                    issuer.fetches += 1
                    issuer._fetched.notify_all()
                issuer.gate.wait(GATE_SECONDS)
                if issuer.redirect_to is not None:
                    self.send_response(302)
                    self.send_header("location", issuer.redirect_to)
                    self.end_headers()
                    return
                body = issuer.body or json.dumps(issuer.jwks()).encode()
                self.send_response(503 if issuer.down else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet: the tests count fetches instead."""

        return Handler


# The tokens of the acceptance table: by name, how an issuer comes to mint each.

type Mint = Callable[[Issuer], str]


def token(**changes: Any) -> Mint:
    return lambda issuer: issuer.mint(**changes)


def at(name: str, seconds: float) -> Mint:
    """A time claim that many seconds from now."""
    return lambda issuer: token(**{name: int(issuer.clock()) + seconds})(issuer)


def claim(name: str, change: Callable[[str], object]) -> Mint:
    """A token with one claim made from the right value."""
    return lambda issuer: token(**{name: change(str(issuer.claims()[name]))})(issuer)


def raw_claim(name: str, text: str) -> Mint:
    """A token with one claim as JSON text that `json.dumps` would not write."""

    def mint(issuer: Issuer) -> str:
        payload = json.dumps(issuer.claims(**{name: "@@"})).replace('"@@"', text)
        return raw({"alg": "RS256", "kid": "rsa"}, payload.encode())(issuer)

    return mint


def raw(header: Mapping[str, object] | bytes, payload: bytes | None = None) -> Mint:
    """Header and payload as given, signed with the issuer's RSA key."""
    sign = signer("RS256", rsa_key("rsa"))
    return lambda issuer: compact(header, payload or issuer.claims(), sign)


def by_stranger(**header: object) -> Mint:
    """The right claims signed by somebody else, with a header that points at that key."""

    def mint(issuer: Issuer) -> str:
        pointed = {k: issuer.stranger_url if v == "URL" else v for k, v in header.items()}
        return issuer.mint(header=pointed, key=rsa_key("stranger"))

    return mint


def hmac_signed(alg: str, secret: bytes, kid: str = "rsa") -> Mint:
    """What a verifier takes that lets the token choose between HMAC and public keys."""
    header = {"alg": alg, "typ": "JWT", "kid": kid}
    digest = f"sha{alg[2:]}"
    return lambda i: compact(header, i.claims(), lambda m: hmac.digest(secret, m, digest))


def unsigned(alg: object) -> Mint:
    return lambda issuer: compact({"alg": alg, "kid": "rsa"}, issuer.claims(), lambda _: b"")


def edited(edit: Callable[[list[str]], str]) -> Mint:
    """A good token, its three segments edited."""
    return lambda issuer: edit(issuer.mint().split("."))


def padded(chars: int) -> Mint:
    return lambda issuer: issuer.mint(padding="x" * (chars * 3 // 4))


RSA_PEM: Final = (
    rsa_key("rsa").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
)
STRANGERS_JWK: Final = public_jwk("rsa", rsa_key("stranger"))

# Beside the two good keys: what a JWKS may hold that must verify nothing (or RS256 only).
ODD_JWKS: Final[list[dict[str, Any]]] = [
    public_jwk("for-encryption", rsa_key("enc"), use="enc"),
    RSAAlgorithm.to_jwk(rsa_key("leaked"), as_dict=True) | {"kid": "leaked", "use": "sig"},
    public_jwk("only-rs256", rsa_key("only-rs256"), alg="RS256"),
    public_jwk("short", rsa_key("short", 1024)),
    public_jwk("p384", ec_key("p384", ec.SECP384R1)),
    {"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "use": "sig"},
    {"kty": "RSA", "kid": "broken", "n": 5, "e": []},
    {"kid": "empty"},
]


GOOD: Final[dict[str, Mint]] = {
    "RS256": token(),
    "PS256": token(alg="PS256"),
    "ES256": token(alg="ES256"),
    "key limited to RS256": token(header={"kid": "only-rs256"}, key=rsa_key("only-rs256")),
    "aud list of one": claim("aud", lambda aud: [aud]),
    "aud list with others": claim("aud", lambda aud: ["https://other.example", aud]),
    "expired 60 s ago": at("exp", -60),
    "exp as a fraction": at("exp", 0.5),
    "nbf in 60 s": at("nbf", 60),
    "iat in 60 s": at("iat", 60),
    "no iat": token(iat=ABSENT),
    "scope among others": token(scope="openid mcp:execute email"),
    "scp list": token(scope=ABSENT, scp=["mcp:execute"]),
    "scp text": token(scope=ABSENT, scp="openid mcp:execute"),
    "typ at+jwt": token(header={"typ": "at+jwt"}),
    "no typ": token(header={"typ": ABSENT}),
    "azp for client_id": token(client_id=ABSENT, azp="agent"),
    "no client_id": token(client_id=ABSENT),
    "foreign jku, our key": token(header={"jku": "https://evil.example/jwks"}),
    "foreign x5u, our key": token(header={"x5u": "https://evil.example/x5u"}),
    "foreign jwk, our key": token(header={"jwk": STRANGERS_JWK}),
    "sub beyond ASCII": token(sub="ünïcode-主体"),
    "long, within the limit": padded(11_000),
}

REFUSED: Final[dict[str, Mint]] = {
    # Unsigned, or signed by what is no signature key.
    "alg none": unsigned("none"),
    "alg None": unsigned("None"),
    "alg NONE": unsigned("NONE"),
    "alg empty": unsigned(""),
    "alg null": unsigned(None),
    "alg list": unsigned(["RS256"]),
    "alg absent": unsigned(ABSENT),
    "alg none, signature kept": raw({"alg": "none", "kid": "rsa"}),
    "HS256 with the public key": hmac_signed("HS256", RSA_PEM),
    "HS384 with the public key": hmac_signed("HS384", RSA_PEM),
    "HS512 with the public key": hmac_signed("HS512", RSA_PEM),
    "HS256 with the bare public key": hmac_signed("HS256", RSA_PEM.strip()),
    "HS256 with a shared key in the JWKS": hmac_signed("HS256", b"secret", "shared"),
    "HS256 with an empty key": hmac_signed("HS256", b"", "/dev/null"),
    "RS512": token(alg="RS512"),
    "RS384": token(alg="RS384"),
    "PS512": token(alg="PS512"),
    "ES384": token(alg="ES384", header={"kid": "p384"}, key=ec_key("p384", ec.SECP384R1)),
    "ES256 under an RSA kid": token(alg="ES256", header={"kid": "rsa"}, key=ec_key("ec")),
    "RS256 under an EC kid": token(header={"kid": "ec"}, key=rsa_key("rsa")),
    "ES256 under a P-384 kid": raw({"alg": "ES256", "kid": "p384"}),
    "PS256 under a key for RS256": token(
        alg="PS256", header={"kid": "only-rs256"}, key=rsa_key("only-rs256")
    ),
    "ES256 signature of zeros": lambda i: compact(
        {"alg": "ES256", "kid": "ec"}, i.claims(), lambda _: bytes(64)
    ),
    "key for encryption": token(header={"kid": "for-encryption"}, key=rsa_key("enc")),
    "key whose private half is public": token(header={"kid": "leaked"}, key=rsa_key("leaked")),
    "key of 1024 bits": token(header={"kid": "short"}, key=rsa_key("short", 1024)),
    "key that is broken": token(header={"kid": "broken"}),
    "another issuer's key": by_stranger(),
    "signature empty": edited(lambda t: f"{t[0]}.{t[1]}."),
    "signature cut": edited(lambda t: f"{t[0]}.{t[1]}.{t[2][:-4]}"),
    "payload changed": lambda i: ".".join(
        (
            i.mint().split(".")[0],
            i.mint(sub="root").split(".")[1],
            i.mint().split(".")[2],
        )
    ),
    # Which key.
    "kid absent": token(header={"kid": ABSENT}),
    "kid empty": token(header={"kid": ""}),
    "kid unknown": token(header={"kid": "nobody"}),
    "kid a path": token(header={"kid": "../../../../dev/null"}),
    "kid a file URL": token(header={"kid": "file:///etc/passwd"}),
    "kid the stranger's URL": by_stranger(kid="URL"),
    "kid a number": raw({"alg": "RS256", "kid": 1}),
    "kid a list": raw({"alg": "RS256", "kid": ["rsa"]}),
    "kid null": raw({"alg": "RS256", "kid": None}),
    "jku of the stranger": by_stranger(jku="URL"),
    "jku with the stranger's kid": by_stranger(jku="URL", kid="theirs"),
    "x5u of the stranger": by_stranger(x5u="URL"),
    "jwk of the stranger": by_stranger(jwk=STRANGERS_JWK),
    "jwk of the stranger, no kid": by_stranger(jwk=STRANGERS_JWK, kid=ABSENT),
    "crit unknown": token(header={"crit": ["exp"], "exp": 1}),
    "b64 false": token(header={"b64": False, "crit": ["b64"]}),
    "typ logout": token(header={"typ": "logout+jwt"}),
    "typ a number": raw({"alg": "RS256", "kid": "rsa", "typ": 7}),
    # For whom.
    "aud absent": token(aud=ABSENT),
    "aud null": token(aud=None),
    "aud empty": token(aud=""),
    "aud empty list": token(aud=[]),
    "aud another": token(aud="https://other.example/mcp"),
    "aud with a slash": claim("aud", lambda aud: aud + "/"),
    "aud a prefix": claim("aud", lambda aud: aud[:-1]),
    "aud in capitals": claim("aud", str.upper),
    "aud two in one text": claim("aud", lambda aud: f"https://other.example {aud}"),
    "aud list of others": token(aud=["https://other.example", "account"]),
    "aud list with ours inside an entry": claim("aud", lambda aud: [f"{aud}/more", f"x{aud}"]),
    "aud list in a list": claim("aud", lambda aud: [[aud]]),
    "aud list with a number": claim("aud", lambda aud: [aud, 1]),
    "aud object": claim("aud", lambda aud: {aud: True}),
    # From whom.
    "iss absent": token(iss=ABSENT),
    "iss null": token(iss=None),
    "iss another": token(iss="https://issuer.example"),
    "iss with a slash": claim("iss", lambda iss: iss + "/"),
    "iss a prefix": claim("iss", lambda iss: iss[:-1]),
    "iss in capitals": claim("iss", str.upper),
    "iss list": claim("iss", lambda iss: [iss]),
    # About whom.
    "sub absent": token(sub=ABSENT),
    "sub null": token(sub=None),
    "sub empty": token(sub=""),
    "sub a number": token(sub=7),
    "sub a list": token(sub=["alice"]),
    "sub with a newline": token(sub="alice\nroot"),
    "sub a lone surrogate": token(sub="\ud800"),
    "client_id empty": token(client_id=""),
    "client_id a number": token(client_id=7),
    "client_id null": token(client_id=None),
    # When.
    "expired 61 s ago": at("exp", -61),
    "expired long ago": token(exp=1),
    "exp absent": token(exp=ABSENT),
    "exp null": token(exp=None),
    "exp text": token(exp="9999999999"),
    "exp true": token(exp=True),
    "exp NaN": raw_claim("exp", "NaN"),
    "exp Infinity": raw_claim("exp", "Infinity"),
    "exp too large": raw_claim("exp", "1" + "0" * 400),
    "exp too many digits": raw_claim("exp", "1" * 5000),
    "nbf in 61 s": at("nbf", 61),
    "nbf text": token(nbf="0"),
    "nbf null": token(nbf=None),
    "nbf true": token(nbf=True),
    "nbf NaN": raw_claim("nbf", "NaN"),
    "iat in 61 s": at("iat", 61),
    "iat text": token(iat="yesterday"),
    # Not a JWT at all.
    "opaque text": lambda _: "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "two segments": edited(lambda t: f"{t[0]}.{t[1]}"),
    "four segments": edited(lambda t: ".".join([*t, t[2]])),
    "five segments": edited(lambda t: ".".join([*t, t[1], t[2]])),
    "dots": lambda _: "..",
    "JSON": lambda i: json.dumps(i.claims()),
    "in quotes": lambda i: f'"{i.mint()}"',
    "two in one header": lambda i: f"{i.mint()}, Bearer {i.mint()}",
    "extra space": lambda i: f" {i.mint()}",
    "beyond ASCII": lambda i: i.mint() + "é",
    "header not JSON": raw(b"not json"),
    "header a list": raw(b'["RS256"]'),
    "header not UTF-8": raw(b"\xff\xfe"),
    "header nested too deep": raw(b'{"alg":' + b"[" * 8000),
    "payload not JSON": raw({"alg": "RS256", "kid": "rsa"}, b"hello"),
    "payload a list": raw({"alg": "RS256", "kid": "rsa"}, b"[]"),
    "payload nested too deep": raw({"alg": "RS256", "kid": "rsa"}, b"[" * 8000),
    "longer than the limit": padded(17_000),
}

FORBIDDEN: Final[dict[str, Mint]] = {
    "no scope": token(scope=ABSENT),
    "scope empty": token(scope=""),
    "another scope": token(scope="mcp:read"),
    "scope a prefix": token(scope="mcp:exec"),
    "scope with a suffix": token(scope="mcp:execute:all"),
    "scope in capitals": token(scope="MCP:EXECUTE"),
    "scopes split by commas": token(scope="openid,mcp:execute"),
    "scopes split by a tab": token(scope="openid\tmcp:execute"),
    "scope object": token(scope={"mcp:execute": True}),
    "scp with both in one entry": token(scope=ABSENT, scp=["openid mcp:execute"]),
    "empty scope beside scp": token(scope="", scp=["mcp:execute"]),
}
