"""Runs the official conformance suite in both revisions: on the fixture app, on the same app as the
worker of a gateway, and on the product.

    python -m tests.conformance.run

The suite is installed once from the pinned lock file into the ignored folder `.peers/`; what each
check found is left in `.cache/conformance/`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.npm import PEERS, NotInstalled, install, is_installed
from tests.support.servers import PRODUCT, http_server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUITE = PEERS / "conformance"
RESULTS = ROOT / ".cache" / "conformance"
GUARD_S = 300
"""A leg takes seconds, and half a minute where each session starts a process; one that hangs must
not hang whoever runs it."""


@dataclass(frozen=True)
class Leg:
    """One run of the whole suite."""

    app: str
    revision: str
    baseline: str = ""
    """What this app may fail, as the suite's own format has it; without one, nothing, and then
    not even a recommendation (a warning) may be missed."""
    same_as: str = ""
    """The app whose score this one must have, which is run before it."""
    but: str = ""
    """A scenario that only the other one can have."""

    @property
    def results(self) -> Path:
        return RESULTS / f"{self.app}-{self.revision}"

    @property
    def has_the_score(self) -> bool:
        """Whether it is that of the other app, if it must be."""
        other = replace(self, app=self.same_as)
        return not self.same_as or score(self, self.but) == score(other, self.but)


@dataclass(frozen=True)
class Served:
    """A server, and the legs that are run on it."""

    module: str
    legs: tuple[Leg, ...]
    args: tuple[str, ...] = ()


HOME = f"PILOTHOUSE_HOME={RESULTS / 'home'}"
FIXTURE_APP = "tests.conformance.app"
WORKER = shlex.join(["env", HOME, sys.executable, "-m", FIXTURE_APP])
"""The fixture app as a command that a gateway starts, which hands on none of its own variables."""
REVISIONS = ("2025-11-25", "2026-07-28")
SERVERS = (
    Served(FIXTURE_APP, tuple(Leg("fixtures", revision) for revision in REVISIONS)),
    Served(
        PRODUCT,
        tuple(Leg("gateway-http", revision, same_as="fixtures") for revision in REVISIONS),
        ("--worker", f"http:{WORKER} serve --port 0"),
    ),
    Served(
        PRODUCT,
        tuple(
            # On stdio a server has no stream that it could close before its answer.
            Leg("gateway-stdio", revision, same_as="fixtures", but="server-sse-polling")
            for revision in REVISIONS
        ),
        ("--worker", f"stdio:{WORKER}"),
    ),
    Served(
        PRODUCT,
        (
            Leg("product", "2025-11-25", "product-2025.yml"),
            Leg("product", "2026-07-28", "product-2026.yml"),
        ),
    ),
)


class Unavailable(Exception):
    """The suite cannot be run here; the message says what would help."""


def installed_suite() -> tuple[str, str]:
    """The command of the suite, installed now if it is missing or another version is there."""
    if not is_installed(HERE, SUITE):
        say("  … installing the suite")
    try:
        modules = install(HERE, SUITE)
    except NotInstalled as error:
        raise Unavailable(str(error)) from None
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
    passed, failed, warned = score(leg)
    good = code == 0 and passed > 0 and (bool(leg.baseline) or failed == warned == 0)
    good = good and leg.has_the_score
    expected = " as expected" if leg.baseline and code == 0 else ""
    say(
        f"  {'✓' if good else '✗'} {leg.app:13} {leg.revision}  {passed:3} passed,"
        f" {failed} failed{expected}, {warned} warned  {time.monotonic() - started:.1f} s"
    )
    if not good:
        say(*(f"    {line}" for line in complaints(leg)), f"    all of it: {output}")
    return good


def score(leg: Leg, but: str = "") -> tuple[int, int, int]:
    """Checks that passed, failed and warned, without those of one scenario."""
    found = Counter(
        check["status"]
        for scenario in leg.results.glob("*/checks.json")
        for check in json.loads(scenario.read_text())
        if not but or but not in scenario.parent.name
    )
    return found["SUCCESS"], found["FAILURE"], found["WARNING"]


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
    home = dict([HOME.split("=", 1)])
    good = True
    for served in SERVERS:
        with http_server(*served.args, module=served.module, env=home) as server:
            for leg in served.legs:
                good = run(leg, server.url, command) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
