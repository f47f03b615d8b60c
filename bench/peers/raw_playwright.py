"""Playwright itself, without a server before it: what a step costs at the least.

Reads one JSON command a line, answers with the milliseconds of Playwright's own call.
"""

import asyncio
import json
import sys
import time
from typing import Any

from playwright.async_api import Page, async_playwright


async def take(page: Page, command: dict[str, Any]) -> float:
    began = time.perf_counter()
    match command["do"]:
        case "navigate":
            await page.goto(command["url"])
        case "click":
            await page.click(command["selector"])
        case "type":
            await page.fill(command["selector"], command["text"])
        case "evaluate":
            await page.evaluate(command["script"])
        case "screenshot":
            await page.screenshot(scale="css")
    return (time.perf_counter() - began) * 1000


async def main(executable: str, *flags: str) -> None:
    loop = asyncio.get_running_loop()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(flags))
        page = await browser.new_page()
        print("ready", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(await take(page, json.loads(line)), flush=True)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
