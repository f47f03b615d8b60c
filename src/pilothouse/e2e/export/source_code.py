"""Pieces of a test's source: what may stand in it, and how."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.e2e.browser.elements.selectors import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from pilothouse.e2e.step import Step

BASE_VARIABLE = "E2E_BASE_URL"
EXPECT_MS = 5_000
"""Milliseconds that `expect` waits by itself."""
ACTION_MS = 30_000
"""Milliseconds that all else waits by itself."""
_LOCATOR_PARTS = (ast.Expression, ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.keyword)
_ID_SEGMENT = re.compile(r"\d+|[0-9a-fA-F-]{8,}|(?=[^/]*\d)[\w-]{16,}")


@dataclass(slots=True)
class StepSource:
    """One step: its statements, what must stand before, around and after them."""

    tab: str
    code: list[str]
    began_at: float
    acts: bool = True
    """True if it makes something happen, so that what happens can be waited for around it."""
    page: str = "page"
    dialogs: list[str] = field(default_factory=list)
    """Answers to the dialogs that it opens."""
    around: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        inner = self.code
        for wrapper in self.around:
            inner = [f"with {wrapper}:", *(f"    {line}" for line in inner)]
        before = [answer_dialogs(self.page, self.dialogs)] if self.dialogs else []
        return [*before, *inner, *self.after]


class Values:
    """Values of a test. A secret is an environment variable that it must come from."""

    def __init__(self, is_secret: Callable[[str], bool]) -> None:
        self.is_secret = is_secret
        self.variables: dict[str, str] = {}
        """Names of the variables by their secrets."""

    def value(self, text: str, what: str, *, secret: bool = False) -> str:
        """Return a literal, or the variable; `what` is what it is named after."""
        if text and (secret or self.is_secret(text)):
            return self.variable(text, what)
        return literal(text)

    def all_of(self, values: Iterable[str]) -> str:
        return f"[{', '.join(self.value(value, 'value') for value in values)}]"

    def variable(self, text: str, what: str) -> str:
        if text not in self.variables:
            named = re.findall(r'"([^"]*)"', what)
            words = re.findall(r"[A-Z0-9]+", (named[-1] if named else what).upper())
            name = "E2E_" + ("_".join(words)[:40] or "SECRET")
            taken = {*self.variables.values(), BASE_VARIABLE}
            number = 2
            unique = name
            while unique in taken:
                unique, number = f"{name}_{number}", number + 1
            self.variables[text] = unique
        return f"os.environ[{literal(self.variables[text])}]"


def came_later(step: Step, later: Sequence[Step]) -> bool:
    """Tell whether what a step waited for in vain came when it was waited for once more."""
    if step.ok or not step.tool.startswith("wait"):
        return False
    for other in later:
        if other.tab == step.tab and not other.looks:
            return False
        same = other.tool == step.tool and _condition(other) == _condition(step)
        if other.tab == step.tab and other.ok and same:
            return True
    return False


def _condition(step: Step) -> dict[str, Any]:
    return {k: v for k, v in step.args.items() if k not in ("timeout", "settle", "inline")}


def is_locator(code: str) -> bool:
    """Tell whether it is a chain of calls with plain values, and not what a page made of it."""
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if "\n" in code or not isinstance(tree.body, ast.Call | ast.Attribute):
        return False
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return len(names) == 1 and all(
        isinstance(node, (*_LOCATOR_PARTS, ast.Load)) for node in ast.walk(tree)
    )


def within(url: str, base: str) -> bool:
    """Tell whether it is an address of the app's own."""
    return bool(base) and url.startswith(base) and url[len(base) :][:1] in ("", "/", "?", "#")


def url_part(url: str, base: str) -> str:
    """Return a pattern of where a page is: of its path, in which numbers and ids may be others."""
    parts = urlsplit(url)
    host = "[^/]+" if within(url, base) else re.escape(parts.netloc)
    segments = [
        "[^/?#]+" if _ID_SEGMENT.fullmatch(segment) else re.escape(segment)
        for segment in parts.path.split("/")
    ]
    return f"//{host}{'/'.join(segments)}(?:[?#]|$)"


def frame_of(code: str) -> str:
    """Return the part of a locator that enters the frame of its element; empty in no frame."""
    frame, entered, _ = code.rpartition(".content_frame.")
    return frame + entered


def strings(code: str) -> list[str]:
    return [
        node.value
        for node in ast.walk(ast.parse(code, mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def click(args: Mapping[str, Any]) -> str:
    more = []
    if args.get("button"):
        more.append(f"button={literal(args['button'])}")
    if args.get("modifiers"):
        more.append(f"modifiers=[{', '.join(map(literal, args['modifiers']))}]")
    return f"{'dblclick' if args.get('double') else 'click'}({', '.join(more)})"


def emulated(args: Mapping[str, Any], page: str) -> list[str]:
    """Return what a test can pretend; empty where that is nothing."""
    code = []
    media = {"colorScheme": "color_scheme", "reducedMotion": "reduced_motion", "media": "media"}
    given = [f"{name}={literal(args[key])}" for key, name in media.items() if args.get(key)]
    if given:
        code.append(f"{page}.emulate_media({', '.join(given)})")
    if "latitude" in args and "longitude" in args:
        place = f'{{"latitude": {args["latitude"]}, "longitude": {args["longitude"]}}}'
        code.append(f'{page}.context.grant_permissions(["geolocation"])')
        code.append(f"{page}.context.set_geolocation({place})")
    return code


def limit(args: Mapping[str, Any], default: int = EXPECT_MS) -> str:
    """Return the argument for a wait that is longer than the default."""
    given = int(args.get("timeout", ACTION_MS))
    return f"timeout={given:_}" if given > default else ""


def answer_dialogs(page: str, answers: list[str]) -> str:
    """Return the line that answers the dialogs of the next step, one after the other."""
    first, *later = answers
    does = f"dialog.{first}"
    if later:
        does = f"({answer_dialogs(page, later)}, {does})"
    return f'{page}.once("dialog", lambda dialog: {does})'


def raw(pattern: str) -> str:
    """Return a regular expression as source."""
    is_plain = pattern.isprintable() and '"' not in pattern and not pattern.endswith("\\")
    return f'r"{pattern}"' if is_plain else repr(pattern)


def comment(text: str) -> str:
    """Return a text so that it cannot leave its comment or docstring."""
    return literal(text)[1:-1].replace('"', "'").replace("\\", "/")


def source_of(title: str, base: str, left_out: Iterable[str], body: list[str]) -> str:
    """Return the whole file, with what is left out as comments."""
    text = "\n".join(body)
    imports = ["import os", *(["import re"] if "re.compile(" in text else [])]
    names = "Page, expect" if "expect(" in text else "Page"
    notes = [f"# Left out: {comment(reason)}" for reason in left_out]
    lines = [
        f'"""{comment(title) or "Written by Pilothouse from a session"}."""',
        "",
        *imports,
        "",
        "import pytest",
        f"from playwright.sync_api import {names}",
        "",
        "",
        '@pytest.fixture(scope="session")',
        "def base_url() -> str:",
        f'    return os.environ.get("{BASE_VARIABLE}", {literal(base)})',
        "",
        "",
        "def test_session(page: Page) -> None:",
        *(f"    {line}" for line in [*notes, *(body or ["pass"])]),
        "",
    ]
    return "\n".join(lines)
