"""The items of a configuration, each by itself. A field's description says what it takes."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pilothouse.intercept.config.rules import ALL_PORTS, ALL_SERVERS

MAX_ID = 2**31 - 1
MAX_ITEMS = 1_000
MAX_LISTENERS = 100

CA_NAME = "PacketProxy per-user CA"


def _host(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        if not all(re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{0,62}", label) for label in labels):
            raise ValueError("no host") from None
    return text


type Id = Annotated[int, Field(ge=1, le=MAX_ID)]
type Reference = Annotated[int, Field(ge=-1, le=MAX_ID)]
type Port = Annotated[int, Field(ge=1, le=65535)]
type ListenerType = Literal[
    "HTTP_PROXY", "FORWARDER", "SSL_FORWARDER", "UDP_FORWARDER", "SSL_TRANSPARENT_PROXY",
    "HTTP_TRANSPARENT_PROXY", "XMPP_SSL_FORWARDER", "QUIC_FORWARDER", "QUIC_TRANSPARENT_PROXY",
]  # fmt: skip


_SOUND = ConfigDict(extra="forbid", strict=True, frozen=True)
_SWITCH = "true or false"


class Item(BaseModel):
    model_config = _SOUND

    id: Id | None = Field(None, description=f"an id from 1 to {MAX_ID}, or none for the next free")


class ListenPort(Item):
    enabled: bool = Field(True, description=_SWITCH)
    ca_name: str = Field(CA_NAME, max_length=100, description="a string of at most 100 characters")
    port: Port = Field(description="a port from 1 to 65535")
    type: ListenerType = Field(
        description="one of HTTP_PROXY, FORWARDER, SSL_FORWARDER, UDP_FORWARDER,"
        " HTTP_TRANSPARENT_PROXY, SSL_TRANSPARENT_PROXY, QUIC_FORWARDER, QUIC_TRANSPARENT_PROXY,"
        " XMPP_SSL_FORWARDER"
    )
    server_id: Reference = Field(-1, description="the id of a server, or -1 for none")
    protocol: Literal["TCP", "UDP"] | None = Field(None, description="TCP or UDP")

    @property
    def transport(self) -> str:
        return "UDP" if self.type.startswith(("UDP_", "QUIC_")) else "TCP"

    @property
    def forwards(self) -> bool:
        return self.type.endswith("FORWARDER")


class Server(Item):
    ip: Annotated[str, Field(max_length=253), AfterValidator(_host)] = Field(
        description="a host name or an IP address"
    )
    port: Port = Field(description="a port from 1 to 65535")
    encoder: str = Field(
        "HTTP", min_length=1, max_length=100, description="a string of 1 to 100 characters"
    )
    use_ssl: bool = Field(False, description=_SWITCH)
    resolved_by_dns: bool = Field(False, description=_SWITCH)
    resolved_by_dns6: bool = Field(False, description=_SWITCH)
    http_proxy: bool = Field(False, description=_SWITCH)
    comment: str = Field("", max_length=1_000, description="a string of at most 1000 characters")
    specifiedByHostName: bool = Field(False, description=_SWITCH)


class Modification(Item):
    enabled: bool = Field(True, description=_SWITCH)
    server_id: Reference = Field(ALL_SERVERS, description="the id of a server, or -1 for all")
    direction: Literal["CLIENT_REQUEST", "SERVER_RESPONSE", "ALL"] = Field(
        description="CLIENT_REQUEST, SERVER_RESPONSE or ALL"
    )
    pattern: str = Field(max_length=10_000, description="a string of at most 10000 characters")
    method: Literal["SIMPLE", "REGEX", "BINARY"] = Field(description="SIMPLE, REGEX or BINARY")
    replaced: str = Field(max_length=65_536, description="a string of at most 65536 characters")


class SslPassThrough(Item):
    enabled: bool = Field(True, description=_SWITCH)
    server_name: str = Field(
        min_length=1, max_length=1_000, description="an RE2 pattern of 1 to 1000 characters"
    )
    listen_port: Annotated[int, Field(ge=-1, le=65535)] = Field(
        ALL_PORTS, description="the port of a listener, or -1 for all"
    )


class Config(BaseModel):
    """A configuration; one that `read_config` made is sound and every item has its id."""

    model_config = _SOUND

    listenPorts: list[ListenPort] = Field(
        max_length=MAX_LISTENERS, description=f"a list of at most {MAX_LISTENERS} items"
    )
    servers: list[Server] = Field(
        max_length=MAX_ITEMS, description=f"a list of at most {MAX_ITEMS} items"
    )
    modifications: list[Modification] = Field(
        max_length=MAX_ITEMS, description=f"a list of at most {MAX_ITEMS} items"
    )
    sslPassThroughs: list[SslPassThrough] = Field(
        max_length=MAX_ITEMS, description=f"a list of at most {MAX_ITEMS} items"
    )

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        return self.model_dump(exclude_none=True)
