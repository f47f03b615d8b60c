"""The intercepting proxy as agents reach it: history, configuration, tokens and the engine, joined.

There is one `Proxy` in a process, whatever the number of agents; each has one `AgentInterceptor`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.intercept.config.store import ConfigStore
from pilothouse.intercept.engine_process import EngineProcess, open_engine
from pilothouse.intercept.logbook import Logbook
from pilothouse.intercept.model import (
    BadConfig,
    ConfigChanged,
    EngineUnreachable,
    PacketRecorded,
    TokenRefused,
    only_reads,
)
from pilothouse.intercept.query.reader import HistoryReader
from pilothouse.machine.audit_file import AuditFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from pilothouse.core.secrets.check import SecretCheck
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.agent import AgentInterceptor
    from pilothouse.intercept.engine_process import Ask
    from pilothouse.machine.spawn import Spawn

STATE_S = 1.0
"""Seconds that a page of the history waits for the engine to report that all is well."""
HEARD_S = 0.25
"""Seconds since its last message within which an engine is not asked if it still works."""
RULES = ("mocks", "breakpoints")
CLOSE_S = 2.0
"""Seconds that the engine may take over something that ends."""


@dataclass
class Proxy:
    """The intercepting proxy that all agents of this process share."""

    store: ConfigStore
    tokens: SecretCheck
    reader: HistoryReader
    book: Logbook
    clock: Clock
    read_only: bool
    own_ports: Callable[[], set[int]]
    """Ports of this machine that no request may reach through the proxy."""
    on_history: Callable[[str], None]
    """Function for the reason why packets cannot be written, empty when they can be again."""
    engine: EngineProcess = field(init=False)
    states: list[dict[str, Any]] = field(default_factory=list)
    """States of the listeners, as the engine last reported them."""
    _unwritten: str = ""
    """Reason why packets are not being written, as last reported; empty if they are."""
    _missed: bool = False
    """True if some events of the engine did not come."""
    _views: dict[str, list[AgentInterceptor]] = field(default_factory=dict)
    """Views by session: a worker that is about to end may overlap with its agent's next one."""
    _opened: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Listeners of browsers, by their name; opened again in the process after one that died."""
    _rules: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """Mocks and breakpoints, by kind and session; sent again to the process after one that died."""
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    # Configuration

    async def apply(self) -> list[dict[str, Any]]:
        """Have the engine do what the configuration says.

        Raises:
            EngineUnreachable
        """
        await self.configure(self.engine.ask)
        return self.states

    async def configure(self, ask: Ask) -> None:
        """Send an engine what it does not know: one that was just started knows nothing."""
        config = await self.config()
        self.states = await ask("configure", config=config, blocked_ports=sorted(self.own_ports()))
        for opened in self._opened.values():
            await ask("open_browser", **opened)
        for (kind, session), rules in self._rules.items():
            await ask(kind, session=session, rules=rules)

    async def listen_if_wanted(self) -> None:
        """Start the engine if the configuration has it listen, which it then does."""
        try:
            config = await self.config()
        except BadConfig as fault:
            # Raised again by every tool that needs it; those that do not still work.
            self.book.write("error", fault.message, "config")
            return
        if any(listener["enabled"] for listener in config["listenPorts"]):
            await self.engine.ask("state")

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        """Return the configuration; raises BadConfig for an edited file that is not sound."""
        config = await asyncio.to_thread(self.store.load)
        return config.model_dump(mode="json")

    async def replace(self, raw: dict[str, Any], *, backup: bool, who: str) -> dict[str, Any]:
        """Replace the configuration and apply it; raises BadConfig, EngineUnreachable."""
        async with self._changing:
            done = await asyncio.to_thread(self.store.replace, raw, backup=backup)
            self.book.audit(who, "configuration replaced")
            states = await self.apply()
        self._tell("replaced", done.backup_info)
        return {
            "success": True,
            "backup_created": done.backup_info is not None,
            **({"backup_info": done.backup_info} if done.backup_info else {}),
            "config_updated": True,
            "listeners": states,
            "warnings": done.warnings,
        }

    async def restore(self, backup_id: str, *, who: str) -> dict[str, Any]:
        """Restore a backup and apply it; raises BadConfig, EngineUnreachable."""
        async with self._changing:
            done = await asyncio.to_thread(self.store.restore, backup_id)
            self.book.audit(who, f"configuration restored from {backup_id}")
            states = await self.apply()
        self._tell(f"restored from {backup_id}", done.backup_info)
        return {
            "success": True,
            "backup_id_restored": backup_id,
            "config_restored": True,
            "listeners": states,
            "warnings": done.warnings,
        }

    def _tell(self, what: str, backup: dict[str, Any] | None) -> None:
        told = ConfigChanged(
            at=self.clock(), what=what, backup_id=(backup or {}).get("backup_id", "")
        )
        for views in self._views.values():
            for view in views:
                view.timeline.emit(told)

    async def rules(
        self, kind: str, session: str, rules: list[dict[str, Any]] | None, who: str
    ) -> list[dict[str, Any]]:
        """Return a session's mocks or breakpoints, after they were replaced if there are `rules`.

        Raises:
            InvalidInput, EngineUnreachable
        """
        held: list[dict[str, Any]] = await self.engine.ask(kind, session=session, rules=rules)
        if rules is not None:
            self._rules[kind, session] = rules
            self.book.audit(who, f"{kind} replaced, {len(rules)} now")
        return held

    # Events of the engine

    def on_event(self, event: dict[str, Any]) -> None:
        match event.get("event"):
            case "recorded":
                for row in event["rows"]:
                    self._recorded(row)
            case "log":
                self.book.write(event["level"], event["message"], event.get("class", "engine"))
            case "listeners":
                self.states = event["states"]
            case "history":
                self._told_of_history(event["reason"])
            case "ready":
                self._told_of_history("")  # by an engine that died: this one has not failed yet
            case "missed":
                self._missed = True

    def _told_of_history(self, reason: str) -> None:
        if reason != self._unwritten:
            self._unwritten = reason
            self.on_history(reason)

    def _recorded(self, row: dict[str, Any]) -> None:
        views = self._views.get(row["session"])
        if views is None:
            return  # of a listener that belongs to no agent
        keys = {f"packet:{row['group']}", *([f"exchange:{row['key']}"] if row["key"] else [])}
        recorded = PacketRecorded(
            at=row["time"],
            keys=frozenset(keys),
            packet_id=row["id"],
            group=row["group"],
            kind=row["kind"],
            method=row["method"],
            url=row["url"],
            server_name=row["server_name"],
            status=row["status"],
            resend=row["resend"],
        )
        for view in views:
            view.timeline.emit(recorded)

    # Agents and their browsers

    @asynccontextmanager
    async def view(self, view: AgentInterceptor) -> AsyncIterator[AgentInterceptor]:
        """Hold an agent's view for the block; its listener and rules end with it."""
        views = self._views.setdefault(view.session, [])
        views.append(view)
        try:
            yield view
        finally:
            views.remove(view)
            if not views:
                del self._views[view.session]
                for kind in RULES:
                    self._rules.pop((kind, view.session), None)
                await self._ask_at_the_end("end_session", session=view.session)

    @asynccontextmanager
    async def browser(
        self, name: str, session: str, upstream: int, secret: str
    ) -> AsyncIterator[int]:
        """Open a listener for one browser, whose port this yields; all that it takes goes on to
        `upstream`, and `secret` is shown to both where the system does not tell whose a client is.

        Raises:
            EngineUnreachable, NotAvailable
        """
        wanted: dict[str, Any] = {"name": name, "session": session, "upstream": upstream}
        wanted["secret"] = secret
        port = (await self.engine.ask("open_browser", **wanted))["port"]
        self._opened[name] = {**wanted, "port": port}
        try:
            yield port
        finally:
            del self._opened[name]
            await self._ask_at_the_end("close_browser", name=name)

    async def trusted_key(self) -> str:
        """Return the hash of the key of all certificates that the engine shows.

        Raises:
            EngineUnreachable
        """
        state = await self.engine.ask("state")
        return str(state["spki"])

    async def trouble(self) -> str:
        """Return what keeps packets out of the history right now, empty if nothing does."""
        if not self.engine.is_running:
            return ""
        if self._missed or self.engine.silent_s > HEARD_S:
            try:
                state = await self.engine.ask("history_state", within=STATE_S)
            except EngineUnreachable:
                return "the engine is busy: the newest packets may be missing"
            self._missed = False
            self._told_of_history(state["reason"])
        return f"packets are not being written: {self._unwritten}" if self._unwritten else ""

    async def _ask_at_the_end(self, do: str, **args: Any) -> None:
        """Ask the engine while it runs: one that has ended has nothing left to close."""
        if self.engine.is_running:
            with anyio.CancelScope(shield=True), suppress(EngineUnreachable):
                await self.engine.ask(do, within=CLOSE_S, **args)

    def admit(self, token: str | None, who: str, *, writes: bool) -> None:
        """Check a call's token, then `--read-only`; raises TokenRefused, RateLimited, ReadOnly."""
        if not self.tokens.check(token, who):
            self.book.write("warn", f"a wrong access token was refused (from {who})", "audit")
            raise TokenRefused(
                "the access token is missing or wrong",
                hint="`pilothouse token` prints it; pass it as access_token, or set"
                " PACKET_PROXY_ACCESS_TOKEN where Pilothouse is started",
            )
        if writes and self.read_only:
            raise only_reads()


@asynccontextmanager
async def open_proxy(
    *,
    folder: Path,
    settings_folder: Path,
    tokens: SecretCheck,
    clock: Clock,
    spawn: Spawn,
    read_only: bool,
    own_ports: Callable[[], set[int]],
    on_history: Callable[[str], None],
    engine_options: Sequence[str] = (),
) -> AsyncIterator[Proxy]:
    """Open the proxy of this process for the block."""
    proxy = Proxy(
        store=ConfigStore(settings_folder, clock),
        tokens=tokens,
        reader=HistoryReader(folder / "history.db"),
        book=Logbook(clock, AuditFile(folder / "audit.jsonl")),
        clock=clock,
        read_only=read_only,
        own_ports=own_ports,
        on_history=on_history,
    )
    try:
        async with open_engine(
            folder, spawn, proxy.on_event, on_start=proxy.configure, options=engine_options
        ) as proxy.engine:
            yield proxy
    finally:
        proxy.reader.close()
