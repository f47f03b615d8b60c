"""What a relay answers while there is no worker, and what it tells one that starts. Pure.

Only what every worker would answer alike is answered here, and only where nothing is odd about it:
all else is the worker's, so that a client cannot tell a relay from the server itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.hub.http.replies import compact, result_text
from pilothouse.hub.mcp.revision_2026 import CAPABILITIES_KEY, CLIENT_KEY, VERSION_KEY
from pilothouse.hub.notices import TOOLS_CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Era

    type Message = dict[str, Any]


class Front:
    """One client's conversation, as far as a worker has to know of it."""

    def __init__(
        self,
        template: Template | None,
        mark: str,
        paired: Callable[[], Template] | None = None,
    ) -> None:
        """Take the template; nothing is known of the client yet.

        Args:
            template: What workers answer alike; None: that is not known.
            mark: Begins the ids of our own requests, and those of no client.
            paired: Makes the template for when a Chrome was paired.
        """
        self._template = template
        self._mark = mark
        self._paired = paired
        self.era: Era | None = None
        """Protocol revision, by the client's first request where our own server is the worker."""
        self._hello: Message | None = None
        """The client's params of `initialize`."""
        self._envelope: Message = {}
        """`_meta` of the newest 2026 request, which describes the client."""
        self._is_initialized = False
        self._log_level = ""
        self._subscriptions: dict[str, None] = {}

    @property
    def client(self) -> Message:
        """`clientInfo` of the client; empty if it has sent none."""
        told = self._hello or self._envelope
        named = told.get("clientInfo") or told.get(CLIENT_KEY)
        return named if isinstance(named, dict) else {}

    def forget_template(self) -> None:
        """Forget the template, as workers answer otherwise than it says."""
        self._template = None

    def pair(self) -> bytes | None:
        """Use the template for a paired Chrome; return a notice if the client's list changed."""
        before, make, self._paired = self._template, self._paired, None
        if before is None or make is None:
            return None
        self._template = make()
        lists = [template.text("2025", "tools/list") for template in (before, self._template)]
        return TOOLS_CHANGED if self._is_initialized and lists[0] != lists[1] else None

    # From the client

    def note(self, message: Message) -> None:
        """Remember what each new worker has to be sent."""
        params = message.get("params", {})
        match message.get("method"):
            case "initialize" if self._may_shake_hands and _is_plain_hello(params):
                self.era, self._hello = "2025", params
            case "notifications/initialized":
                self._is_initialized = True
            case "logging/setLevel" if isinstance(params.get("level"), str):
                self._log_level = params["level"]
            case "resources/subscribe" if isinstance(params.get("uri"), str):
                self._subscriptions[params["uri"]] = None
            case "resources/unsubscribe" if isinstance(params.get("uri"), str):
                self._subscriptions.pop(params["uri"], None)
        if self.era is None and "id" in message and "method" in message:
            self.era = "2026" if is_enveloped(params) else "2025"
        if self.era == "2026" and is_enveloped(params):
            self._envelope = params["_meta"]

    @property
    def _may_shake_hands(self) -> bool:
        """Tell whether the client may go on in 2025, as after a try of 2026 with another server."""
        return self.era != "2026" or self._template is None

    def answer(self, message: Message) -> bytes | None:
        """Return the answer to what was noted, None if a worker has to give it."""
        if self._template is None or "id" not in message or "method" not in message:
            return None
        method, params = message["method"], message.get("params", {})
        if params.keys() - {"_meta"} and method != "initialize":
            return None
        if self.era == "2026":
            text = self._template.text("2026", method) if self._is_sound(params) else None
        elif self._hello is None or (is_enveloped(params) and method != "initialize"):
            text = None
        elif method == "initialize":
            text = self._welcome(params)
        else:
            text = self._template.text("2025", method)
        return None if text is None else result_text(message["id"], text)

    def _welcome(self, params: Message) -> str | None:
        if params is not self._hello or self._template is None or not self._template.handshake:
            return None
        version = self._template.agreed(params["protocolVersion"])
        return compact({"protocolVersion": version, **self._template.handshake["initialize"]})

    def _is_sound(self, params: Message) -> bool:
        assert self._template is not None
        meta = params.get("_meta", {})
        return (
            is_enveloped(params)
            and meta[VERSION_KEY] in self._template.modern_versions
            and isinstance(meta.get(CAPABILITIES_KEY), dict)
        )

    # To the worker

    def introduction(self, first: Message) -> list[bytes]:
        """Return the lines for a new worker that go before the client's next message, which is
        `first`. Answers to them have the ids for which `is_own` is true."""
        told: list[tuple[str, Message]] = []
        if self._hello is not None and first.get("params") is not self._hello:
            told.append(("initialize", self._hello))
            if self._is_initialized:
                told.append(("notifications/initialized", {}))
            if self._log_level:
                told.append(("logging/setLevel", {"level": self._log_level}))
            told += [("resources/subscribe", {"uri": uri}) for uri in self._subscriptions]
        elif self._envelope and not is_enveloped(first.get("params", {})):
            # So that it knows what kind of client it has before a request that does not say so.
            told.append(("server/discover", {"_meta": self._envelope}))
        return [self._line(number, *one) for number, one in enumerate(told)]

    def _line(self, number: int, method: str, params: Message) -> bytes:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = f"{self._mark}{number}"
        return compact(message).encode()

    def is_own(self, id: object) -> bool:
        return isinstance(id, str) and id.startswith(self._mark)


def is_enveloped(params: Message) -> bool:
    """Return whether a request names its revision itself, as those of 2026 do."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and VERSION_KEY in meta


def _is_plain_hello(params: Message) -> bool:
    """Return whether an `initialize` has all that it must, and nothing that could be refused."""
    client, offered = params.get("clientInfo"), params.get("capabilities")
    return (
        isinstance(params.get("protocolVersion"), str)
        and isinstance(offered, dict)
        and all(isinstance(value, dict) for value in offered.values())
        and isinstance(client, dict)
        and {"name", "version"} <= client.keys()
        and all(isinstance(value, str) for value in client.values())
    )
