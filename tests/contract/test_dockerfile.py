"""The image, as far as it can be judged without building it.

What the files promise is read from the files; that the server starts with the image's own
environment, and refuses to without an issuer, is tried.
"""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilothouse.core.settings import SETTINGS, resolve
from tests.support.servers import environment

ROOT = Path(__file__).resolve().parents[2]
SECRET = re.compile(r"(?i)oauth|token|secret|password|key")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, its continued lines joined."""

    name: str
    words: str

    def exec_form(self) -> list[str]:
        """The words of an instruction that runs without a shell."""
        found: list[str] = json.loads(self.words)
        return found


def instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parts = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [Instruction(name.upper(), words.strip()) for name, words in parts]


DOCKERFILE = instructions((ROOT / "Dockerfile").read_text())
LAST_STAGE = DOCKERFILE[max(at for at, one in enumerate(DOCKERFILE) if one.name == "FROM") :]


def named(name: str, stage: list[Instruction] = DOCKERFILE) -> list[Instruction]:
    return [one for one in stage if one.name == name]


def variables() -> dict[str, str]:
    """The environment that the image sets."""
    pairs = (pair for one in named("ENV", LAST_STAGE) for pair in one.words.split())
    return dict(pair.split("=", 1) for pair in pairs)


def copied() -> list[str]:
    """What is copied from the checkout."""
    found = []
    for one in named("COPY"):
        words = one.words.split()
        if not words[0].startswith("--from"):
            found += words[:-1]
    return found


def test_every_base_image_is_pinned_to_a_full_version_of_the_python_that_we_need() -> None:
    bases = {one.words.split()[0] for one in named("FROM")}
    assert len(bases) == 1, "what is built for one system must run on the same"
    assert all(re.fullmatch(r"python:3\.1[34]\.\d+-slim-[a-z]+", base) for base in bases)


def test_no_registry_and_no_address_is_named() -> None:
    for name in ("Dockerfile", ".dockerignore"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://(?!127\.0\.0\.1)|index-url|latest", text), name


def test_the_server_runs_as_a_user_that_is_not_root_and_by_number() -> None:
    users = named("USER", LAST_STAGE)
    assert [one.words.isdecimal() and int(one.words) > 0 for one in users] == [True]
    after = LAST_STAGE[LAST_STAGE.index(users[0]) :]
    assert not {one.name for one in after} & {"RUN", "COPY", "ADD"}
    assert f"--uid {users[0].words} " in "".join(one.words for one in named("RUN", LAST_STAGE))


def test_the_command_runs_without_a_shell_under_an_init() -> None:
    (entry,), (command,) = named("ENTRYPOINT"), named("CMD")
    assert entry.exec_form() == ["tini", "--"]
    assert command.exec_form() == ["pilothouse", "e2e"]


def test_the_exposed_port_is_the_one_that_the_server_takes() -> None:
    (exposed,) = named("EXPOSE")
    assert exposed.words == variables()["PORT"]


def test_the_health_check_asks_the_server_itself() -> None:
    (check,) = named("HEALTHCHECK")
    flags, _, command = check.words.partition(" CMD ")
    assert "--interval=" in flags
    assert "--timeout=" in flags
    interpreter, _, program = json.loads(command)
    assert interpreter == "python"
    assert "/health" in program
    compile(program, "HEALTHCHECK", "exec")


def test_packages_leave_no_lists_and_bring_no_recommendations() -> None:
    for one in named("RUN"):
        if "apt-get install" in one.words:
            assert "--no-install-recommends" in one.words
            assert "rm -rf /var/lib/apt/lists/*" in one.words
            assert re.search(r"\bchromium\b", one.words)
            break
    else:
        pytest.fail("the image installs no browser")


@pytest.mark.process
def test_chromium_loses_its_sandbox_only_where_there_are_no_namespaces(tmp_path: Path) -> None:
    (written,) = [one.words for one in named("RUN") if "/etc/chromium.d/" in one.words]
    flags = tmp_path / "flags"
    subprocess.run(["sh", "-c", re.sub(r"> \S+$", '> "$0"', written), str(flags)], check=True)
    said = {}
    for answer in ("true", "false"):
        (tmp_path / "unshare").write_text(f"#!/bin/sh\nexec {answer}\n")
        (tmp_path / "unshare").chmod(0o755)
        ran = subprocess.run(
            ["sh", "-c", '. "$0"; echo "$CHROMIUM_FLAGS"', str(flags)],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CHROMIUM_FLAGS": "--given"},
            capture_output=True,
            text=True,
            check=True,
        )
        said[answer] = ran.stdout.split()
    assert said == {"true": ["--given"], "false": ["--given", "--no-sandbox"]}


def test_python_packages_are_installed_by_hash_from_the_lock() -> None:
    installs = [one.words for one in named("RUN") if "uv pip install" in one.words]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--constraints requirements.lock" in installs[0]
    assert "--no-deps --build-constraints requirements.lock" in installs[1]


def test_uv_itself_is_installed_by_hash_from_the_file_that_the_set_up_uses() -> None:
    uv = (ROOT / "requirements-uv.lock").read_text()
    assert re.match(r"uv==[\d.]+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+\Z", uv)
    in_image = [one.words for one in named("RUN") if re.match(r"pip install", one.words)]
    script = (ROOT / "scripts" / "setup").read_text()
    assert "\nuv_lock=requirements-uv.lock " in script
    script = script.replace("$uv_lock", "requirements-uv.lock")
    in_setup = re.findall(r"-m pip install(?:\\\n|.)*", script)
    assert (len(in_image), len(in_setup)) == (1, 2)
    for install in (*in_image, *in_setup):
        assert re.search(r'--require-hashes\s+--requirement "?\S*requirements-uv.lock', install)


def test_whatever_is_copied_exists_and_passes_the_ignore_list() -> None:
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    patterns = [rule for rule in rules if rule and not rule.startswith("#")]
    assert patterns[0] == "*", "what is not named must stay out"
    assert copied()
    for source in copied():
        name = source.removeprefix("./")
        assert (ROOT / name).exists(), source
        ignored = False
        for pattern in patterns:
            if fnmatch.fnmatch(name, pattern.removeprefix("!")):
                ignored = not pattern.startswith("!")
        assert not ignored, source


def test_the_ignore_list_lets_nothing_through_that_is_not_copied() -> None:
    kept = {rule[1:] for rule in (ROOT / ".dockerignore").read_text().split() if rule[0] == "!"}
    assert kept == {source.removeprefix("./") for source in copied()}


def test_no_secret_is_set_and_every_variable_of_ours_is_a_setting() -> None:
    known = {name for setting in SETTINGS for name in setting.about.env}
    for name in variables():
        assert not SECRET.search(name), name
        if name.startswith("PILOTHOUSE_") or name in ("PORT", "TRANSPORT_MODE"):
            assert name in known, name
    assert not named("ARG")


def test_the_image_serves_e2e_over_http_in_production() -> None:
    settings = resolve({}, variables())
    assert settings.production
    assert settings.transport == "http"
    assert settings.http_host == "0.0.0.0"
    assert settings.e2e_http_port == int(variables()["PORT"])
    assert settings.server_command_path is None, "then nothing may be started, as it should be"


def test_the_guide_names_only_variables_that_exist() -> None:
    guide = (ROOT / "docs" / "guides" / "cloud-run.md").read_text()
    known = {name for setting in SETTINGS for name in setting.about.env}
    named_there = set(re.findall(r"\b(?:OAUTH|PILOTHOUSE|SERVER|ALLOWED)_[A-Z_]+", guide))
    assert {"OAUTH_ISSUER", "PILOTHOUSE_PUBLIC_URL", "SERVER_COMMAND_PATH"} <= named_there <= known
    assert f"--chown={named('USER', LAST_STAGE)[0].words}" in guide


@pytest.mark.process
def test_without_an_issuer_the_image_refuses_to_start(tmp_path: Path) -> None:
    own = {name: value for name, value in variables().items() if name != "PATH"}
    own |= {"PILOTHOUSE_HOME": str(tmp_path), "PORT": "0"}
    (command,) = named("CMD")
    ran = subprocess.run(
        [sys.executable, "-m", *command.exec_form()],
        env=environment(own),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert "OAUTH_ISSUER" in ran.stderr
