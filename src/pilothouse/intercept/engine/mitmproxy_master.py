# mypy: allow-untyped-calls
"""mitmproxy as we run it: the few addons that a proxy needs, on an event loop that is ours."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.engine import mitmproxy_addons  # isort: skip  # noqa: F401  # before any addon

from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.disable_h2c import DisableH2C
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.addons.tlsconfig import TlsConfig
from mitmproxy.addons.update_alt_svc import UpdateAltSvc
from mitmproxy.http import MessageData
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.utils import asyncio_utils

from pilothouse.intercept.engine.certificates import ca_folder, ca_pem
from pilothouse.intercept.engine.flows.streamed_bodies import KEPT_BODY
from pilothouse.intercept.engine.patches import control_frames, errors, http1  # noqa: F401  # for what they do
from pilothouse.intercept.engine.patches.client_certificates import ClientCertificates

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from mitmproxy.hooks import Hook

logger = logging.getLogger(__name__)


class Hooks(AddonManager):
    """Addon manager with a table: mitmproxy looks every hook up in every addon, per event."""

    def __init__(self, master: Master) -> None:
        super().__init__(master)
        self._table: dict[str, list[Callable[..., Any]]] = {}

    async def handle_lifecycle(self, event: Hook) -> None:
        name = event.name
        hooks = self._table.get(name)
        if hooks is None:
            found = (getattr(addon, name, None) for addon in self.chain)
            hooks = self._table[name] = [hook for hook in found if hook]
        for hook in hooks:
            try:
                waiting = hook(*event.args())
                if waiting is not None:
                    await waiting
            except Exception:
                logger.exception("a defect in %s", name)


class EngineMaster(Master):
    """Master without mitmproxy's own `run`: its listeners are started by `ProxyListeners`.

    `upstream_ca` is a file with authorities that upstream servers may be signed by, besides the
    public ones. `client_cert` is what servers that ask for a certificate are shown.
    """

    def __init__(
        self, folder: Path, *, upstream_ca: Path | None, client_cert: Path | None, verify: bool
    ) -> None:
        super().__init__(Options())
        self._legacy_log_events.uninstall()
        self.addons = Hooks(self)
        self.proxy = Proxyserver()
        ca_pem(folder)
        trusted = str(_bundle(folder, upstream_ca)) if upstream_ca else None
        self.addons.add(
            DisableH2C(), self.proxy, NextLayer(), TlsConfig(), ClientCertificates(), UpdateAltSvc()
        )
        self.options.update(
            confdir=str(ca_folder(folder)),
            ssl_insecure=not verify,
            ssl_verify_upstream_trusted_ca=trusted,
            client_certs=str(client_cert) if client_cert else None,
            # A forwarder's server gets the Host header as the client sent it.
            keep_host_header=True,
            # Only for bodies that grow beyond it; known sizes are judged by `capture`.
            stream_large_bodies=str(KEPT_BODY),
        )
        self.event_loop.set_exception_handler(self._asyncio_exception_handler)
        # mitmproxy is written for tasks that start at once, and sets that for the whole loop,
        # where it breaks other people's task groups (cpython gh-128550). Here only its own do.
        asyncio_utils.create_task = _eager_task
        # It checks the type of every field of every message, a good part of the time of each.
        MessageData.__post_init__ = _unchecked  # type: ignore[method-assign]


def _unchecked(_: MessageData) -> None:
    pass


def _eager_task(
    coro: Coroutine[Any, Any, Any], *, name: str, keep_ref: bool, client: Any = None
) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=asyncio.get_running_loop(), name=name, eager_start=True)
    if keep_ref and not task.done():
        _KEPT.add(task)
        task.add_done_callback(_KEPT.discard)
    return task


_KEPT: set[asyncio.Task[Any]] = set()
"""Tasks that are kept from being collected: the event loop holds them only weakly."""


def _bundle(folder: Path, extra: Path) -> Path:
    """Write the public authorities and the given ones into one file, and return its path."""
    import certifi

    bundle = folder / "upstream-ca.pem"
    with open(certifi.where(), "rb") as public:
        bundle.write_bytes(public.read() + b"\n" + extra.read_bytes())
    return bundle
