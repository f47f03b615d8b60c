"""A short tour: start the server, speak MCP to it in both eras, and show what came back."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from rich.console import Console
from rich.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Iterator

ERAS = {"legacy": "2025-11-25 and before (initialize, sessions)", "auto": "2026-07-28 (stateless)"}
TIMELINE = "pilothouse://timeline"
COMMAND = [sys.executable, "-m", "pilothouse"]
console = Console()


@contextmanager
def running_server() -> Iterator[str]:
    """`pilothouse serve` on a free port; its base URL."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(r"serving on (\S+)", line)
            if found:
                break
        else:
            raise SystemExit("the server did not start; `pilothouse doctor` says why")
        yield found.group(1)
    finally:
        process.terminate()
        process.wait(10)


async def tour(era: str, transport: Any, where: str) -> None:
    """What an agent does first: list, call, read, wait for a push."""
    pushed = anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            pushed.set()

    async with Client(transport, mode=era, message_handler=on_message) as client:
        version = client.session.protocol_version
        console.print(f"\n[bold]{where}[/], speaking {ERAS[era]}: agreed on {version}")
        tools = (await client.list_tools()).tools
        console.print(f"  tools/list      {', '.join(tool.name for tool in tools)}")
        answer = await client.call_tool("status", {})
        console.print(
            Panel(getattr(answer.content[0], "text", ""), title="tools/call status", width=92)
        )
        refused = await client.call_tool("status", {"verbose": True})
        error = (refused.structured_content or {})["error"]
        console.print(
            f"  a bad argument  {error['type']}: {error['message']} ({error['suggestion']})"
        )
        with anyio.fail_after(10):
            if era == "auto":
                async with client.listen(resource_subscriptions=[TIMELINE]) as subscription:
                    await client.call_tool("status", {})
                    await anext(aiter(subscription))
            else:
                await client.subscribe_resource(TIMELINE)
                await client.call_tool("status", {})
                await pushed.wait()
        console.print(f"  push            {TIMELINE} changed")


async def main() -> None:
    stdio = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env={"LOG_LEVEL": "error"})
    with running_server() as url:
        for era in ERAS:
            await tour(era, f"{url}/mcp", f"HTTP {url}/mcp")
        async with httpx.AsyncClient() as http:
            console.print(f"\n  /health         {(await http.get(f'{url}/health')).text}")
    for era in ERAS:
        await tour(era, stdio_client(stdio), "stdio")
    console.print("\n`make run` serves it for you; paste the line it prints into your client.")


if __name__ == "__main__":
    import warnings

    # The tour speaks the older era on purpose; the SDK warns of each of its methods.
    warnings.simplefilter("ignore")
    anyio.run(main)
