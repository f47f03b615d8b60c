"""A test for pytest-playwright, written from the steps of a session."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pilothouse.e2e.protocol import ref_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pilothouse.e2e.step_record import Step

BASE_VARIABLE = "E2E_BASE_URL"
EXPECT_MS = 5_000
"""What `expect` waits by itself."""
DEFAULT_VIEWPORT = (1280, 720)
LOOKING = frozenset("screenshot snapshot find getContent exists pdf saveState".split())
"""Tools whose steps change nothing, and so are no part of a test."""
_LOCATOR_PARTS = (ast.Expression, ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.keyword)
_ID_SEGMENT = re.compile(r"\d+|[0-9a-fA-F-]{8,}|(?=[^/]*\d)[\w-]{16,}")
_STATES = {
    "visible": "to_be_visible",
    "hidden": "to_be_hidden",
    "attached": "to_be_attached",
    "detached": "not_to_be_attached",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A test's source, and what whoever runs it should know."""

    source: str
    steps: int
    """How many steps it repeats."""
    left_out: tuple[str, ...]
    """Steps that it could not repeat, and why."""
    variables: tuple[str, ...]
    """Environment variables that it needs."""


class _NotRepeatable(Exception):
    """Why a step cannot be part of a test."""


@dataclass(slots=True)
class _Line:
    """One step: its statements, what must stand before, around and after them."""

    tab: str
    code: list[str]
    began_at: float
    acts: bool = True
    """Whether it makes something happen, so that what happens can be waited for around it."""
    before: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        inner = self.code
        for wrapper in self.around:
            inner = [f"with {wrapper}:", *(f"    {line}" for line in inner)]
        return [*self.before, *inner, *self.after]


def write_test(
    steps: Sequence[Step],
    *,
    base: str,
    opened: Mapping[str, tuple[str, float]],
    is_secret: Callable[[str], bool],
    viewport: tuple[int, int] = DEFAULT_VIEWPORT,
    title: str = "",
) -> Written:
    """`base` is the app's origin, `opened` says which tab opened which, and when."""
    writer = _Writer(base, opened, is_secret)
    for step in steps:
        if step.ok and step.tool not in LOOKING:
            writer.add(step)
    return writer.written(title, viewport)


def literal(text: str) -> str:
    """A Python string, in double quotes where that needs no escaping."""
    made = repr(text)
    if made[0] == '"' or '"' in text:
        return made
    return '"' + made[1:-1].replace("\\'", "'") + '"'


def is_locator(code: str) -> bool:
    """Whether it is a chain of calls with plain values, and not what a page made of it."""
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
    """Whether it is an address of the app's own."""
    return bool(base) and url.startswith(base) and url[len(base) :][:1] in ("", "/", "?", "#")


def url_part(url: str, base: str) -> str:
    """A pattern of where a page is: of its path, in which numbers and ids may be others."""
    parts = urlsplit(url)
    host = "[^/]+" if within(url, base) else re.escape(parts.netloc)
    segments = [
        "[^/?#]+" if _ID_SEGMENT.fullmatch(segment) else re.escape(segment)
        for segment in parts.path.split("/")
    ]
    return f"//{host}{'/'.join(segments)}(?:[?#]|$)"


