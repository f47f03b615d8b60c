"""What `--worker` asks for. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from pilothouse.core.settings import BadSetting

PLAYWRIGHT = "playwright-mcp"
FORMS = (
    f"builtin, {PLAYWRIGHT}, {PLAYWRIGHT}:FOLDER, or a server's command line as stdio:COMMAND or"
    " http:COMMAND ({port} in it stands for a free port)"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of worker."""

    kind: Literal["builtin", "playwright-mcp", "stdio", "http"]
    folder: str = ""
    """Folder of npm's package, empty if none was given."""
    argv: tuple[str, ...] = ()


def parse_choice(text: str) -> Choice:
    """Parse what `--worker` asks for. Raises BadSetting, which says what can be chosen."""
    name, _, rest = text.strip().partition(":")
    match name:
        case "builtin" if not rest:
            return Choice("builtin")
        case "playwright-mcp":
            return Choice("playwright-mcp", folder=rest)
        case "stdio" | "http":
            try:
                argv = tuple(shlex.split(rest))
            except ValueError as error:
                raise BadSetting(f"--worker {text!r}: {error}") from None
            if argv:
                return Choice("stdio" if name == "stdio" else "http", argv=argv)
    raise BadSetting(f"--worker: expected {FORMS}, not {text!r}")
