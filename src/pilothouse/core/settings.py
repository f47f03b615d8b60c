"""Every setting of Pilothouse, declared once: name, type, default, unit, help, variable, flag.

The command line wins over the environment, the environment over the default. Each setting has the
flag of its own name everywhere (`cdp_port` is `--cdp-port`); a command may add the short spelling
of its spec (`pilothouse observe --port`). Standard library only, because the command line must be
parsed before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS = ("observe", "e2e", "intercept", "bookmarks", "timeline")
"""The groups that `--tools` chooses from, in the order in which they are listed."""

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}


class BadSetting(ValueError):
    """A value that a setting cannot have; the message names the setting and what it takes."""


@dataclass(frozen=True, slots=True)
class About:
    """The facts declared of a setting, beside its name, type and default."""

    help: str
    env: tuple[str, ...] = ()
    unit: str = ""
    short: Mapping[str, str] = field(default_factory=dict)
    """Command → the flag by which that command's own spec knows the setting."""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    secret: bool = False
    group: str = ""
    separators: str = ","
    """Characters between the values of a list in one variable."""


def _setting(default: Any, help: str, env: str = "", **about: Any) -> Any:
    names = tuple(env.split())
    return field(default=default, metadata={"about": About(help=help, env=names, **about)})


def _port(default: int, help: str, env: str, **about: Any) -> Any:
    return _setting(default, help, env, least=0, most=65535, unit="port", **about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process or session."""

    # Pilothouse itself
    home: str = _setting(
        "", "Folder for all state instead of the XDG directories", "PILOTHOUSE_HOME"
    )
    environment: str = _setting(
        "development",
        "production demands authentication and turns rate limits on",
        "PILOTHOUSE_ENV NODE_ENV",
        choices=("development", "production"),
    )
    log_level: str = _setting(
        "info",
        "Least level that is logged to stderr",
        "LOG_LEVEL",
        choices=("debug", "info", "warn", "error"),
    )
    mcp_debug: bool = _setting(
        False, "Log at debug level, as the intercept spec has it", "MCP_DEBUG"
    )
    tools: tuple[str, ...] = _setting(
        (),
        "Groups of tools to serve; without it all, bookmarks once a Chrome is paired",
        "PILOTHOUSE_TOOLS",
        choices=GROUPS,
    )
    profile: str = _setting(
        "default",
        "default serves the tools most tasks need, full serves all",
        "PILOTHOUSE_PROFILE",
        choices=("default", "full"),
    )
    output_schema: bool = _setting(
        False,
        "Send outputSchema in tools/list, which costs a model tokens",
        "PILOTHOUSE_OUTPUT_SCHEMA",
    )
    redact: tuple[str, ...] = _setting(
        (),
        "RE2 pattern of text to mask wherever it is shown; repeatable",
        "PILOTHOUSE_REDACT",
        separators="",
    )
    reveal_secrets: bool = _setting(
        False, "Show secrets unmasked in answers, exports and logs", "PILOTHOUSE_REVEAL_SECRETS"
    )
    roots: tuple[str, ...] = _setting(
        (),
        "Folders in which a session may run commands, beside the working directory",
        "PILOTHOUSE_ROOTS",
        separators=":,",
    )
    browser: str = _setting("", "Chrome, Chromium or Edge to start", "PILOTHOUSE_BROWSER")
    keep_days: int = _setting(
        7,
        "Files of sessions, packets and logs are removed at this age; 0 keeps them",
        "PILOTHOUSE_KEEP_DAYS",
        unit="days",
        least=0,
    )
    keep_mb: int = _setting(
        2048,
        "What all of these may take on disk; beyond it the oldest that nobody uses are removed;"
        " 0 is no limit",
        "PILOTHOUSE_KEEP_MB",
        unit="MB",
        least=0,
    )
    log_mb: int = _setting(
        100,
        "What one log of a dev server may take; its older half makes room",
        "PILOTHOUSE_LOG_MB",
        unit="MB",
        least=1,
    )

    # Transports
    transport: str = _setting(
        "stdio", "How a group's own command is reached", "TRANSPORT_MODE", choices=("stdio", "http")
    )
    http_host: str = _setting(
        "127.0.0.1",
        "Address to listen on; other than loopback only with authentication",
        "PILOTHOUSE_HTTP_HOST",
        short={"serve": "--host"},
    )
    http_port: int = _port(
        4000,
        "HTTP port of the hub; 0 takes any free one",
        "PILOTHOUSE_HTTP_PORT",
        short={"serve": "--port"},
    )
    e2e_http_port: int = _port(
        3000,
        "HTTP port of `pilothouse e2e` over HTTP",
        "PORT",
        short={"e2e": "--port"},
        group="e2e",
    )
    public_url: str = _setting(
        "",
        "URL by which clients reach this server, when it is not loopback",
        "PILOTHOUSE_PUBLIC_URL",
    )
    tls_cert: str = _setting(
        "", "File with the certificate to serve HTTPS with, and its chain", "PILOTHOUSE_TLS_CERT"
    )
    tls_key: str = _setting("", "File with the certificate's private key", "PILOTHOUSE_TLS_KEY")
    local_users: str = _setting(
        "own",
        "Who may connect to loopback where no authentication is configured: own is your own user"
        " and root, all asks everybody for the token that `pilothouse token --http` prints",
        "PILOTHOUSE_LOCAL_USERS",
        choices=("own", "all"),
    )
    allowed_origins: tuple[str, ...] = _setting(
        (),
        "Further sites whose pages may call this server, such as http://localhost:6274",
        "PILOTHOUSE_ALLOWED_ORIGINS",
    )
    metrics_port: int = _port(
        -1,
        "Serve /metrics on this port when the transport is stdio; -1 is off",
        "PILOTHOUSE_METRICS_PORT",
    )

    # The hub
    worker: str = _setting(
        "builtin",
        "What serves a session: builtin, playwright-mcp, playwright-mcp:FOLDER of the npm package,"
        " or any MCP server as stdio:COMMAND or http:COMMAND",
        "PILOTHOUSE_WORKER",
    )
    worker_env: tuple[str, ...] = _setting(
        (),
        "Name of a variable of the hub's own environment that workers get beside the usual ones;"
        " repeatable",
        "PILOTHOUSE_WORKER_ENV",
    )
    worker_idle: int = _setting(
        600,
        "A worker that no call needed for this long is ended; its session stays",
        "PILOTHOUSE_WORKER_IDLE",
        unit="s",
        least=1,
    )
    hub_idle: int = _setting(
        600,
        "A hub that a relay started leaves when nobody needed it for this long",
        "PILOTHOUSE_HUB_IDLE",
        unit="s",
        least=1,
    )
    max_sessions: int = _setting(
        1000,
        "Sessions that the hub knows at once",
        "PILOTHOUSE_MAX_SESSIONS",
        unit="sessions",
        least=1,
    )
    max_workers: int = _setting(
        200,
        "Worker processes that run at once; idle ones make room for others",
        "PILOTHOUSE_MAX_WORKERS",
        unit="workers",
        least=1,
    )
    max_memory: int = _setting(
        0,
        "Memory that all workers may use, with their browsers; 0 is three quarters of the machine",
        "PILOTHOUSE_MAX_MEMORY",
        unit="MB",
        least=0,
    )
    registry: str = _setting(
        "",
        "Share the sessions with other gateways: redis://[:PASSWORD@]HOST[:PORT][/DATABASE];"
        " in memory unless set",
        "PILOTHOUSE_REGISTRY",
        secret=True,
    )
    peer_url: str = _setting(
        "",
        "Where other gateways of the same registry reach this one, unless it is its own address",
        "PILOTHOUSE_PEER_URL",
    )

    # Who may call, and how often
    http_token: str = _setting(
        "",
        "Token that every HTTP client must send as a bearer token, instead of an OAuth server's",
        "PILOTHOUSE_HTTP_TOKEN",
        secret=True,
    )
    oauth_issuer: str = _setting("", "Issuer of the access tokens", "OAUTH_ISSUER")
    oauth_audience: str = _setting("", "Audience that a token must name", "OAUTH_AUDIENCE")
    oauth_jwks_url: str = _setting("", "Where the issuer publishes its keys", "OAUTH_JWKS_URL")
    rate_sessions_per_min: int = _setting(
        -1,
        "startSession calls a minute and principal; 0 is off, -1 is 10 in production and off else",
        "PILOTHOUSE_RATE_SESSIONS_PER_MIN",
        unit="calls/min",
        least=-1,
    )
    rate_calls_per_min: int = _setting(
        -1,
        "Tool calls a minute and principal; 0 is off, -1 is 100 in production and off else",
        "PILOTHOUSE_RATE_CALLS_PER_MIN",
        unit="calls/min",
        least=-1,
    )

    # observe
    cdp_host: str = _setting(
        "127.0.0.1",
        "Host of the browser's debugging port",
        "CDP_HOST",
        short={"observe": "--host"},
        group="observe",
    )
    cdp_port: int = _port(
        9222,
        "The browser's debugging port",
        "CDP_PORT",
        short={"observe": "--port", "chrome": "--port"},
        group="observe",
    )
    cdp_security_localonly: bool = _setting(
        True,
        "Refuse to attach to a browser that is not on this machine",
        "CDP_SECURITY_LOCALONLY",
        short={"observe": "--localonly"},
        group="observe",
    )
    default_buffer_size: int = _setting(
        10_000,
        "Events kept for each observed target",
        "DEFAULT_BUFFER_SIZE",
        short={"observe": "--buffer-size"},
        unit="events",
        least=1,
        most=10_000_000,
        group="observe",
    )
    default_ttl_sec: int = _setting(
        3600,
        "How long a target's events are kept after the last one",
        "DEFAULT_TTL_SEC",
        short={"observe": "--ttl-sec"},
        unit="s",
        least=1,
        group="observe",
    )

    store: str = _setting(
        "",
        "Keep all observed events in a file as well: sqlite:PATH",
        "PILOTHOUSE_STORE",
        group="observe",
    )

    # e2e
    allowed_hosts: tuple[str, ...] | None = _setting(
        None,
        "Hosts that a session's browser may visit beside its own app; unset allows public ones",
        "ALLOWED_HOSTS",
        group="e2e",
    )
    server_command_path: tuple[str, ...] | None = _setting(
        None,
        "Commands that startSession may run; unset allows safe ones in development, none else",
        "SERVER_COMMAND_PATH",
        group="e2e",
        separators=":,",
    )
    session_idle_sec: int = _setting(
        600,
        "A session that no tool call touched for this long is ended",
        "PILOTHOUSE_SESSION_IDLE_SEC",
        unit="s",
        least=1,
        group="e2e",
    )
    session_max_sec: int = _setting(
        3600,
        "A session is ended at this age",
        "PILOTHOUSE_SESSION_MAX_SEC",
        unit="s",
        least=1,
        group="e2e",
    )
    failure_picture: str = _setting(
        "image",
        "What the answer of a failed step has of the page: a small image, paths alone, or nothing",
        "PILOTHOUSE_FAILURE_PICTURE",
        choices=("image", "path", "none"),
        group="e2e",
    )

    # intercept
    packet_proxy_access_token: str = _setting(
        "",
        "Token filled in for intercept tools that are called without one on stdio",
        "PACKET_PROXY_ACCESS_TOKEN PACKETPROXY_ACCESS_TOKEN",
        secret=True,
        group="intercept",
    )
    read_only: bool = _setting(
        False,
        "Refuse every intercept tool that changes or sends something",
        "PILOTHOUSE_READ_ONLY",
        group="intercept",
    )
    history_mb: int = _setting(
        1024,
        "Size at which the oldest packets make room for newer ones",
        "PILOTHOUSE_HISTORY_MB",
        unit="MB",
        least=16,
        group="intercept",
    )
    upstream_ca: str = _setting(
        "",
        "File of authorities that the proxy trusts for servers, besides the usual ones",
        "PILOTHOUSE_UPSTREAM_CA",
        group="intercept",
    )
    client_cert: str = _setting(
        "",
        "File (PEM) with the certificate and key that the proxy shows to servers that ask for one",
        "PILOTHOUSE_CLIENT_CERT",
        group="intercept",
    )
    upstream_insecure: bool = _setting(
        False,
        "Let the proxy take any certificate that a server shows",
        "PILOTHOUSE_UPSTREAM_INSECURE",
        group="intercept",
    )
    config_port: int = _port(
        32349,
        "PacketProxyHub-compatible config endpoint",
        "PILOTHOUSE_CONFIG_PORT",
        group="intercept",
    )
    rest_port: int = _port(
        32350, "REST API of the intercept group", "PILOTHOUSE_REST_PORT", group="intercept"
    )

    # bookmarks
    bookmarks_port: int = _port(
        8765,
        "WebSocket port of the Chrome extension",
        "PILOTHOUSE_BOOKMARKS_PORT",
        group="bookmarks",
    )

    @property
    def production(self) -> bool:
        return self.environment == "production"


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting as the command line, the docs and the doctor see it."""

    name: str
    type: Any
    default: Any
    about: About

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def repeatable(self) -> bool:
        """Tell if it has several values: a list in a variable, a flag repeated in a command."""
        return "tuple" in str(self.type)

    def flags(self, command: str) -> list[str]:
        """Return all spellings that a command takes, the short one of its own spec first."""
        short = self.about.short.get(command)
        return [short, self.flag] if short else [self.flag]

    def parse(self, text: str, where: str) -> Any:
        """Parse the value of a text; raises BadSetting naming `where` it came from."""
        try:
            value = self._value(text.strip())
        except ValueError as error:
            raise BadSetting(f"{where}: {error}") from None
        return value

    def _value(self, text: str) -> Any:
        about = self.about
        if self.repeatable:
            for separator in about.separators[1:]:
                text = text.replace(separator, about.separators[0])
            parts = text.split(about.separators[0]) if about.separators else [text]
            return tuple(_one_of(part.strip(), about.choices) for part in parts if part.strip())
        if self.type is bool:
            if text.lower() not in _TRUE | _FALSE:
                raise ValueError(f"expected true or false, not {text!r}")
            return text.lower() in _TRUE
        if self.type is int:
            try:
                number = int(text)
            except ValueError:
                raise ValueError(f"expected a whole number, not {text!r}") from None
            if number != self.default and not _within(number, about):
                raise ValueError(f"expected {_range(about)}, not {number}")
            return number
        if about.choices:
            # NODE_ENV=test and LOG_LEVEL=WARNING are common: be exact, but not about case.
            return _one_of(text.lower(), about.choices)
        return text


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if choices and text not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, not {text!r}")
    return text


def _within(number: int, about: About) -> bool:
    return (about.least is None or number >= about.least) and (
        about.most is None or number <= about.most
    )


def _range(about: About) -> str:
    if about.most is None:
        return f"at least {about.least:g}"
    return f"{about.least:g} to {about.most:g}"


def _declared() -> tuple[Setting, ...]:
    hints = get_type_hints(Settings)

    def one(entry: Field[Any]) -> Setting:
        return Setting(entry.name, hints[entry.name], entry.default, entry.metadata["about"])

    return tuple(one(entry) for entry in fields(Settings))


SETTINGS: tuple[Setting, ...] = _declared()
BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
SECRET_VARIABLES = {one.name: one.about.env[0] for one in SETTINGS if one.about.secret}
"""Settings that nobody may see, and the variables by which a hub gets them from its relay."""


def resolve(given: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Make settings of parsed flags (`given`, by name) and the environment.

    Raises:
        BadSetting: a value cannot be used; the message names the variable and what it takes.
    """
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        if setting.name in given:
            values[setting.name] = given[setting.name]
            continue
        for variable in setting.about.env:
            text = environment.get(variable)
            # An empty variable means unset, except where "nothing" is itself a choice: an empty
            # ALLOWED_HOSTS allows no host at all.
            if text is None or (text == "" and setting.default is not None):
                continue
            if variable == "NODE_ENV" and text.strip().lower() not in setting.about.choices:
                continue  # other tools give it values of their own, such as "test"
            values[setting.name] = setting.parse(text, variable)
            break
    return Settings(**values)


def packed(settings: Settings) -> dict[str, Any]:
    """Return what differs from the defaults, as JSON can hold it: for another process of ours."""
    given = {setting.name: getattr(settings, setting.name) for setting in SETTINGS}
    return {name: value for name, value in given.items() if value != BY_NAME[name].default}


def unpacked(given: Mapping[str, Any]) -> Settings:
    """Return the settings that `packed` was given; its result may have been JSON on the way."""
    values: dict[str, Any] = {name: given[name] for name in BY_NAME if name in given}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Settings(**{**values, **lists})