class _Writer:
    def __init__(
        self,
        base: str,
        opened: Mapping[str, tuple[str, float]],
        is_secret: Callable[[str], bool],
    ) -> None:
        self._base = base
        self._opened = opened
        self._is_secret = is_secret
        self._lines: list[_Line] = []
        self._urls: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._left_out: list[str] = []
        self._steps = 0

    def add(self, step: Step) -> None:
        try:
            if step.tool in ("route", "loadState"):
                code, page = self._of_context(step), self._page(next(iter(self._opened), ""))
            else:
                page = self._page(step.tab)
                code = self._code(step, page)
        except _NotRepeatable as reason:
            shown = step.target and not self._is_secret(step.target)
            target = f" {step.target}" if shown else ""
            self._left_out.append(f"step {step.number}, {step.tool}{target}: {reason}")
            return
        self._steps += 1
        if code:
            acts = not step.tool.startswith("wait")
            self._lines.append(_Line(step.tab, code, step.began_at, acts))
            self._wait_for_page(step, page)

    def _page(self, tab: str) -> str:
        """The variable of a tab; the first use of it says where it comes from."""
        if tab not in self._pages:
            first = not self._opened or tab == next(iter(self._opened))
            number = re.sub(r"\D", "", tab)
            self._pages[tab] = "page" if first else f"page_{number}"
            opener, at = self._opened.get(tab, ("", 0.0))
            if not first:
                self._open(self._pages[tab], opener, at)
        return self._pages[tab]

    def _open(self, page: str, opener: str, at: float) -> None:
        for line in reversed(self._lines):
            if opener and line.tab == opener and line.acts and line.began_at <= at:
                line.around.append(f"{self._page(opener)}.expect_popup() as {page}_opened")
                line.after.insert(0, f"{page} = {page}_opened.value")
                return
        self._lines.append(_Line("", [f"{page} = page.context.new_page()"], at, acts=False))

    def _wait_for_page(self, step: Step, page: str) -> None:
        """The address that the step led to, if it led to another one."""
        if not step.url or not step.url.startswith(("http://", "https://")):
            return
        before, self._urls[step.tab] = self._urls.get(step.tab, ""), step.url
        if step.tool == "navigate":
            before = self._full(str(step.args.get("url", "")))
        pattern = url_part(step.url, self._base)
        if pattern != url_part(before, self._base) and not self._is_secret(step.url):
            self._lines[-1].after.append(f"{page}.wait_for_url(re.compile({_raw(pattern)}))")

    def _full(self, url: str) -> str:
        url = self._base + url if url.startswith("/") else url
        return url if urlsplit(url).path else f"{url}/"

    # Steps

    def _code(self, step: Step, page: str) -> list[str]:
        args = step.args
        match step.tool:
            case "navigate":
                url = str(args["url"])
                if within(url, self._base):
                    url = url.removeprefix(self._base) or "/"
                until = args.get("waitUntil")
                more = f", wait_until={literal(until)}" if until else ""
                return [f"{page}.goto({self._value(url, 'url')}{more})"]
            case "goBack":
                return [f"{page}.go_forward()" if args.get("forward") else f"{page}.go_back()"]
            case "click":
                return [f"{self._locator(step, page)}.{_click(args)}"]
            case "type":
                return self._typing(step, page)
            case "fillForm":
                return self._field(step, page)
            case "selectOption":
                return [f"{self._locator(step, page)}.select_option({self._list(args['values'])})"]
            case "hover":
                return [f"{self._locator(step, page)}.hover()"]
            case "pressKey":
                where = self._locator(step, page) if args.get("selector") else f"{page}.keyboard"
                return [f"{where}.press({literal(args['key'])})"]
            case "drag":
                to = self._locator(step, page, "to")
                return [f"{self._locator(step, page, 'from')}.drag_to({to})"]
            case "uploadFile":
                files = self._list(args["paths"])
                return [f"{self._locator(step, page)}.set_input_files({files})"]
            case "handleDialog":
                return self._dialog(step, page)
            case "waitForSelector":
                return [self._expect(step, page)]
            case "waitFor":
                return self._waiting(step, page)
            case "evaluate":
                script = literal(str(args["script"]))
                if self._is_secret(str(args["script"])):
                    raise _NotRepeatable("its script holds a secret")
                where = self._locator(step, page) if args.get("selector") else page
                return [f"{where}.evaluate({script})"]
            case "resize":
                size = f'{{"width": {args["width"]}, "height": {args["height"]}}}'
                return [f"{page}.set_viewport_size({size})"]
            case "emulate":
                return _emulated(args, page)
        raise _NotRepeatable("a test has nothing like it")

    def _locator(self, step: Step, page: str, name: str = "selector") -> str:
        selector = step.target if step.tool == "fillForm" else str(step.args[name])
        code = step.locators.get(selector, "")
        if step.tool.startswith("wait") and not ref_of(selector):
            # What was waited for is what the selector says, whichever element it was this time.
            code = ""
        if is_locator(code) and not any(map(self._is_secret, _strings(code))):
            return f"{page}.{code}"
        if ref_of(selector):
            raise _NotRepeatable("what its ref stood for is not known any more")
        if self._is_secret(selector):
            raise _NotRepeatable("its selector holds a secret")
        return f"{page}.locator({literal(selector)})"

    def _typing(self, step: Step, page: str) -> list[str]:
        found = self._locator(step, page)
        secret = bool(step.args.get("secret")) or step.element.endswith(" password")
        text = self._value(str(step.args.get("text", "")), found, secret=secret)
        verb = "press_sequentially" if step.args.get("slowly") else "fill"
        code = [f"{found}.{verb}({text})"]
        return [*code, f'{found}.press("Enter")'] if step.args.get("submit") else code

    def _field(self, step: Step, page: str) -> list[str]:
        found = self._locator(step, page)
        fields = {entry["selector"]: entry["value"] for entry in step.args["fields"]}
        if step.target not in fields:
            return [f"{found}.click()"]  # what submits the form
        value = fields[step.target]
        if isinstance(value, bool):
            return [f"{found}.set_checked({value})"]
        if isinstance(value, list):
            return [f"{found}.select_option({self._list(value)})"]
        text = self._value(value, found, secret=step.element.endswith(" password"))
        return [f"{found}.{'select_option' if step.element[:6] == 'SELECT' else 'fill'}({text})"]

    def _dialog(self, step: Step, page: str) -> list[str]:
        line = self._last_act(step)
        text = step.args.get("text")
        answer = f"accept({self._value(text, 'dialog') if text else ''})"
        answer = answer if step.args.get("accept") else "dismiss()"
        line.before.append(f'{page}.once("dialog", lambda dialog: dialog.{answer})')
        return []

    def _expect(self, step: Step, page: str) -> str:
        state = str(step.args.get("state", "visible"))
        found = self._locator(step, page)
        if state in ("visible", "attached") and not found.endswith(".first"):
            found += ".first"
        return f"expect({found}).{_STATES[state]}({_limit(step.args)})"

    def _waiting(self, step: Step, page: str) -> list[str]:
        args, code = step.args, list[str]()
        limit = _limit(args)
        if args.get("selector"):
            code.append(self._expect(step, page))
        if args.get("text"):
            text = self._value(args["text"], "text")
            code.append(f"expect({page}.get_by_text({text}).first).to_be_visible({limit})")
        if args.get("textGone"):
            text = self._value(args["textGone"], "text")
            code.append(f"expect({page}.get_by_text({text}).first).to_be_hidden({limit})")
        if args.get("url"):
            part = self._value(args["url"], "url")
            code.append(f"{page}.wait_for_url(lambda url: {part} in url)")
        if args.get("idle"):
            code.append(f'{page}.wait_for_load_state("networkidle")')
        if args.get("request"):
            part = self._value(args["request"], "url")
            event = f"expect_response(lambda response: {part} in response.url)"
            self._last_act(step).around.insert(0, f"{page}.{event}")
        if args.get("console"):
            part = self._value(args["console"], "text")
            event = f"expect_console_message(lambda message: {part} in message.text)"
            self._last_act(step).around.insert(0, f"{page}.{event}")
        if args.get("hmr"):
            raise _NotRepeatable("a test does not change the app's source")
        return code

    def _last_act(self, step: Step) -> _Line:
        """The line that brought about what this step waited for or answered."""
        for line in reversed(self._lines):
            if line.tab == step.tab and line.acts:
                return line
        raise _NotRepeatable("no earlier step of the test brings it about")

    def _of_context(self, step: Step) -> list[str]:
        """What holds for all tabs."""
        if step.tool == "loadState":
            name = self._variable(f"state {step.args['name']}", f"state {step.args['name']}")
            return [f"page.context.set_storage_state({name})"]
        return [self._route(step.args)]

    def _route(self, args: dict[str, Any]) -> str:
        from pilothouse.e2e.routes import content_type_of, url_pattern

        if set(args) - {"url", "respond", "block", "times"}:
            raise _NotRepeatable("only a plain respond or block can be written down")
        if reply := args.get("respond"):
            text = str(reply.get("body", ""))
            body = self._value(text, "body")
            headers = {k: v for k, v in reply.get("headers", {}).items() if not self._is_secret(v)}
            kind = reply.get("contentType") or content_type_of(text)
            answer = (
                f"fulfill(status={reply.get('status', 200)}, body={body},"
                f" content_type={literal(kind)}"
                + (f", headers={_mapping(headers)}" if headers else "")
                + ")"
            )
        else:
            answer = f"abort({literal(args['block'])})"
        pattern = _raw(url_pattern(str(args["url"])))
        times = f", times={args['times']}" if args.get("times") else ""
        return f"page.context.route(re.compile({pattern}), lambda route: route.{answer}{times})"

    # Values

    def _value(self, text: str, what: str, *, secret: bool = False) -> str:
        """A literal; of a secret, the environment variable that it must come from."""
        if text and (secret or self._is_secret(text)):
            return self._variable(text, what)
        return literal(text)

    def _variable(self, text: str, what: str) -> str:
        if text not in self._variables:
            named = re.findall(r'"([^"]*)"', what)
            words = re.findall(r"[A-Z0-9]+", (named[-1] if named else what).upper())
            name = "E2E_" + ("_".join(words)[:40] or "SECRET")
            taken = {*self._variables.values(), BASE_VARIABLE}
            number = 2
            unique = name
            while unique in taken:
                unique, number = f"{name}_{number}", number + 1
            self._variables[text] = unique
        return f"os.environ[{literal(self._variables[text])}]"

    def _list(self, values: Iterable[str]) -> str:
        return f"[{', '.join(self._value(value, 'value') for value in values)}]"

    # The whole

    def written(self, title: str, viewport: tuple[int, int]) -> Written:
        body = [text for line in self._lines for text in line.lines()]
        if viewport != DEFAULT_VIEWPORT:
            width, height = viewport
            body.insert(0, f'page.set_viewport_size({{"width": {width}, "height": {height}}})')
        notes = [f"# Left out: {_comment(reason)}" for reason in self._left_out]
        text = "\n".join(body)
        imports = ["import os", *(["import re"] if "re.compile(" in text else [])]
        names = "Page, expect" if "expect(" in text else "Page"
        source = [
            f'"""{_comment(title) or "Written by Pilothouse from a session"}."""',
            "",
            *imports,
            "",
            "import pytest",
            f"from playwright.sync_api import {names}",
            "",
            "",
            '@pytest.fixture(scope="session")',
            "def base_url() -> str:",
            f'    return os.environ.get("{BASE_VARIABLE}", {literal(self._base)})',
            "",
            "",
            "def test_session(page: Page) -> None:",
            *(f"    {line}" for line in [*notes, *(body or ["pass"])]),
            "",
        ]
        return Written(
            source="\n".join(source),
            steps=self._steps,
            left_out=tuple(self._left_out),
            variables=tuple(dict.fromkeys(self._variables.values())),
        )


