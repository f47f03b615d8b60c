"""Records and faults of e2e sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from pilothouse.core.declare.faults import Fault
from pilothouse.core.timeline.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pilothouse.e2e.session_files import SessionFiles

type ServerState = Literal["running", "stopped", "unhealthy"]
type Stream = Literal["stdout", "stderr", "combined"]
type EndReason = Literal["manual", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class LogPaths:
    """Paths of the logs of a server's output; empty where there is none."""

    stdout: str = ""
    stderr: str = ""
    combined: str = ""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server that answers."""

    url: str
    port: int
    pid: int
    started_at: str
    """ISO 8601."""
    logs: LogPaths = LogPaths()
    status: Literal["ready", "already_running"] = "ready"
    message: str = ""


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """The state of a server now."""

    status: ServerState
    url: str = ""
    uptime: float | None = None
    """Seconds."""
    healthy: bool | None = None
    exit_code: int | None = None
    """Exit code of a server that has ended by itself."""
    message: str = ""
    """Reason why nobody knows how it is."""


@dataclass(frozen=True, slots=True)
class Past:
    """The rest of a session that has ended: its folder, with the dossiers of failed steps."""

    id: str
    url: str
    folder: Path
    started_at: float
    ended_at: float
    failed: Mapping[int, str]
    """Number of each step that failed, and what it was."""
    files: SessionFiles


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A server to start, as an agent asks for it."""

    name: str = "app"
    command_path: str = ""
    """Path of a command of the JSON contract, else `command` is a plain dev server."""
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """Command of a plain dev server; empty, with no command path: found out from the folder."""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    """Port to serve on; 0 takes any free one."""
    timeout_ms: int = 30_000


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLogged(Event):
    """A line that a dev server wrote."""

    source: ClassVar[str] = "server"

    service: str
    stream: Literal["stdout", "stderr"]
    line: str
    session_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(Event):
    """A browser tool did what it was asked to, or did not."""

    source: ClassVar[str] = "step"

    step: int
    tool: str
    target: str
    ok: bool
    duration_ms: float
    url: str
    session_id: str = ""
    tab_id: str = ""
    target_id: str = ""
    """The observed target that it acted in."""
    looks: bool = False
    """True if it only looked or waited, so that nothing can have come of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserNoted(Event):
    """Something the browser did by itself: a dialog, a download, a popup, a blocked address."""

    source: ClassVar[str] = "browser"

    what: str
    detail: str
    session_id: str = ""


# Faults of a session


class SessionNotFound(Fault):
    """No such session is open here; the message says what became of it where that is known."""

    code = "session_not_found"
    status = 404


class ServerStartFailed(Fault):
    """The dev server did not come up; `cause` has the command's own error."""

    code = "server_start_failed"
    status = 502


class ShutdownFailed(Fault):
    """The dev server would not stop."""

    code = "shutdown_failed"
    status = 502


class CommandNotAllowed(Fault):
    """This command may not be started, or not in this folder."""

    code = "command_not_allowed"
    status = 403


class BrowserLaunchFailed(Fault):
    """No browser could be started or reached."""

    code = "browser_launch_failed"
    status = 502


class BrowserCrashed(Fault):
    """The browser has gone; its session is over."""

    code = "browser_crashed"
    status = 502


def browser_crashed(session_id: str, **more: object) -> BrowserCrashed:
    """Make the fault, in the words of the spec."""
    return BrowserCrashed(
        "the browser process ended unexpectedly",
        hint="the session is over; call startSession for a new one",
        sessionId=session_id,
        recovery="Session will be automatically terminated. Please start a new session.",
        **more,
    )


class LogFileNotFound(Fault):
    """The session has no such log."""

    code = "log_file_not_found"
    status = 404


class LogReadFailed(Fault):
    """The log is there but may not or cannot be read."""

    code = "log_read_failed"
    status = 502


# Faults of a step


class StepFault(Fault):
    """A step in the browser failed; the answer carries its dossier."""


class StepTimeout(StepFault):
    """The target is there but could not be acted on in time, or the wait was in vain."""

    code = "timeout"
    status = 504


class ElementNotFound(StepFault):
    """Nothing matched the selector until the timeout."""

    code = "element_not_found"
    status = 422


class SelectorAmbiguous(StepFault):
    """Several elements match: acting on any of them could be the wrong one."""

    code = "selector_ambiguous"
    status = 422


class ClickMissed(StepFault):
    """The pointer's event went to another element, twice."""

    code = "click_missed"
    status = 409


class InvalidValue(StepFault):
    """The field does not take this value; it is as it was."""

    code = "invalid_value"
    status = 422


class StaleRef(StepFault):
    """The ref is of an older snapshot; its element is gone."""

    code = "stale_ref"
    status = 422


class NavigationFailed(StepFault):
    """The page could not be loaded."""

    code = "navigation_failed"
    status = 502


class ScriptError(StepFault):
    """The script threw, or what it gave back cannot be sent."""

    code = "script_error"
    status = 422


class UrlNotAllowed(StepFault):
    """The URL policy does not let this session's browser go there."""

    code = "url_not_allowed"
    status = 403


class DialogOpen(StepFault):
    """A dialog is open in this tab; nothing else works until it is handled."""

    code = "dialog_open"
    status = 409


class TabNotFound(Fault):
    """The session has no such tab, or no longer."""

    code = "tab_not_found"
    status = 404


class FileNotAllowed(Fault):
    """A file outside the folders that this session may read or write."""

    code = "file_not_allowed"
    status = 403


class BuildFailed(StepFault):
    """The edit that was waited for does not compile; the message is the compiler's."""

    code = "build_failed"
    status = 422


class ActionFailed(StepFault):
    """The browser refused the action for a reason of its own."""

    code = "action_failed"
    status = 422


STEP_FAULTS: tuple[type[Fault], ...] = (
    SessionNotFound,
    BrowserCrashed,
    TabNotFound,
    DialogOpen,
    StepTimeout,
    ElementNotFound,
    SelectorAmbiguous,
    ClickMissed,
    InvalidValue,
    StaleRef,
    NavigationFailed,
    ScriptError,
    UrlNotAllowed,
    ActionFailed,
)
"""Faults that any step in the browser may answer with."""
