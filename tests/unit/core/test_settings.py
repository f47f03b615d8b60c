"""Settings: where a value comes from, what a bad one is called, and that none is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.settings import BY_NAME, GROUPS, SETTINGS, BadSetting, Settings, resolve

SPECIFIED = (
    "CDP_HOST CDP_PORT CDP_SECURITY_LOCALONLY LOG_LEVEL DEFAULT_BUFFER_SIZE DEFAULT_TTL_SEC"
    " TRANSPORT_MODE NODE_ENV ALLOWED_HOSTS SERVER_COMMAND_PATH PACKET_PROXY_ACCESS_TOKEN"
    " MCP_DEBUG PORT OAUTH_ISSUER OAUTH_AUDIENCE OAUTH_JWKS_URL"
).split()
"""Every variable that the five specs name."""

DECLARED = [variable for setting in SETTINGS for variable in setting.about.env]


def from_environment(**environment: str) -> Settings:
    return resolve({}, environment)


def test_nothing_given_means_every_default() -> None:
    assert resolve({}, {}) == Settings()


@pytest.mark.parametrize(
    ("name", "variable", "text", "from_env", "given"),
    [
        ("cdp_host", "CDP_HOST", " 10.0.0.1 ", "10.0.0.1", "::1"),
        ("cdp_port", "CDP_PORT", "9333", 9333, 9444),
        ("cdp_security_localonly", "CDP_SECURITY_LOCALONLY", "false", False, True),
        ("mcp_debug", "MCP_DEBUG", "1", True, False),
        ("log_level", "LOG_LEVEL", "ERROR", "error", "debug"),
        ("transport", "TRANSPORT_MODE", "http", "http", "stdio"),
        ("tools", "PILOTHOUSE_TOOLS", "e2e, observe", ("e2e", "observe"), ("bookmarks",)),
        ("allowed_hosts", "ALLOWED_HOSTS", "a.com,b.com", ("a.com", "b.com"), ("c.com",)),
        ("redact", "PILOTHOUSE_REDACT", "a,b:c", ("a,b:c",), ("x", "y")),
    ],
)
def test_the_command_line_wins_over_the_environment_and_that_over_the_default(
    name: str, variable: str, text: str, from_env: Any, given: Any
) -> None:
    default = BY_NAME[name].default
    assert default != from_env
    assert getattr(resolve({}, {}), name) == default
    assert getattr(resolve({}, {variable: text}), name) == from_env
    assert getattr(resolve({name: given}, {variable: text}), name) == given


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("CDP_PORT", "abc", "expected a whole number, not 'abc'"),
        ("CDP_PORT", "9222.5", "expected a whole number"),
        ("CDP_PORT", "65536", "expected 0 to 65535, not 65536"),
        ("CDP_PORT", "-1", "expected 0 to 65535, not -1"),
        ("CDP_PORT", "9" * 5_000, "expected a whole number"),
        ("PORT", "http", "expected a whole number"),
        ("DEFAULT_BUFFER_SIZE", "0", "expected 1 to"),
        ("DEFAULT_TTL_SEC", "0", "expected at least 1, not 0"),
        ("CDP_SECURITY_LOCALONLY", "maybe", "expected true or false, not 'maybe'"),
        ("MCP_DEBUG", "2", "expected true or false"),
        ("LOG_LEVEL", "loud", "expected one of debug, info, warn, error, not 'loud'"),
        ("TRANSPORT_MODE", "sse", "expected one of stdio, http"),
        ("PILOTHOUSE_ENV", "test", "expected one of development, production"),
        ("PILOTHOUSE_TOOLS", "observe,e3e", "not 'e3e'"),
        ("PILOTHOUSE_RATE_CALLS_PER_MIN", "-2", "expected at least -1"),
        ("PILOTHOUSE_METRICS_PORT", "-2", "expected 0 to 65535"),
    ],
)
def test_a_bad_value_is_refused_naming_the_variable_and_what_it_takes(
    variable: str, text: str, expected: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        resolve({}, {variable: text})
    assert str(caught.value).startswith(f"{variable}: ")
    assert expected in str(caught.value)


def test_a_bad_variable_does_not_matter_when_the_command_line_decides() -> None:
    assert resolve({"cdp_port": 1}, {"CDP_PORT": "abc"}).cdp_port == 1


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "yes", "on"])
def test_yes_has_many_spellings(text: str) -> None:
    assert from_environment(MCP_DEBUG=text).mcp_debug is True


@pytest.mark.parametrize("text", ["0", "false", "False", "no", "off"])
def test_no_has_many_spellings(text: str) -> None:
    assert from_environment(CDP_SECURITY_LOCALONLY=text).cdp_security_localonly is False


def test_other_tools_values_of_node_env_are_ignored() -> None:
    assert from_environment(NODE_ENV="test").environment == "development"
    assert from_environment(NODE_ENV="staging").environment == "development"
    assert from_environment(NODE_ENV="production").production


def test_node_env_in_capitals_is_production_too() -> None:
    assert from_environment(PILOTHOUSE_ENV="Production").production
    assert from_environment(NODE_ENV="Production").production, "else it would start without a lock"


def test_our_own_variable_wins_over_node_env() -> None:
    both = from_environment(PILOTHOUSE_ENV="development", NODE_ENV="production")
    assert both.environment == "development"
    assert not both.production
    assert from_environment(PILOTHOUSE_ENV="production", NODE_ENV="development").production
    assert from_environment(PILOTHOUSE_ENV="", NODE_ENV="production").production


@pytest.mark.parametrize(
    ("name", "variable"),
    [("allowed_hosts", "ALLOWED_HOSTS"), ("server_command_path", "SERVER_COMMAND_PATH")],
)
def test_an_empty_list_allows_nothing_while_an_unset_one_is_unset(name: str, variable: str) -> None:
    assert getattr(resolve({}, {}), name) is None
    assert getattr(resolve({}, {variable: ""}), name) == ()
    assert getattr(resolve({}, {variable: " , "}), name) == ()


@pytest.mark.parametrize("variable", ["CDP_PORT", "LOG_LEVEL", "MCP_DEBUG", "PILOTHOUSE_TOOLS"])
def test_an_empty_variable_means_unset(variable: str) -> None:
    assert resolve({}, {variable: ""}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "name", "values"),
    [
        ("ALLOWED_HOSTS", "a.com, b.com:8080,,", "allowed_hosts", ("a.com", "b.com:8080")),
        ("SERVER_COMMAND_PATH", "/a:/b,/c", "server_command_path", ("/a", "/b", "/c")),
        ("PILOTHOUSE_ROOTS", "/srv/a b:/srv/c", "roots", ("/srv/a b", "/srv/c")),
        ("PILOTHOUSE_REDACT", r"\d{3,4}:[a-z]", "redact", (r"\d{3,4}:[a-z]",)),
        ("PILOTHOUSE_ALLOWED_ORIGINS", "http://a:1,b", "allowed_origins", ("http://a:1", "b")),
    ],
)
def test_lists_are_split_at_their_own_separators(
    variable: str, text: str, name: str, values: tuple[str, ...]
) -> None:
    assert getattr(resolve({}, {variable: text}), name) == values


def test_off_switches_outside_the_range_are_taken() -> None:
    off = from_environment(PILOTHOUSE_METRICS_PORT="-1", PILOTHOUSE_RATE_CALLS_PER_MIN="-1")
    assert (off.metrics_port, off.rate_calls_per_min) == (-1, -1)
    assert from_environment(PILOTHOUSE_HTTP_PORT="0").http_port == 0


@pytest.mark.parametrize("variable", SPECIFIED)
def test_every_variable_of_the_specs_is_declared(variable: str) -> None:
    assert variable in DECLARED


def test_no_variable_and_no_flag_means_two_things() -> None:
    assert len(DECLARED) == len(set(DECLARED))
    for command in ("", "serve", *GROUPS):
        flags = [flag for setting in SETTINGS for flag in setting.flags(command)]
        assert len(flags) == len(set(flags)), command


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_says_what_it_does_and_where_it_is_set(setting: Any) -> None:
    about = setting.about
    assert about.help
    assert not about.help.endswith(".")
    assert about.env
    assert setting.flag == "--" + setting.name.replace("_", "-")
    assert about.group in ("", *GROUPS)
    if setting.type is int:
        assert about.unit
        assert about.least is not None
    if about.choices and isinstance(setting.default, str):
        assert setting.default in about.choices


def test_the_observers_own_flags_are_its_specs_short_ones() -> None:
    short = {s.name: s.flags("observe")[0] for s in SETTINGS if len(s.flags("observe")) == 2}
    assert short == {
        "cdp_host": "--host",
        "cdp_port": "--port",
        "cdp_security_localonly": "--localonly",
        "default_buffer_size": "--buffer-size",
        "default_ttl_sec": "--ttl-sec",
    }