def _click(args: Mapping[str, Any]) -> str:
    more = []
    if args.get("button"):
        more.append(f"button={literal(args['button'])}")
    if args.get("modifiers"):
        more.append(f"modifiers=[{', '.join(map(literal, args['modifiers']))}]")
    return f"{'dblclick' if args.get('double') else 'click'}({', '.join(more)})"


def _emulated(args: Mapping[str, Any], page: str) -> list[str]:
    code = []
    media = {"colorScheme": "color_scheme", "reducedMotion": "reduced_motion", "media": "media"}
    given = [f"{name}={literal(args[key])}" for key, name in media.items() if args.get(key)]
    if given:
        code.append(f"{page}.emulate_media({', '.join(given)})")
    if "latitude" in args and "longitude" in args:
        place = f'{{"latitude": {args["latitude"]}, "longitude": {args["longitude"]}}}'
        code.append(f'{page}.context.grant_permissions(["geolocation"])')
        code.append(f"{page}.context.set_geolocation({place})")
    if not code:
        raise _NotRepeatable("give it to the test through browser_context_args")
    return code


def _limit(args: Mapping[str, Any]) -> str:
    limit = int(args.get("timeout", 30_000))
    return f"timeout={limit:_}" if limit > EXPECT_MS else ""


def _strings(code: str) -> list[str]:
    return [
        node.value
        for node in ast.walk(ast.parse(code, mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _mapping(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in values.items())}}}"


def _raw(pattern: str) -> str:
    """A regular expression as source."""
    is_plain = pattern.isprintable() and '"' not in pattern and not pattern.endswith("\\")
    return f'r"{pattern}"' if is_plain else repr(pattern)


def _comment(text: str) -> str:
    """Text that cannot leave its comment or docstring."""
    return literal(text)[1:-1].replace('"', "'").replace("\\", "/")
