"""The configuration: what is taken, what is refused and how that is said."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.intercept.config.items import MAX_ID, MAX_ITEMS, MAX_LISTENERS
from pilothouse.intercept.config.model import (
    CATEGORIES,
    MAX_SHOWN_PROBLEMS,
    default_config,
    read_config,
    warnings_of,
)
from pilothouse.intercept.model import BadConfig

SPEC: dict[str, list[dict[str, Any]]] = json.loads("""{
  "listenPorts": [
    {"id": 1, "enabled": true, "ca_name": "PacketProxy per-user CA", "port": 8080,
     "type": "HTTP_PROXY", "server_id": 1}
  ],
  "servers": [
    {"id": 1, "ip": "target.com", "port": 443, "encoder": "HTTPS", "use_ssl": true,
     "resolved_by_dns": false, "resolved_by_dns6": false, "http_proxy": false, "comment": "",
     "specifiedByHostName": false}
  ],
  "modifications": [
    {"id": 1, "enabled": true, "server_id": 1, "direction": "CLIENT_REQUEST", "pattern": ".*",
     "method": "SIMPLE", "replaced": "X-Test: 1"}
  ],
  "sslPassThroughs": [
    {"id": 1, "enabled": true, "server_name": "secure.com", "listen_port": 443}
  ]
}""")
"""The example of the spec, as it stands."""


def changed(category: str, *items: dict[str, Any]) -> dict[str, Any]:
    """The spec's example with other items in one category, each over the first one's fields."""
    first = SPEC[category][0]
    return {**copy.deepcopy(SPEC), category: [{**first, **item} for item in items]}


def refusal(raw: object) -> BadConfig:
    with pytest.raises(BadConfig) as caught:
        read_config(raw)
    fault = caught.value
    assert fault.number == -32004
    assert fault.message.startswith(
        f"{fault.details['path']}: expected {fault.details['expected']}"
    )
    assert str(fault.details["received"]) in fault.message
    assert fault.hint
    return fault


def test_the_specs_own_example_is_taken_as_it_stands() -> None:
    config = read_config(copy.deepcopy(SPEC))
    assert config.dump() == SPEC
    assert [list(item) for items in config.dump().values() for item in items] == [
        list(item) for items in SPEC.values() for item in items
    ], "the order of the fields, too"


def test_what_the_specs_example_does_not_do_is_said() -> None:
    direct, elsewhere = warnings_of(read_config(SPEC))
    assert "listenPorts[0].server_id" in direct
    assert "connects directly" in direct
    assert "sslPassThroughs[0].listen_port 443" in elsewhere
    assert "-1 means all" in elsewhere


def test_the_default_listens_nowhere() -> None:
    config = default_config()
    assert [(one.port, one.type, one.enabled) for one in config.listenPorts] == [
        (8080, "HTTP_PROXY", False)
    ]
    assert read_config(config.dump()) == config
    assert not any(config.dump()[category] for category in CATEGORIES[1:])


def test_fields_left_out_have_their_defaults() -> None:
    config = read_config(
        {
            "listenPorts": [{"port": 1, "type": "HTTP_PROXY"}],
            "servers": [{"ip": "::1", "port": 2}],
            "modifications": [
                {"direction": "ALL", "pattern": "a", "method": "SIMPLE", "replaced": ""}
            ],
            "sslPassThroughs": [{"server_name": "a"}],
        }
    ).dump()
    assert config["listenPorts"][0]["server_id"] == -1
    assert config["servers"][0]["encoder"] == "HTTP"
    assert config["modifications"][0]["server_id"] == -1
    assert config["sslPassThroughs"][0]["listen_port"] == -1
    assert all(item["id"] == 1 for items in config.values() for item in items)
    enabled = [item["enabled"] for items in config.values() for item in items if "enabled" in item]
    assert enabled == [True, True, True]


def test_items_keep_their_ids_and_those_without_get_the_next_free_one() -> None:
    servers: list[dict[str, Any]] = [
        {"id": 7, "ip": "a"},
        {"id": None, "ip": "b"},
        {"id": 2, "ip": "c"},
    ]
    raw = changed("servers", *servers, {"ip": "d", "id": None})
    raw["listenPorts"] = raw["modifications"] = []
    assert [item["id"] for item in read_config(raw).dump()["servers"]] == [7, 8, 2, 9]


def test_above_the_largest_id_the_smallest_free_one_is_next() -> None:
    raw = changed("sslPassThroughs", {"id": MAX_ID}, {"id": 1}, {"id": None})
    assert [item.id for item in read_config(raw).sslPassThroughs] == [MAX_ID, 1, 2]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_missing_category_is_named(category: str) -> None:
    raw = {name: items for name, items in SPEC.items() if name != category}
    fault = refusal(raw)
    assert fault.details["path"] == category
    assert fault.details["received"] == "nothing"
    assert "a list" in str(fault.details["expected"])


PORT = "a port from 1 to 65535"
WRONG: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    # what: category, field, path, expected, received
    "port zero": ("listenPorts", {"port": 0}, "listenPorts[0].port", PORT, "0"),
    "port too large": ("servers", {"port": 65536}, "servers[0].port", PORT, "65536"),
    "port as text": ("listenPorts", {"port": "8080"}, "listenPorts[0].port", PORT, '"8080"'),
    "port as a fraction": ("servers", {"port": 1.5}, "servers[0].port", PORT, "1.5"),
    "port true": ("servers", {"port": True}, "servers[0].port", PORT, "true"),
    "port null": ("servers", {"port": None}, "servers[0].port", PORT, "null"),
    "huge number": ("servers", {"port": 10**5000}, "servers[0].port", PORT, "a very large number"),
    "infinite": ("servers", {"port": float("inf")}, "servers[0].port", PORT, "Infinity"),
    "unknown type": ("listenPorts", {"type": "SOCKS"}, "listenPorts[0].type", "one of", '"SOCKS"'),
    "id zero": ("servers", {"id": 0}, "servers[0].id", "an id from 1", "0"),
    "id too large": ("servers", {"id": 2**31}, "servers[0].id", "an id from 1", "2147483648"),
    "enabled as text": ("modifications", {"enabled": "yes"}, "modifications[0].enabled",
                        "true or false", '"yes"'),
    "enabled as 1": ("sslPassThroughs", {"enabled": 1}, "sslPassThroughs[0].enabled",
                     "true or false", "1"),
    "unknown direction": ("modifications", {"direction": "BOTH"}, "modifications[0].direction",
                          "CLIENT_REQUEST, SERVER_RESPONSE or ALL", '"BOTH"'),
    "unknown method": ("modifications", {"method": "GLOB"}, "modifications[0].method",
                       "SIMPLE, REGEX or BINARY", '"GLOB"'),
    "unknown field": ("servers", {"host": "a"}, "servers[0].host", "one of id, ip", '"a"'),
    "odd field": ("servers", {"a b": 1}, 'servers[0]["a b"]', "one of id, ip", "1"),
    "bad regex": ("modifications", {"method": "REGEX", "pattern": "("}, "modifications[0].pattern",
                  "an RE2 pattern", '"("'),
    "look-around": ("modifications", {"method": "REGEX", "pattern": "(?=a)"},
                    "modifications[0].pattern", "an RE2 pattern", '"(?=a)"'),
    "long regex": ("modifications", {"method": "REGEX", "pattern": "a" * 997},
                   "modifications[0].pattern", "at most 996 characters", "aaa"),
    "large regex": ("modifications", {"method": "REGEX", "pattern": "((a{99}){9}){9}"},
                    "modifications[0].pattern", "an RE2 pattern", "{99}"),
    "no such group": ("modifications", {"method": "REGEX", "replaced": "$1"},
                      "modifications[0].replaced", "has 0, not $1", '"$1"'),
    "odd hex": ("modifications", {"method": "BINARY", "pattern": "0a 1"},
                "modifications[0].pattern", "pairs of hex digits", '"0a 1"'),
    "hex that is none": ("modifications", {"method": "BINARY", "pattern": "0a", "replaced": "xy"},
                         "modifications[0].replaced", "pairs of hex digits", '"xy"'),
    "empty hex": ("modifications", {"method": "BINARY", "pattern": "  "},
                  "modifications[0].pattern", "at least one byte", '"  "'),
    "empty pattern": ("modifications", {"pattern": ""}, "modifications[0].pattern",
                      "at least one character", '""'),
    "bad pass-through": ("sslPassThroughs", {"server_name": "["}, "sslPassThroughs[0].server_name",
                         "an RE2 pattern", '"["'),
    "empty pass-through": ("sslPassThroughs", {"server_name": ""}, "sslPassThroughs[0].server_name",
                           "1 to 1000 characters", '""'),
    "listen port -2": ("sslPassThroughs", {"listen_port": -2}, "sslPassThroughs[0].listen_port",
                       "or -1 for all", "-2"),
    "no such server": ("listenPorts", {"server_id": 9}, "listenPorts[0].server_id",
                       "the id of a server in servers, or -1", "9"),
    "forwarder to nowhere": ("listenPorts", {"type": "FORWARDER", "server_id": -1},
                             "listenPorts[0].server_id", "the id of a server in servers", "-1"),
    "rule for no server": ("modifications", {"server_id": 0}, "modifications[0].server_id",
                           "or -1 for all", "0"),
    "wrong protocol": ("listenPorts", {"protocol": "UDP"}, "listenPorts[0].protocol",
                       "TCP, which is what HTTP_PROXY uses", '"UDP"'),
    "a URL as host": ("servers", {"ip": "http://a"}, "servers[0].ip", "a host name", "http://a"),
    "a blank in a host": ("servers", {"ip": "a b"}, "servers[0].ip", "a host name", "a b"),
    "an empty host": ("servers", {"ip": ""}, "servers[0].ip", "a host name", '""'),
    "a line in a host": ("servers", {"ip": "a\n"}, "servers[0].ip", "a host name", "a\\n"),
    "a long host": ("servers", {"ip": "a." * 127}, "servers[0].ip", "a host name", "a.a."),
    "a long comment": ("servers", {"comment": "x" * 1001}, "servers[0].comment",
                       "at most 1000", "xxx"),
    "a lone surrogate": ("servers", {"comment": "\ud800"}, "servers[0].comment",
                         "a string", '"\\ud800"'),
    "a long replacement": ("modifications", {"replaced": "x" * 65_537},
                           "modifications[0].replaced", "at most 65536", "xxx"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_item_is_refused_with_its_place_and_what_it_takes(what: str) -> None:
    category, item, path, expected, received = WRONG[what]
    fault = refusal(changed(category, item))
    assert fault.details["path"] == path
    assert expected in str(fault.details["expected"])
    assert received in str(fault.details["received"])
    assert fault.details["problem_count"] == 1


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (None, "config"), ([], "config"), ("x", "config"), (1, "config"),
        ({**SPEC, "servers": None}, "servers"), ({**SPEC, "servers": {}}, "servers"),
        ({**SPEC, "modifications": "x"}, "modifications"),
        ({**SPEC, "listenPorts": [1]}, "listenPorts[0]"),
        ({**SPEC, "sslPassThroughs": [[]]}, "sslPassThroughs[0]"),
        ({**SPEC, "filters": []}, "filters"),
        ({**SPEC, "sslPathThroughs": []}, "sslPathThroughs"),
    ],
)  # fmt: skip
def test_another_shape_is_refused_with_its_place(raw: object, path: str) -> None:
    assert refusal(raw).details["path"] == path


def test_a_misspelt_category_comes_before_the_one_that_it_left_missing() -> None:
    raw = {**SPEC, "server": SPEC["servers"]}
    del raw["servers"]
    fault = refusal(raw)
    assert fault.details["path"] == "server"
    assert [one["path"] for one in fault.details["problems"]] == ["server", "servers"]  # type: ignore[attr-defined]


def test_the_old_name_of_the_pass_throughs_is_taken() -> None:
    raw: dict[str, Any] = copy.deepcopy(SPEC)
    raw["sslPathThroughs"] = raw.pop("sslPassThroughs")
    assert read_config(raw).dump() == SPEC
    assert "sslPathThroughs" in raw, "what was handed in stays as it is"


@pytest.mark.parametrize("category", CATEGORIES)
def test_an_id_given_twice_is_refused(category: str) -> None:
    other = {"ip": "b"} if category == "servers" else {"port": 81, "pattern": "b"}
    fields = SPEC[category][0].keys()
    other = {name: value for name, value in other.items() if name in fields}
    fault = refusal(changed(category, {}, other))
    assert fault.details["path"] == f"{category}[1].id"
    assert f"{category}[0]" in str(fault.details["received"])


def test_two_enabled_listeners_on_one_port_are_refused_unless_the_transport_differs() -> None:
    fault = refusal(changed("listenPorts", {}, {"id": 2, "type": "FORWARDER"}))
    assert fault.details["path"] == "listenPorts[1].port"
    assert "TCP" in str(fault.details["expected"])
    read_config(changed("listenPorts", {}, {"id": 2, "type": "UDP_FORWARDER"}))
    read_config(changed("listenPorts", {}, {"id": 2, "enabled": False}))
    udp = changed("listenPorts", {"type": "QUIC_FORWARDER"}, {"id": 2, "type": "UDP_FORWARDER"})
    assert refusal(udp).details["path"] == "listenPorts[1].port"


def test_a_server_or_rule_given_twice_is_refused() -> None:
    assert refusal(changed("servers", {}, {"id": 2, "ip": "TARGET.com"})).details["path"] == (
        "servers[1].encoder"
    )
    assert refusal(changed("modifications", {}, {"id": 2})).details["path"] == (
        "modifications[1].pattern"
    )


@pytest.mark.parametrize("server_id", [0, -1, 1])
def test_a_proxy_may_name_no_server(server_id: int) -> None:
    read_config(changed("listenPorts", {"server_id": server_id}))


def test_every_problem_is_in_the_details_up_to_a_bound() -> None:
    fault = refusal(changed("modifications", *({"method": "X"} for _ in range(60))))
    assert fault.details["problem_count"] == 60
    problems = fault.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == MAX_SHOWN_PROBLEMS
    assert problems[3]["path"] == "modifications[3].method"
    assert "and 59 more" in fault.message


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_has_a_bound(category: str) -> None:
    most = MAX_LISTENERS if category == "listenPorts" else MAX_ITEMS
    raw = changed(category, *({"id": None} for _ in range(most + 1)))
    fault = refusal(raw)
    assert fault.details["path"] == category
    assert fault.details["expected"] == f"a list of at most {most} items"
    assert fault.details["received"] == f"a list of {most + 1}"


def test_what_is_stored_but_not_acted_on_is_said() -> None:
    raw = changed("servers", {"resolved_by_dns": True, "resolved_by_dns6": True, "encoder": "MQTT"})
    raw["listenPorts"][0] |= {"type": "XMPP_SSL_FORWARDER", "ca_name": "Temp CA"}
    raw["sslPassThroughs"] = []
    config = read_config(raw)
    warnings = warnings_of(config)
    assert config.servers[0].resolved_by_dns
    for place in (
        "listenPorts[0].type: XMPP_SSL_FORWARDER is stored but not supported",
        "listenPorts[0].ca_name",
        "servers[0].resolved_by_dns is stored but not acted on",
        "servers[0].resolved_by_dns6 is stored but not acted on",
        'servers[0].encoder "MQTT"',
    ):
        assert sum(warning.startswith(place) for warning in warnings) == 1, place
    assert len(warnings) == 5


@pytest.mark.parametrize(("use_ssl", "told"), [(True, 0), (False, 1)])
def test_a_forwarder_that_speaks_tls_with_a_plain_server_is_told(use_ssl: bool, told: int) -> None:
    raw = changed("servers", {"use_ssl": use_ssl, "encoder": "HTTP"})
    raw["listenPorts"][0]["type"] = "SSL_FORWARDER"
    raw["sslPassThroughs"] = []
    warnings = warnings_of(read_config(raw))
    assert sum("speaks TLS with its server" in warning for warning in warnings) == told
    assert len(warnings) == told


def test_the_protocol_of_a_listener_is_kept() -> None:
    raw = changed("listenPorts", {"protocol": "TCP"})
    assert read_config(raw).dump()["listenPorts"][0]["protocol"] == "TCP"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(CATEGORIES), st.data())
def test_whatever_a_field_has_it_is_taken_or_refused(category: str, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from([*SPEC[category][0], "other"]))
    raw = changed(category, {field: data.draw(JSON)})
    try:
        config = read_config(raw)
    except BadConfig as refused:
        json.dumps(refused.details)
        return
    assert read_config(config.dump()) == config
    warnings_of(config)
