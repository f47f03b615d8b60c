"""A test for pytest-playwright, written from the steps of a session."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pilothouse.e2e.browser.elements.selectors import as_code, literal
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.export.source_code import (
    ACTION_MS,
    StepSource,
    Values,
    came_later,
    click,
    emulated,
    frame_of,
    is_locator,
    limit,
    raw,
    source_of,
    strings,
    url_part,
    within,
)
from pilothouse.e2e.model import ElementNotFound, StepTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pilothouse.e2e.step import Step

DEFAULT_VIEWPORT = (1280, 720)
LOOKING = frozenset("screenshot snapshot find getContent exists pdf saveState".split())
"""Tools whose steps change nothing, and so are no part of a test."""
IN_VAIN = frozenset((ElementNotFound.code, StepTimeout.code))
"""Faults of a wait that a test should fail with, too: what was waited for did not come."""
OF_CONTEXT = frozenset("route unroute loadState".split())
"""Tools whose steps hold for all tabs."""
_STATES = {
    "visible": "to_be_visible",
    "hidden": "to_be_hidden",
    "attached": "to_be_attached",
    "detached": "not_to_be_attached",
}


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """A test's source, and what whoever runs it should know."""

    source: str
    steps: int
    """Number of steps that it repeats."""
    left_out: tuple[str, ...]
    """Steps that it could not repeat, and why."""
    variables: tuple[str, ...]
    """Environment variables that it needs."""
    fails_at: str = ""
    """The wait in vain at which it fails as the session did."""


class _NotRepeatable(Exception):
    """Reason why a step cannot be part of a test."""


