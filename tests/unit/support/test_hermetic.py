"""Tests are kept apart from the user's own Pilothouse, and what one leaves is held against it."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.settings import SETTINGS
from tests.support.hermetic import guard, leftovers
from tests.support.hermetic.place import make_place, neutral_environment, user_folders

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hermetic.place import Place

PORTS = {f"PILOTHOUSE_{name}_PORT" for name in ("HTTP", "BOOKMARKS", "CONFIG", "REST")}


@pytest.fixture
def refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report of what this test is refused on purpose."""
    report = place.root / "on purpose"
    monkeypatch.setenv(guard.REPORT, str(report))
    return report


def users_folder() -> str:
    return os.environ[guard.FOLDERS].split(os.pathsep)[0]


def test_home_state_and_temporary_files_are_the_tests_own(place: Place) -> None:
    for name in ("HOME", "PILOTHOUSE_HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        assert Path(os.environ[name]).is_relative_to(place.root)
    assert Path(tempfile.gettempdir()) == place.temp
    assert len(os.fsencode(place.temp)) < 30


def test_no_setting_of_the_user_is_left_and_all_ports_are_zero() -> None:
    declared = {name for setting in SETTINGS for name in setting.about.env}
    here = {name: os.environ[name] for name in declared & os.environ.keys()}
    assert here == {"PILOTHOUSE_HOME": os.environ["PILOTHOUSE_HOME"], **dict.fromkeys(PORTS, "0")}


def test_secrets_are_left_out_and_package_managers_find_their_own(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").touch()
    (tmp_path / ".cache" / "uv").mkdir(parents=True)
    user = {
        "PATH": "/bin",
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "PACKET_PROXY_ACCESS_TOKEN": "x",
        "NODE_ENV": "production",
        "SSH_AUTH_SOCK": "/x",
        "UV_DEFAULT_INDEX": "file:///packages",
    }
    kept = neutral_environment(user)
    assert not kept.keys() & (user.keys() - {"PATH", "UV_DEFAULT_INDEX"})
    assert kept["UV_DEFAULT_INDEX"] == "file:///packages"
    assert kept["NPM_CONFIG_USERCONFIG"] == str(tmp_path / ".npmrc")
    assert kept["UV_CACHE_DIR"] == str(tmp_path / ".cache" / "uv")


def test_the_users_folders_are_those_of_pilothouse_browsers_and_state() -> None:
    found = {str(path) for path in user_folders(Path("/u"), {"XDG_DATA_HOME": "/d"})}
    assert {"/u/.config/pilothouse", "/d/pilothouse", "/u/.local/state"} <= found
    assert {"/u/.config/chromium", "/u/.cache/google-chrome"} <= found


@pytest.mark.parametrize(
    "touch",
    [
        lambda folder: open(f"{folder}/hub.json"),
        lambda folder: os.listdir(folder),
        lambda folder: os.scandir(folder),
        lambda folder: os.mkdir(folder),
        lambda folder: sqlite3.connect(f"{folder}/history.db"),
        lambda folder: Path(f"{folder}/token").read_bytes(),
        lambda folder: os.chdir(folder),
        lambda folder: os.chmod(f"{folder}/token", 0o777),
        lambda folder: os.chown(f"{folder}/token", -1, -1),
        lambda folder: os.truncate(f"{folder}/token", 0),
        lambda folder: os.utime(f"{folder}/token"),
        lambda folder: os.rename(f"{folder}/token", "token"),
        lambda folder: os.rename("token", f"{folder}/token"),
        lambda folder: os.replace("token", f"{folder}/token"),
        lambda folder: os.link("token", os.fsencode(f"{folder}/token")),
        lambda folder: os.symlink("token", f"{folder}/token"),
        lambda folder: Path("token").symlink_to(folder),
        lambda folder: Path("token").rename(Path(folder) / "token"),
    ],
    ids=[
        *(
            "open",
            "list",
            "scan",
            "make",
            "sqlite",
            "read",
            "enter",
            "mode",
            "owner",
            "cut",
            "touch",
        ),
        *("move away", "move in", "replace", "link", "symlink", "symlink to it", "move a path in"),
    ],
)
def test_the_users_folders_cannot_be_opened(touch: Callable[[str], object], refused: Path) -> None:
    with pytest.raises(PermissionError, match="the user's own"):
        touch(users_folder())
    assert users_folder() in refused.read_text()


@pytest.mark.parametrize("port", sorted(guard.DEFAULT_PORTS))
def test_default_ports_can_neither_be_taken_nor_called(port: int, refused: Path) -> None:
    with socket.socket() as one, pytest.raises(PermissionError):
        one.bind(("127.0.0.1", port))
    with socket.socket() as one, pytest.raises(PermissionError):
        one.connect(("127.0.0.1", port))
    with socket.socket(socket.AF_INET6) as one, pytest.raises(PermissionError):
        one.connect(("::1", port, 0, 0))
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        with pytest.raises(PermissionError):
            one.sendto(b"x", ("127.0.0.1", port))
        with pytest.raises(PermissionError):
            one.sendmsg([b"x"], [], 0, ("127.0.0.1", port))
    assert refused.read_text().count(f"port {port}") == 5


@pytest.mark.process
def test_python_children_are_watched_too(refused: Path) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 4000))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert b"PermissionError" in ran.stderr
    assert "socket.connect of port 4000" in refused.read_text()


def test_a_socket_that_stays_open_is_found_and_a_rigs_connection_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as rig:
        before = leftovers.open_sockets()
        with socket.create_connection(rig.getsockname()) as client:
            accepted, _ = rig.accept()
            with accepted:
                (left,) = leftovers.new_sockets(before)
                assert str(client.getsockname()[1]) in left
        assert leftovers.new_sockets(before) == []


@pytest.mark.process
def test_a_process_that_stays_is_found_by_the_place_that_it_was_started_in(place: Place) -> None:
    inner = make_place(place.root.with_name("inner"))
    with inner.entered():
        child = subprocess.Popen(["sleep", "60"])
    try:
        (left,) = leftovers.processes_of(inner)
        assert left == f"{child.pid} sleep 60"
        assert leftovers.processes_of(place) == []
        leftovers.end_processes_of(inner)
        assert child.wait(30) == -9
        assert leftovers.processes_of(inner) == []
    finally:
        child.kill()
        child.wait()
        inner.remove()


def test_a_file_that_stays_is_found_unless_it_is_a_browsers_own(place: Place) -> None:
    for name in ("org.chromium.Chromium.x1", "pilothouse-x2"):
        (place.temp / name).mkdir()
    assert leftovers.files_of(place) == ["pilothouse-x2"]
    (place.temp / "pilothouse-x2").rmdir()
