"""Runs the official conformance suite: both revisions, on the fixture app and on the product.

    python -m tests.conformance.run

The suite is installed once from the pinned lock file into the ignored folder `.peers/`; what each
check found is left in `.cache/conformance/`.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import PRODUCT, http_server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUITE = ROOT / ".peers" / "conformance"
RESULTS = ROOT / ".cache" / "conformance"
LOCK = "package-lock.json"
GUARD_S = 110
"""A leg takes seconds; one that hangs must not hang whoever runs it."""


@dataclass(frozen=True)
class Leg:
    """One run of the whole suite."""

    app: str
    revision: str
    baseline: str = ""
    """What this app may fail, as the suite's own format has it; without one, nothing, and then
    not even a recommendation (a warning) may be missed."""

    @property
    def results(self) -> Path:
        return RESULTS / f"{self.app}-{self.revision}"


FIXTURES = (Leg("fixtures", "2025-11-25"), Leg("fixtures", "2026-07-28"))
PRODUCTS = (
    Leg("product", "2025-11-25", "product-2025.yml"),
    Leg("product", "2026-07-28", "product-2026.yml"),
)


class Unavailable(Exception):
    """The suite cannot be run here; the message says what would help."""


def installed_suite() -> tuple[str, str]:
    """The command of the suite, installed now if it is missing or another version is there."""
    modules = SUITE / "node_modules"
    # npm writes this file last, so its presence means that an installation went through.
    finished = modules / f".{LOCK}"
    if not finished.exists() or (SUITE / LOCK).read_bytes() != (HERE / LOCK).read_bytes():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("npm is not on PATH: install Node.js with npm")
        say("  … installing the suite")
        SUITE.mkdir(parents=True, exist_ok=True)
        finished.unlink(missing_ok=True)
        for name in ("package.json", LOCK, ".npmrc"):
            shutil.copyfile(HERE / name, SUITE / name)
        install = subprocess.run(
            [npm, "ci", "--ignore-scripts"], cwd=SUITE, capture_output=True, text=True
        )
        if install.returncode != 0:
            said = install.stderr.strip()[-600:]
            raise Unavailable(f"`npm ci --ignore-scripts` in {SUITE} failed:\n{said}")
    node = modules / ".bin" / "node"
    if not node.exists():
        raise Unavailable(f"tests/conformance/package.json pins no Node for {sys.platform}")
    return str(node), str(modules / "@modelcontextprotocol/conformance/dist/index.js")


def run(leg: Leg, url: str, command: tuple[str, str]) -> bool:
    """Run one leg and tell how it went."""
    started = time.monotonic()
    shutil.rmtree(leg.results, ignore_errors=True)
    leg.results.mkdir(parents=True)
    asked = ["--url", f"{url}/mcp", "--suite", "all", "--spec-version", leg.revision]
    if leg.baseline:
        asked += ["--expected-failures", str(HERE / leg.baseline)]
    output = leg.results / "output.txt"
    with output.open("w") as sink:
        try:
            code = subprocess.run(
                [*command, "server", *asked, "-o", str(leg.results)],
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=GUARD_S,
            ).returncode
        except subprocess.TimeoutExpired:
            sink.write(f"\nended after {GUARD_S} s")
            code = -1
    found = statuses(leg.results)
    passed, failed, warned = (found[name] for name in ("SUCCESS", "FAILURE", "WARNING"))
    good = code == 0 and passed > 0 and (bool(leg.baseline) or failed == warned == 0)
    expected = " as expected" if leg.baseline and code == 0 else ""
    say(
        f"  {'✓' if good else '✗'} {leg.app:9} {leg.revision}  {passed:3} passed,"
        f" {failed} failed{expected}, {warned} warned  {time.monotonic() - started:.1f} s"
    )
    if not good:
        say(*(f"    {line}" for line in complaints(leg)), f"    all of it: {output}")
    return good


def statuses(results: Path) -> Counter[str]:
    return Counter(
        check["status"]
        for scenario in results.glob("*/checks.json")
        for check in json.loads(scenario.read_text())
    )


def complaints(leg: Leg) -> list[str]:
    """Each check that did not pass; with a baseline, where the suite found it wrong."""
    if leg.baseline:
        said = re.sub(r"\x1b\[\d*m", "", (leg.results / "output.txt").read_text())
        # "✗" failed and is not listed, "✓" is listed and passed; "~", as expected, is left out.
        return re.findall(r"^  [✗✓] .*", said.rpartition("\nTotal:")[2], re.MULTILINE)
    return [
        f"{scenario.parent.name}: {check['id']}: {check.get('errorMessage')}"
        for scenario in sorted(leg.results.glob("*/checks.json"))
        for check in json.loads(scenario.read_text())
        if check["status"] in ("FAILURE", "WARNING")
    ]


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    try:
        command = installed_suite()
    except Unavailable as error:
        say(f"conformance: {error}")
        return 2
    # The servers end with the blocks below, which a signal would otherwise skip.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    home = {"PILOTHOUSE_HOME": str(RESULTS / "home")}
    good = True
    for module, legs in (("tests.conformance.app", FIXTURES), (PRODUCT, PRODUCTS)):
        with http_server(module=module, env=home) as server:
            for leg in legs:
                good = run(leg, server.url, command) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