def write_test(
    steps: Sequence[Step],
    *,
    base: str,
    opened: Mapping[str, tuple[str, float]],
    is_secret: Callable[[str], bool],
    viewport: tuple[int, int] = DEFAULT_VIEWPORT,
    title: str = "",
) -> WrittenTest:
    """Write a test; `base` is the app's origin, `opened` says which tab opened which, and when."""
    writer = _Writer(base, opened, is_secret)
    if steps and steps[0].number > 1:
        writer.leave_out(f"steps 1 to {steps[0].number - 1}: they are not kept any more")
    for number, step in enumerate(steps):
        if step.tool not in LOOKING:
            writer.add(step, came_later=came_later(step, steps[number + 1 :]))
    if looks := Counter(step.tool for step in steps if step.tool in LOOKING):
        tools = ", ".join(f"{tool} ({many})" for tool, many in sorted(looks.items()))
        writer.leave_out(f"steps that only look: {tools}")
    return writer.written(title, viewport)


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
        self._values = Values(is_secret)
        self._lines: list[StepSource] = []
        self._urls: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        self._left_out: list[str] = []
        self._unrepeated: set[str] = set()
        """Tabs whose newest acting step is left out."""
        self._fails_at = ""
        self._steps = 0

    def leave_out(self, what: str) -> None:
        self._left_out.append(what)

    def add(self, step: Step, *, came_later: bool = False) -> None:
        acts = not step.looks and step.tool not in ("handleDialog", "download", "tabs")
        try:
            self._check(step, came_later=came_later)
            if step.tool in OF_CONTEXT:
                code, page = self._of_context(step), self._page(next(iter(self._opened), ""))
            else:
                page = self._page(step.tab)
                code = self._code(step, page)
        except _NotRepeatable as reason:
            if acts and step.tool not in OF_CONTEXT:
                self._unrepeated.add(step.tab)
            shown = step.target and not self._is_secret(step.target)
            target = f" {step.target}" if shown else ""
            self.leave_out(f"step {step.number}, {step.tool}{target}: {reason}")
            return
        self._steps += 1
        if not step.ok and not self._fails_at:
            self._fails_at = f"step {step.number}, {step.tool}"
        if code:
            self._lines.append(StepSource(step.tab, code, step.began_at, acts, page))
            if acts:
                self._unrepeated.discard(step.tab)
            if step.ok:
                self._wait_for_page(step, page)

    def _check(self, step: Step, *, came_later: bool) -> None:
        """Raise _NotRepeatable for a step that failed, unless it is a wait that a test shares."""
        if step.ok:
            return
        if not step.ended_at:
            raise _NotRepeatable("it is not over yet")
        if came_later:
            raise _NotRepeatable("it failed, but the same wait went well after it")
        if not step.tool.startswith("wait") or step.fault not in IN_VAIN:
            raise _NotRepeatable(f"it failed ({step.fault or 'no fault is known'})")

    def _page(self, tab: str) -> str:
        """Return the variable of a tab; at its first use, add where it comes from."""
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
        self._lines.append(StepSource("", [f"{page} = page.context.new_page()"], at, acts=False))

    def _wait_for_page(self, step: Step, page: str) -> None:
        """Wait for the address that the step led to, if it led to another one."""
        if not step.url or not step.url.startswith(("http://", "https://")):
            return
        before, self._urls[step.tab] = self._urls.get(step.tab, ""), step.url
        if step.tool == "navigate":
            before = self._full(str(step.args.get("url", "")))
        pattern = url_part(step.url, self._base)
        if pattern == url_part(before, self._base):
            return
        if self._is_secret(urlsplit(step.url).path):
            self.leave_out(f"step {step.number}: waiting for the page that it led to, a secret")
        else:
            self._lines[-1].after.append(f"{page}.wait_for_url(re.compile({raw(pattern)}))")

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
                return [f"{page}.goto({self._values.value(url, 'url')}{more})"]
            case "goBack":
                return [f"{page}.go_forward()" if args.get("forward") else f"{page}.go_back()"]
            case "click":
                return [f"{self._locator(step, page)}.{click(args)}"]
            case "type":
                return self._typing(step, page)
            case "fillForm":
                return self._field(step, page)
            case "selectOption":
                chosen = self._values.all_of(args["values"])
                return [f"{self._locator(step, page)}.select_option({chosen})"]
            case "hover":
                return [f"{self._locator(step, page)}.hover()"]
            case "pressKey":
                where = self._locator(step, page) if args.get("selector") else f"{page}.keyboard"
                return [f"{where}.press({literal(args['key'])})"]
            case "drag":
                to = self._locator(step, page, "to")
                return [f"{self._locator(step, page, 'from')}.drag_to({to})"]
            case "uploadFile":
                files = self._values.all_of(args["paths"])
                return [f"{self._locator(step, page)}.set_input_files({files})"]
            case "handleDialog":
                return self._dialog(step)
            case "download":
                self._last_act(step).around.insert(0, f"{page}.expect_download()")
                return []
            case "tabs":
                return [f"{page}.close()"]
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
                if code := emulated(args, page):
                    return code
                raise _NotRepeatable("give it to the test through browser_context_args")
        raise _NotRepeatable("a test has nothing like it")

    def _locator(self, step: Step, page: str, name: str = "selector") -> str:
        selector = step.target if step.tool == "fillForm" else str(step.args[name])
        code = step.locators.get(selector, "")
        if not is_locator(code) or any(map(self._is_secret, strings(code))):
            code = ""
        if step.looks and not ref_of(selector):
            # What was waited for is what the selector says, whichever element it was this time.
            return f"{page}.{frame_of(code)}{self._own(selector)}"
        return f"{page}.{code or self._own(selector)}"

    def _own(self, selector: str) -> str:
        """Return the agent's own selector, where nothing better is known."""
        if ref_of(selector):
            raise _NotRepeatable("what its ref stood for is not known any more")
        if self._is_secret(selector):
            raise _NotRepeatable("its selector holds a secret")
        return as_code(selector)

    def _typing(self, step: Step, page: str) -> list[str]:
        found = self._locator(step, page)
        secret = bool(step.args.get("secret")) or step.kind == "password"
        text = self._values.value(str(step.args.get("text", "")), found, secret=secret)
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
            return [f"{found}.select_option({self._values.all_of(value)})"]
        text = self._values.value(value, found, secret=step.kind == "password")
        return [f"{found}.{'select_option' if step.kind[:7] == 'select-' else 'fill'}({text})"]

    def _dialog(self, step: Step) -> list[str]:
        text = step.args.get("text")
        answer = f"accept({self._values.value(text, 'dialog') if text else ''})"
        self._last_act(step).dialogs.append(answer if step.args.get("accept") else "dismiss()")
        return []

    def _expect(self, step: Step, page: str) -> str:
        state = str(step.args.get("state", "visible"))
        found = self._locator(step, page)
        if state in ("visible", "attached") and not found.endswith(".first"):
            found += ".first"
        return f"expect({found}).{_STATES[state]}({limit(step.args)})"

    def _waiting(self, step: Step, page: str) -> list[str]:
        args, code = step.args, list[str]()
        if args.get("hmr"):
            raise _NotRepeatable("a test does not change the app's source")
        if args.get("selector"):
            code.append(self._expect(step, page))
        if args.get("text"):
            found = self._by_text(step, page, "text")
            code.append(f"expect({found}).to_be_visible({limit(args)})")
        if args.get("textGone"):
            found = self._by_text(step, page, "textGone")
            code.append(f"expect({found}).to_be_hidden({limit(args)})")
        if args.get("url"):
            part = f"re.compile(re.escape({self._values.value(args['url'], 'url')}))"
            more = f", {limit(args)}" if limit(args) else ""
            code.append(f"expect({page}).to_have_url({part}{more})")
        if args.get("idle"):
            code.append(f'{page}.wait_for_load_state("networkidle")')
        longer = limit(args, ACTION_MS)
        more = f", {longer}" if longer else ""
        if args.get("request"):
            part = self._values.value(args["request"], "url")
            event = f"expect_response(lambda response: {part} in response.url{more})"
            self._last_act(step).around.insert(0, f"{page}.{event}")
        if args.get("console"):
            part = self._values.value(args["console"], "text")
            event = f"expect_console_message(lambda message: {part} in message.text{more})"
            self._last_act(step).around.insert(0, f"{page}.{event}")
        return code

    def _by_text(self, step: Step, page: str, name: str) -> str:
        """Return the first element with a text, in the frame where it was seen."""
        code = step.locators.get(step.args[name], "")
        frame = frame_of(code) if is_locator(code) else ""
        return f"{page}.{frame}get_by_text({self._values.value(step.args[name], 'text')}).first"

    def _last_act(self, step: Step) -> StepSource:
        """Return the line that brought about what this step waited for or answered."""
        if step.tab in self._unrepeated:
            raise _NotRepeatable("the step that brought it about is left out")
        for line in reversed(self._lines):
            if line.tab == step.tab and line.acts:
                return line
        raise _NotRepeatable("no earlier step of the test brings it about")

    def _of_context(self, step: Step) -> list[str]:
        if step.tool == "unroute":
            return [f"page.context.unroute({self._pattern(url)})" for url in step.args["urls"]]
        if step.tool == "loadState":
            name = self._values.variable(f"state {step.args['name']}", f"state {step.args['name']}")
            return [f"page.context.set_storage_state({name})"]
        return [self._route(step.args)]

    def _route(self, args: dict[str, Any]) -> str:
        from pilothouse.e2e.browser.routes import content_type_of

        if set(args) - {"url", "respond", "block", "times"}:
            raise _NotRepeatable("only a plain respond or block can be written down")
        if reply := args.get("respond"):
            text = str(reply.get("body", ""))
            body = self._values.value(text, "body")
            headers = [
                f"{literal(name)}: {self._values.value(value, name)}"
                for name, value in reply.get("headers", {}).items()
            ]
            kind = reply.get("contentType") or content_type_of(text)
            answer = (
                f"fulfill(status={reply.get('status', 200)}, body={body},"
                f" content_type={literal(kind)}"
                + (f", headers={{{', '.join(headers)}}}" if headers else "")
                + ")"
            )
        else:
            answer = f"abort({literal(args['block'])})"
        times = f", times={args['times']}" if args.get("times") else ""
        pattern = self._pattern(str(args["url"]))
        return f"page.context.route({pattern}, lambda route: route.{answer}{times})"

    def _pattern(self, url: str) -> str:
        from pilothouse.e2e.browser.routes import url_pattern

        if self._is_secret(url):
            raise _NotRepeatable("its URL holds a secret")
        return f"re.compile({raw(url_pattern(url))})"

    def written(self, title: str, viewport: tuple[int, int]) -> WrittenTest:
        body = [text for line in self._lines for text in line.lines()]
        if viewport != DEFAULT_VIEWPORT:
            width, height = viewport
            body.insert(0, f'page.set_viewport_size({{"width": {width}, "height": {height}}})')
        return WrittenTest(
            source=source_of(title, self._base, self._left_out, body),
            steps=self._steps,
            left_out=tuple(self._left_out),
            variables=tuple(dict.fromkeys(self._values.variables.values())),
            fails_at=self._fails_at,
        )
