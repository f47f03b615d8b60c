"""`pilothouse call TOOL JSON`: the command-line form of every declared tool."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.declare.registry import Registry
from pilothouse.server.runtime import open_runtime
from pilothouse.wiring.standalone import make_log, make_redactor

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pilothouse.core.declare.tool import Tool
    from pilothouse.core.settings import Settings
    from pilothouse.server.groups import AnyGroupSpec
    from pilothouse.server.render import Answer

EXIT_FAILED = 1
EXIT_MISUSE = 2


def main(settings: Settings, specs: Sequence[AnyGroupSpec], parsed: argparse.Namespace) -> int:
    """Call one tool in this process: 0 when it went well, 1 when it failed, 2 for misuse."""
    # Someone at a shell names the tool: which ones a model is shown does not matter here.
    settings = replace(settings, profile="full")
    tools = Registry.of(tool for spec in specs for tool in spec.tools).tools
    if parsed.tool is None:
        for name, tool in tools.items():
            sys.stdout.write(f"{name:28} {tool.summary}\n")
        return 0
    found = tools.get(parsed.tool)
    if found is None:
        import difflib

        near = difflib.get_close_matches(parsed.tool, tools, n=1)
        hint = f"did you mean {near[0]}?" if near else "`pilothouse call` lists them"
        sys.stderr.write(f"pilothouse: no tool {parsed.tool!r}; {hint}\n")
        return EXIT_MISUSE
    if parsed.schema:
        sys.stdout.write(_described(found))
        return 0
    text = sys.stdin.read() if parsed.json == "-" else parsed.json or "{}"
    try:
        args = json.loads(text)
    except ValueError as error:
        sys.stderr.write(f"pilothouse: the arguments are not JSON: {error}\n")
        return EXIT_MISUSE
    if not isinstance(args, dict):
        sys.stderr.write("pilothouse: the arguments must be a JSON object, such as '{}'\n")
        return EXIT_MISUSE
    answer = anyio.run(_call, settings, specs, found, args)
    shown = json.dumps(answer.structured, indent=2) if parsed.structured else answer.text
    sys.stdout.write(shown + "\n")
    return EXIT_FAILED if answer.is_error else 0


def _described(tool: Tool) -> str:
    lines = [tool.description, ""]
    required = tool.input_schema.get("required", [])
    for name, schema in tool.input_schema.get("properties", {}).items():
        kind = schema.get("type", "value") + (", required" if name in required else "")
        default = f" (default {json.dumps(schema['default'])})" if "default" in schema else ""
        lines.append(f"  {name:20} {kind}: {schema.get('description', '')}{default}")
    for example in tool.examples:
        arguments = shlex.quote(json.dumps(example.args))
        lines += ["", f"  # {example.title}", f"  pilothouse call {tool.name} {arguments}"]
    return "\n".join(lines) + "\n"


async def _call(
    settings: Settings, specs: Sequence[AnyGroupSpec], tool: Tool, args: dict[str, Any]
) -> Answer:
    async def progress(done: float, total: float | None = None, message: str = "") -> None:
        of = f"/{total:g}" if total else ""
        sys.stderr.write(f"{done:g}{of} {message}\n")

    redactor = make_redactor(settings)
    quiet = replace(settings, log_level="warn") if settings.log_level == "info" else settings
    async with open_runtime(specs, settings, redactor, make_log(quiet, redactor)) as runtime:
        return await runtime.caller.call(tool, args, runtime.sessions.get("call"), progress)
