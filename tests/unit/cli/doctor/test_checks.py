"""The doctor's checks on machines that a test makes up."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.cli.doctor import checks
from pilothouse.cli.doctor import machine as doctor_machine
from pilothouse.cli.doctor.machine import Context
from pilothouse.core.settings import Settings
from pilothouse.machine import folders
from pilothouse.machine.chromium.finder import find_browser
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pilothouse.cli.doctor.report import Finding

DEBIAN = {"ID": "debian", "PRETTY_NAME": "Debian GNU/Linux 12"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian"}
MINT_LMDE = {"ID": "linuxmint", "ID_LIKE": "debian"}
ARCH = {"ID": "arch"}
PLAYWRIGHT = f"{shlex.quote(sys.executable)} -m playwright install chromium"


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def machine(folder: Path, **facts: Any) -> Context:
    """A healthy Debian whose home and PATH are empty folders of the test."""
    home = Path(facts.pop("home", folder / "home"))
    facts.setdefault("settings", Settings(home=str(home)))
    facts.setdefault("environ", {"PATH": str(folder / "bin"), "HOME": str(folder)})
    return Context(**{"distribution": DEBIAN, "proc": folder / "proc", **facts})


# ------------------------------------------------------------------ finding the browser


def test_a_named_browser_that_is_missing_is_not_replaced_by_one_on_path(tmp_path: Path) -> None:
    program(tmp_path / "chromium")
    environ = {"PATH": str(tmp_path), "PILOTHOUSE_BROWSER": "/nope"}
    assert find_browser(environ) is None
    assert find_browser({"PATH": str(tmp_path)}, explicit="/nope") is None


def test_the_explicit_browser_wins_over_the_variable(tmp_path: Path) -> None:
    chosen, other = program(tmp_path / "chosen"), program(tmp_path / "other")
    found = find_browser({"PILOTHOUSE_BROWSER": str(other)}, explicit=str(chosen))
    assert found is not None
    assert (found.path, found.source) == (chosen, "named")


@pytest.mark.parametrize("name", ["my-chrome", "~/bin/my-chrome"])
def test_a_browser_may_be_named_by_program_or_below_home(tmp_path: Path, name: str) -> None:
    chrome = program(tmp_path / "bin" / "my-chrome")
    found = find_browser({"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}, name)
    assert found is not None
    assert found.path == chrome


def test_chrome_on_path_comes_before_chromium_and_files_that_cannot_run_are_passed(
    tmp_path: Path,
) -> None:
    program(tmp_path / "google-chrome").chmod(0o644)
    stable = program(tmp_path / "google-chrome-stable")
    program(tmp_path / "chromium")
    found = find_browser({"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert found is not None
    assert (found.path, found.source) == (stable, "PATH")


@pytest.mark.skipif(sys.platform != "linux", reason="the layout of Playwright's folder on Linux")
@pytest.mark.parametrize("chosen", [True, False])
def test_without_an_installed_browser_playwrights_newest_download_is_found(
    tmp_path: Path, chosen: bool
) -> None:
    downloads = tmp_path / ("chosen" if chosen else ".cache/ms-playwright")
    program(downloads / "chromium-999" / "chrome-linux" / "chrome")
    newest = program(downloads / "chromium-1200" / "chrome-linux64" / "chrome")
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    if chosen:
        environ["PLAYWRIGHT_BROWSERS_PATH"] = str(downloads)
    found = find_browser(environ)
    assert found is not None
    assert (found.path, found.source) == (newest, "Playwright")


# ------------------------------------------------------------------ Python, machine, sandbox


def test_an_old_python_blocks(tmp_path: Path) -> None:
    finding = next(iter(checks.check_python(machine(tmp_path, python=(3, 12, 9)))))
    assert (finding.state, "3.12.9" in finding.said) == ("block", True)
    assert "--python 3.13" in finding.fix


@pytest.mark.process
def test_missing_bytecode_is_noted_only_where_python_may_not_write_it(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("answer = 42\n")
    forbidden = {"PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}

    def notes(environ: dict[str, str]) -> list[Finding]:
        context = machine(tmp_path, package=package, environ=environ)
        return [finding for finding in checks.check_python(context) if finding.state == "note"]

    assert notes({"PATH": ""}) == []
    (note,) = notes(forbidden)
    subprocess.run(note.fix, shell=True, check=True, env=forbidden)
    assert notes(forbidden) == []


@pytest.mark.parametrize(
    ("kernel", "state", "fix"),
    [
        ("Linux version 5.15.0-microsoft-standard-WSL2 (root@x)", "note", ""),
        (
            "Linux version 4.4.0-Microsoft (M@Microsoft.com)",
            "warn",
            "wsl.exe --set-version 'A B' 2",
        ),
    ],
)
def test_wsl_is_told_from_linux(tmp_path: Path, kernel: str, state: str, fix: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "version").write_text(kernel)
    context = machine(tmp_path, environ={"WSL_DISTRO_NAME": "A B"})
    *_, last = checks.check_machine(context)
    assert (last.state, last.fix) == (state, fix)
    assert len(list(checks.check_machine(machine(tmp_path / "elsewhere")))) == 1


@pytest.mark.parametrize(
    ("file", "value", "fix"),
    [
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "96343", ""),
    ],
)
def test_a_kernel_that_denies_namespaces_is_a_warning_for_ordinary_users(
    tmp_path: Path, file: str, value: str, fix: str
) -> None:
    setting = tmp_path / "proc" / "sys" / file
    setting.parent.mkdir(parents=True)
    setting.write_text(f"{value}\n")
    (user,) = checks.check_sandbox(machine(tmp_path, system="linux"))
    assert (user.state, user.fix) == ("warn" if fix else "ok", fix)
    (root,) = checks.check_sandbox(machine(tmp_path, system="linux", root=True))
    assert (root.state, "--no-sandbox" in root.said) == ("note", True)


# ------------------------------------------------------------------ the browser


@pytest.mark.parametrize(
    ("facts", "programs", "command"),
    [
        ({"root": True}, [], "apt-get update && apt-get install -y chromium"),
        ({}, ["sudo"], "sudo apt-get update && sudo apt-get install -y chromium"),
        ({}, [], PLAYWRIGHT),
        (
            {"distribution": MINT_LMDE, "root": True},
            [],
            "apt-get update && apt-get install -y chromium",
        ),
        ({"distribution": UBUNTU, "root": True}, [], PLAYWRIGHT),
        ({"distribution": ARCH}, ["sudo"], PLAYWRIGHT),
        ({"distribution": {}, "system": "darwin"}, ["brew"], "brew install --cask google-chrome"),
        ({"distribution": {}, "system": "darwin"}, [], PLAYWRIGHT),
    ],
)
def test_a_missing_browser_blocks_with_the_command_of_the_platform(
    tmp_path: Path, facts: dict[str, Any], programs: list[str], command: str
) -> None:
    for name in programs:
        program(tmp_path / "bin" / name)
    context = machine(tmp_path, **facts)
    if find_browser(context.environ):
        pytest.skip("a browser in /Applications is found whatever PATH says")
    (finding,) = checks.check_browser(context)
    assert (finding.check, finding.state, finding.fix) == ("browser", "block", command)


def test_a_named_browser_that_is_missing_is_forgotten_by_the_way_it_was_named(
    tmp_path: Path,
) -> None:
    chromium = program(tmp_path / "bin" / "chromium")
    settings = Settings(browser="/nope")
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    by_flag = machine(tmp_path, settings=settings, environ=environ)
    by_variable = machine(
        tmp_path, settings=settings, environ={**environ, "PILOTHOUSE_BROWSER": "/nope"}
    )
    (flag,), (variable,) = checks.check_browser(by_flag), checks.check_browser(by_variable)
    assert (flag.state, variable.state) == ("block", "block")
    assert flag.fix == f"pilothouse doctor --browser {chromium}"
    assert variable.fix == "unset PILOTHOUSE_BROWSER"
    chromium.unlink()
    (alone,) = checks.check_browser(by_variable)
    assert alone.fix == f"unset PILOTHOUSE_BROWSER; {PLAYWRIGHT}"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo oh no >&2; exit 3", "--version exited with 3: oh no"),
        ("echo cat 9.1", "gives no browser's version"),
        ("kill -SEGV $$", "--version died of SIGSEGV"),
    ],
)
@pytest.mark.process
def test_a_browser_without_a_version_blocks_and_is_not_started(
    tmp_path: Path, script: str, reason: str
) -> None:
    program(tmp_path / "bin" / "google-chrome", script)
    (finding,) = checks.check_browser(machine(tmp_path))
    assert finding.state == "block"
    assert reason in finding.said


@pytest.mark.parametrize(
    ("complaint", "fix"),
    [
        (
            "error while loading shared libraries: libnss3.so: cannot open shared object file",
            f"sudo {shlex.quote(sys.executable)} -m playwright install-deps chromium",
        ),
        ("[1:1:FATAL:singleton.cc:315] Socket path too long: /a/b", "export TMPDIR=/tmp"),
        (
            "[1:1:FATAL:host.cc:117] No usable sandbox!",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
    ],
)
@pytest.mark.process
def test_a_browser_that_does_not_start_blocks_with_the_reason_and_its_fix(
    tmp_path: Path, complaint: str, fix: str
) -> None:
    denied = tmp_path / "proc" / "sys" / "user" / "max_user_namespaces"
    denied.parent.mkdir(parents=True)
    denied.write_text("0\n")
    program(
        tmp_path / "bin" / "google-chrome",
        'if [ "$1" = --version ]; then echo Google Chrome 150.0.1.2; exit; fi\n'
        f'echo "{complaint}" >&2; echo chatter >&2; exit 127',
    )
    found, started = checks.check_browser(machine(tmp_path))
    assert (found.state, "Google Chrome 150.0.1.2" in found.said) == ("ok", True)
    assert (started.check, started.state, started.fix) == ("start", "block", fix)
    assert started.said.endswith(f"it exited with 127: {complaint}")


# ------------------------------------------------------------------ ports


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def free_ports() -> dict[str, Any]:
    """Settings under which the ports of whatever else runs here play no part."""
    return dict.fromkeys(checks.LISTENING, 0)


def test_a_taken_port_names_its_holder_and_moves_to_a_port_that_no_other_setting_wants(
    tmp_path: Path,
) -> None:
    with listening() as held:
        port = held.getsockname()[1]
        ports = {**free_ports(), "config_port": port, "rest_port": port + 1}
        context = machine(tmp_path, settings=Settings(**ports))
        findings = list(checks.check_ports(context))
    config = next(finding for finding in findings if "config_port" in finding.said)
    assert config.state == "warn"
    assert f"(pid {os.getpid()})" in config.said
    assert "PILOTHOUSE_CONFIG_PORT or --config-port" in config.said
    moved = re.fullmatch(r"export PILOTHOUSE_CONFIG_PORT=(\d+)", config.fix)
    assert moved
    assert int(moved.group(1)) > port + 1


@pytest.mark.process
def test_port_zero_is_any_free_one_and_a_foreign_address_is_told_from_a_taken_port(
    tmp_path: Path,
) -> None:
    ports = {**free_ports(), "http_port": free_port()}
    settings = Settings(http_host="192.0.2.1", **ports)
    http, *others, _ = checks.check_ports(machine(tmp_path, settings=settings))
    assert (http.state, http.fix) == ("warn", "export PILOTHOUSE_HTTP_HOST=127.0.0.1")
    assert [finding.state for finding in others] == ["ok"] * 3


def test_the_debugging_port_is_information_whether_held_or_not(tmp_path: Path) -> None:
    def debugging(**settings: Any) -> Finding:
        context = machine(tmp_path, settings=Settings(**free_ports(), **settings))
        *_, last = checks.check_ports(context)
        return last

    with listening() as held:
        port = held.getsockname()[1]
        there = debugging(cdp_port=port)
    nobody = debugging(cdp_port=port)
    elsewhere = debugging(cdp_port=port, cdp_host="192.0.2.1")
    assert (there.state, f"(pid {os.getpid()})" in there.said) == ("ok", True)
    assert (nobody.state, f"--remote-debugging-port={port}" in nobody.fix) == ("note", True)
    assert (elsewhere.state, elsewhere.fix) == ("note", "")


# ------------------------------------------------------------------ state


def test_the_xdg_folders_are_used_without_a_home_and_relative_ones_ignored(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": "relative",
    }
    assert folders.state_folders("", environ) == {
        "config": tmp_path / ".config" / "pilothouse",
        "data": tmp_path / "data" / "pilothouse",
        "state": tmp_path / ".local" / "state" / "pilothouse",
    }


def test_a_state_folder_that_could_be_made_is_fine_and_is_not_made(tmp_path: Path) -> None:
    (finding,) = checks.check_state(machine(tmp_path, home=tmp_path / "a" / "b"))
    assert (finding.state, "will be made" in finding.said) == ("ok", True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "broken link"])
def test_a_state_folder_below_something_else_blocks(tmp_path: Path, kind: str) -> None:
    wall = tmp_path / "wall"
    wall.write_text("") if kind == "file" else wall.symlink_to(tmp_path / "nowhere")
    (finding,) = checks.check_state(machine(tmp_path, home=wall / "state"))
    assert finding.state == "block"
    assert f"{wall} is not a folder" in finding.said
    assert finding.fix.startswith("export PILOTHOUSE_HOME=")


@pytest.mark.process
def test_a_state_folder_that_others_may_read_is_closed_by_the_fix(tmp_path: Path) -> None:
    home = tmp_path / "my state"
    home.mkdir()
    home.chmod(0o755)
    context = machine(tmp_path, home=home)
    (finding,) = checks.check_state(context)
    assert (finding.state, "mode 0755" in finding.said) == ("warn", True)
    subprocess.run(finding.fix, shell=True, check=True)
    assert [finding.state for finding in checks.check_state(context)] == ["ok"]


@pytest.mark.process
def test_files_of_state_that_others_may_read_are_closed_by_the_fix(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bookmarks").mkdir(parents=True)
    (home / "profile").mkdir()
    modes = {
        "hub token": 0o644,
        "strict": 0o400,
        "bookmarks/token": 0o640,
        "profile/Preferences": 0o644,  # the browser's own business
    }
    for name, mode in modes.items():
        (home / name).write_text("")
        (home / name).chmod(mode)
    context = machine(tmp_path)
    findings = list(checks.check_tokens(context))
    assert [finding.said.split(" has ")[0] for finding in findings] == [
        str(home / "hub token"),
        str(home / "bookmarks" / "token"),
    ]
    for finding in findings:
        assert finding.state == "warn"
        subprocess.run(finding.fix, shell=True, check=True)
    assert [finding.state for finding in checks.check_tokens(context)] == ["ok"]


@pytest.mark.process
def test_a_profile_lock_is_judged_by_whether_its_owner_still_runs(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    here = socket.gethostname()
    targets = {
        "dead": f"{here}-{ended.pid}",
        "held": f"{here}-{os.getpid()}",
        "later": f"{here}-{os.getpid()}",
        "other": f"not-{here}-{os.getpid()}",
        "weird": "nonsense",
    }
    for name, target in targets.items():
        lock = tmp_path / "home" / "profiles" / name / "SingletonLock"
        lock.parent.mkdir(parents=True)
        lock.symlink_to(target)
    # Older than the process that now has its pid.
    os.utime(tmp_path / "home/profiles/later/SingletonLock", (0, 0), follow_symlinks=False)
    context = machine(tmp_path)
    findings = dict(zip(targets, checks.check_profiles(context), strict=True))
    assert {name: finding.state for name, finding in findings.items()} == {
        "dead": "warn",
        "held": "ok",
        "later": "warn",
        "other": "warn",
        "weird": "warn",
    }
    assert f"pid {ended.pid}, which has ended" in findings["dead"].said
    subprocess.run(findings["dead"].fix, shell=True, check=True)
    assert len(list(checks.check_profiles(context))) == len(targets) - 1


def test_the_extension_is_named_once_shipped_and_paired_once_it_has_a_code(tmp_path: Path) -> None:
    context = machine(tmp_path, package=tmp_path / "src" / "pilothouse")
    (absent,) = checks.check_extension(context)
    assert (absent.state, absent.said) == ("ok", "not part of this build")
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "manifest.json").write_text("{}")
    (present,) = checks.check_extension(context)
    assert str(tmp_path / "extension") in present.said
    assert (present.state, present.fix) == ("note", "pilothouse pair")
    assert not (tmp_path / "home").exists(), "a check changes nothing"
    pairing_secret(context.settings).value()
    (paired,) = checks.check_extension(context)
    assert (paired.state, paired.fix) == ("ok", "")


def test_a_library_without_its_driver_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "playwright").mkdir()
    (tmp_path / "playwright" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "playwright", raising=False)
    monkeypatch.delitem(sys.modules, "mitmproxy", raising=False)
    playwright, mitmproxy = checks.check_libraries(machine(tmp_path))
    assert (playwright.state, mitmproxy.state) == ("block", "block")
    assert "lacks driver/node and driver/package/cli.js" in playwright.said
    assert mitmproxy.fix == doctor_machine.reinstall("mitmproxy")


def test_a_check_that_fails_is_a_finding_and_the_next_ones_still_run(tmp_path: Path) -> None:
    def check_stars(_: Context) -> list[Finding]:
        raise OSError("no sky")

    failed, then = checks.examine(machine(tmp_path), (check_stars, checks.check_sandbox))
    assert (failed.check, failed.state) == ("stars", "warn")
    assert "OSError: no sky" in failed.said
    assert then.check == "sandbox"
