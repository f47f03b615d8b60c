"""Whatever a test leaves or touches fails it by name: shown by tests that do so, run by a pytest of
their own with the same plugin."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.support.servers import environment

if TYPE_CHECKING:
    from pathlib import Path

GUARD_S = 90
INI = """
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider -p tests.support.hermetic.plugin
    -p anyio.pytest_plugin
markers =
    leaves_files: as in the real tests
    process: as in the real tests
"""
CONFTEST = """
import socket, subprocess, sys
import pytest
from tests.support.hermetic import leftovers

leftovers.GRACE_S = 0.2
kept = []

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="session")
def rig_of_the_worker():
    kept.append(subprocess.Popen(["sleep", "601"]))

@pytest.fixture(scope="module")
def fixture_of_the_module():
    kept.append(subprocess.Popen(["sleep", "602"]))

@pytest.fixture
def keep():
    return kept.append
"""
TESTS = {
    "test_own.py": """
import os, socket, subprocess, tempfile
from pathlib import Path
import pytest

def test_leaves_a_process(keep):
    keep(subprocess.Popen(["sleep", "600"]))

def test_leaves_a_listening_socket(keep):
    keep(socket.create_server(("127.0.0.1", 0)))

def test_leaves_a_connection(keep):
    keep(socket.socketpair())

def test_leaves_a_file():
    Path(tempfile.gettempdir(), "left.txt").touch()

def test_calls_a_default_port():
    with pytest.raises(PermissionError):
        socket.create_connection(("127.0.0.1", 4000))

def test_opens_the_users_state():
    with pytest.raises(PermissionError):
        open(os.environ["LC_USERS_HOME"] + "/.local/state/hub.json")

@pytest.mark.anyio
async def test_leaves_a_listening_socket_in_a_loop(keep):
    keep(socket.create_server(("127.0.0.1", 0)))
""",
    "test_clean.py": """
import socket, subprocess, tempfile
from pathlib import Path
import pytest

@pytest.mark.leaves_files
def test_leaves_a_file_on_purpose():
    Path(tempfile.gettempdir(), "left.txt").touch()

def test_leaves_nothing():
    Path(tempfile.gettempdir(), "removed").touch()
    Path(tempfile.gettempdir(), "removed").unlink()
    with socket.create_server(("127.0.0.1", 0)) as one:
        socket.create_connection(one.getsockname()).close()
    subprocess.run(["true"], check=True)
""",
    "test_fixture.py": """
def test_has_a_fixture_that_leaves_a_process(fixture_of_the_module):
    pass
""",
    "test_loop.py": """
import socket
import pytest

@pytest.mark.anyio
async def test_leaves_a_socket_to_its_loop(keep):
    keep(socket.socketpair())
""",
    "tests/unit/test_pure.py": """
import subprocess
import pytest

def test_starts_a_process_unmarked():
    subprocess.run(["true"], check=True)

@pytest.mark.process
def test_starts_a_process_marked():
    subprocess.run(["true"], check=True)
""",
    # The last one: a worker's rigs are looked at when all is over.
    "test_worker.py": """
def test_has_a_rig_that_leaves_a_process(rig_of_the_worker):
    pass
""",
}
OWN = "what is the user's own:\n"
NAMED = {
    "test_leaves_a_process": ("the test left processes:\n", " sleep 600"),
    "test_leaves_a_listening_socket": ("the test left sockets open: socket:[", " at "),
    "test_leaves_a_connection": ("the test left sockets open: socket:[", ", socket:["),
    "test_leaves_a_file": ("the test left files in TMPDIR: left.txt",),
    "test_calls_a_default_port": ("the test touched " + OWN, "socket.connect of port 4000, by "),
    "test_opens_the_users_state": ("the test touched " + OWN, "open of ", "/state/hub.json, by "),
    "test_leaves_a_listening_socket_in_a_loop": ("the test left sockets open: socket:[",),
    "test_has_a_fixture_that_leaves_a_process": (
        "the fixtures of test_fixture.py left processes:\n",
        " sleep 602",
    ),
    "test_leaves_a_socket_to_its_loop": ("the fixtures of test_loop.py left sockets open: ",),
    "test_starts_a_process_unmarked": (
        "the test starts a process, but is not marked so (pytest.mark.process): ",
        "subprocess.Popen true",
    ),
    "test_has_a_rig_that_leaves_a_process": ("the rigs of this worker left processes:\n", " 601"),
}
CLEAN = {"test_leaves_nothing", "test_leaves_a_file_on_purpose", "test_starts_a_process_marked"}


@pytest.mark.process
def test_who_leaves_or_touches_something_is_failed_with_words_that_name_it(tmp_path: Path) -> None:
    troubles = run_tests(tmp_path)
    assert troubles.keys() == NAMED.keys() | CLEAN
    for name, words in NAMED.items():
        for said in words:
            assert said in troubles[name], name
    assert {name for name, trouble in troubles.items() if not trouble} == CLEAN


def run_tests(folder: Path) -> dict[str, str]:
    """Run the tests above as another user's; return what each was failed with."""
    for path, text in {"pytest.ini": INI, "conftest.py": CONFTEST, **TESTS}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    home = folder / "home"
    home.mkdir()
    own = {"HOME": str(home), "LC_USERS_HOME": str(home), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env = {
        name: value
        for name, value in environment(own).items()
        if not name.startswith(("PILOTHOUSE_", "XDG_", "PYTEST_ADDOPTS"))
    }
    report = folder / "report.xml"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--junit-xml", str(report), *TESTS],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    troubles: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        said = [str(one.text) for one in case if one.tag in ("error", "failure")]
        troubles[case.attrib["name"]] = troubles.get(case.attrib["name"], "") + "".join(said)
    return troubles
