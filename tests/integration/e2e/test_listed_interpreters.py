"""Interpreters that SERVER_COMMAND_PATH lists: they run the session's own code, and nothing else.

What is refused would leave a file behind if it ran, so its absence shows that nothing did.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.e2e.command_policy.arguments import check_arguments
from pilothouse.e2e.command_policy.own_code import CommandPlace, Unfit
from tests.support.session_life import PLAIN, Driver, open_place
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PYTHON = sys.executable
NODE = shutil.which("node") or "node"
BASH = shutil.which("bash") or "bash"
MAKE = shutil.which("make") or "make"
SERVER_JS = "require('http').createServer((_, r) => r.end('good')).listen(process.env.PORT)"
CALLED = "subprocess:getoutput('{touch}')"
FLASK_APP = "import flask\napp = flask.Flask(__name__)\napp.get('/')(lambda: 'good')\n"


@dataclass(frozen=True)
class Yard:
    """A session's folder, and beside it code that is not the session's own."""

    driver: Driver
    app: Path
    outside: Path
    canary: Path

    def words(self, command: list[str]) -> list[str]:
        code = f"open({str(self.canary)!r}, 'w')"
        script = f"require('fs').writeFileSync({str(self.canary)!r}, '')"
        fills = {"{py}": PYTHON, "{node}": NODE, "{out}": str(self.outside), "{code}": code}
        fills["{script}"] = script
        fills |= {"{bash}": BASH, "{make}": MAKE, "{touch}": f"touch {self.canary}"}
        filled = []
        for word in command:
            for name, value in fills.items():
                word = word.replace(name, value)
            filled.append(word)
        return filled

    def start(self, command: list[str], **more: Any) -> dict[str, Any]:
        return self.driver.call(
            "startSession", command=self.words(command), cwd=str(self.app), **more
        )


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with open_place() as place:
        outside = place.root / "outside"
        outside.mkdir()
        made = place.root / "canary"
        python = f"open({str(made)!r}, 'w')\n"
        for name in ("evil.py", "__main__.py", "sitecustomize.py"):
            (outside / name).write_text(python + "app = None\n")
        (outside / "evil.js").write_text(f"require('fs').writeFileSync({str(made)!r}, '')\n")
        (place.app / "out.py").symlink_to(outside / "evil.py")
        (place.app / "lamp").symlink_to(outside)
        (place.app / "hidden.js").symlink_to(outside / "evil.js")
        (place.app / "server.js").write_text(SERVER_JS)
        (place.app / "quick.js").write_text("")
        (place.app / "index.html").write_text("good")
        (place.app / "web.py").write_text(FLASK_APP)
        (place.app / "shop").mkdir()
        (place.app / "shop" / "__main__.py").write_text(PLAIN)
        (place.app / "shop" / "__init__.py").write_text("")
        (place.app / "Makefile").write_text("dev:\n")
        listed = ":".join((PYTHON, NODE, BASH, MAKE))
        with Driver(place, env={"SERVER_COMMAND_PATH": listed}) as driver:
            yield Yard(driver, place.app, outside, made)


HARMFUL: list[tuple[list[str], dict[str, str], str]] = [
    (["{py}", "-c", "{code}"], {}, "takes no -c"),
    (["{py}", "-Bc", "{code}"], {}, "takes no -Bc"),
    (["{py}", "{out}/evil.py"], {}, "outside"),
    (["{py}", "out.py"], {}, "outside"),
    (["{py}", "lamp"], {}, "outside"),
    (["{py}", "-m", "lamp.evil"], {}, "outside"),
    (["{py}", "-m", "timeit", "-n1", "{code}"], {}, "neither"),
    (["{py}", "-m", "cProfile", "{out}/evil.py"], {}, "neither"),
    (["{py}", "-m", "flask", "--app", "{out}/evil.py", "run"], {}, "outside"),
    (["{py}", "-m", "uvicorn", "evil:app", "--app-dir={out}"], {}, "outside"),
    (["{py}", "-m", "flask", "run"], {"FLASK_APP": "{out}/evil.py"}, "FLASK_APP"),
    (["{py}", "app.py"], {"PYTHONPATH": "{out}"}, "PYTHONPATH"),
    (["{py}", "-m", "flask", "--app", CALLED, "run"], {}, "Python's own subprocess"),
    (["{py}", "-m", "flask", "--app", f"gone/{CALLED}", "run"], {}, "Python's own subprocess"),
    (["{py}", "-m", "flask", "run"], {"FLASK_APP": CALLED}, "FLASK_APP"),
    (["{bash}", "+e", "-c", "{touch}"], {}, "takes no +e"),
    (["{make}", "--", "SHELL:=/bin/sh", "X:=$(shell {touch})", "dev"], {}, "takes no variables"),
    (["{node}", "-e", "{script}"], {}, "takes no -e"),
    (["{node}", "--eval={script}"], {}, "takes no --eval"),
    (["{node}", "{out}/evil.js"], {}, "outside"),
    (["{node}", "hidden"], {}, "outside"),
    (["{node}", "--import", "file://{out}/evil.js", "server.js"], {}, "takes no --import"),
    (["{node}", "--test", "quick.js", "{out}/evil.js"], {}, "outside"),
    (["{node}", "server.js"], {"NODE_OPTIONS": "--require={out}/evil.js"}, "NODE_OPTIONS"),
]
OTHERS: list[tuple[list[str], dict[str, str], str]] = [
    (["{py}", "-m", "pip.__main__", "install", "shop"], {}, "neither"),
    (["{py}", "/dev/stdin"], {}, "outside"),
    (["{py}", "-m", "gunicorn", "os:system('{touch}')"], {}, "Python's own os"),
    (["{py}", "-m", "uvicorn", "--factory", "pip:main"], {}, "no module"),
    (["{node}", "inspect", "server.js"], {}, "no script"),
    (["{node}", "server.js"], {"node_options": "--require={out}/evil.js"}, "node_options"),
]
"""These do nothing here, for want of pip, of gunicorn, of input and of a client."""


@pytest.mark.parametrize(("command", "env", "why"), HARMFUL, ids=lambda value: str(value)[:60])
def test_the_code_of_others_would_leave_a_file_behind(
    yard: Yard, command: list[str], env: dict[str, str], why: str
) -> None:
    extra = {name: yard.words([value])[0] for name, value in env.items()}
    alone = {"PATH": os.environ["PATH"], "PORT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(
        yard.words(command),
        cwd=yard.app,
        env={**alone, **extra},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(yard.canary.exists)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        yard.canary.unlink(missing_ok=True)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("command", "env", "why"), HARMFUL + OTHERS, ids=lambda value: str(value)[:60]
)
def test_code_of_others_does_not_run(
    yard: Yard, command: list[str], env: dict[str, str], why: str
) -> None:
    words = yard.words(command)
    env = {name: yard.words([value])[0] for name, value in env.items()}
    here = {"cwd": str(yard.app), "env": env}
    ways: list[dict[str, Any]] = [
        {"command": words, **here},
        {"services": [{"name": "web", "command": words, **here}]},
        {"commandPath": words[0], "args": words[1:], **here},
    ]
    for way in ways:
        fault = yard.driver.fault("startSession", **way)
        assert fault["type"] == "command_not_allowed"
        # The contract's own --start comes first, and no interpreter knows that.
        assert why in fault["message"] or ("commandPath" in way and "--start" in fault["message"])
        assert fault["setting"] in fault["suggestion"] or "env" in fault["suggestion"]
    assert not yard.canary.exists()
    assert yard.driver.browsers() == []


@pytest.mark.browser
@pytest.mark.parametrize(
    "command",
    [
        ["{py}", "app.py"],
        ["{py}", "-u", "-m", "shop"],
        ["{py}", "-m", "http.server"],
        ["{py}", "-m", "flask", "--app", "web", "run"],
        ["{node}", "server.js"],
    ],
    ids=" ".join,
)
def test_the_sessions_own_code_and_servers_run(yard: Yard, command: list[str]) -> None:
    session = yard.start(command)
    page = yard.driver.call("navigate", sessionId=session["sessionId"], url="/")
    assert page["status"] == 200
    assert yard.driver.end(session)["success"]


@pytest.mark.browser
def test_a_folder_that_says_how_it_starts_starts_with_a_list_too(yard: Yard) -> None:
    pages = yard.app / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("<title>Plain</title>")
    session = yard.driver.call("startSession", cwd=str(pages))
    assert yard.driver.call("navigate", sessionId=session["sessionId"], url="/")["title"] == "Plain"
    assert yard.driver.end(session)["success"]


@pytest.mark.browser
def test_a_restart_is_judged_anew_and_a_refused_one_changes_nothing(yard: Yard) -> None:
    script = yard.app / "later.py"
    shutil.copy(yard.app / "app.py", script)
    session = yard.start(["{py}", "later.py"])
    in_session = {"sessionId": session["sessionId"]}
    script.unlink()
    script.symlink_to(yard.outside / "evil.py")
    fault = yard.driver.fault("restartServer", **in_session)
    assert fault["type"] == "command_not_allowed"
    assert "outside" in fault["message"]
    status = yard.driver.status(session)
    assert (status["status"], status["healthy"]) == ("running", True)
    assert yard.driver.call("navigate", **in_session, url="/")["status"] == 200
    assert not yard.canary.exists()
    script.unlink()
    shutil.copy(yard.app / "app.py", script)
    assert yard.driver.call("restartServer", **in_session)["pid"] != session["pid"]
    assert yard.driver.end(session)["success"]


# What Python itself would take


MODULES = {
    "shop": True,
    "shop.part": True,
    "bare.job": True,
    "bare": False,
    "calendar": True,
    "runpy": False,
    "site": False,
    "json": False,
    "xml.tool": False,
    "installed": False,
    "installed.job": False,
    "mine": True,
    "absent": False,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an interpreter with packages of its own, and a folder with modules."""
    folder = tmp_path_factory.mktemp("modules")
    environment = folder / "env"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    own = folder / "project"
    for name in ("shop/__init__", "installed/__init__"):
        write((own if name[0] == "s" else packages) / f"{name}.py", "")
    for name in (
        *("shop/__main__", "shop/part", "bare/job", "calendar", "mine", "runpy", "site"),
        *("json/job", "xml/tool", "installed/__main__", "installed/job"),
    ):
        write(own / f"{name}.py", "print('own')\n")
    for name in ("installed/__main__", "installed/job", "mine", "absent"):
        write(packages / f"{name}.py", "print('installed')\n")
    return environment / "bin" / "python", own


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("flag", ["-u", "-I", "-P"])
def test_a_module_is_the_sessions_own_where_python_takes_it_from_there(
    project: tuple[Path, Path], module: str, flag: str
) -> None:
    python, own = project
    said = subprocess.run(
        [python, flag, "-m", module],
        cwd=own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = said.stdout == "own\n"
    assert taken == (flag == "-u" and MODULES[module]), said.stderr
    place = CommandPlace(own, (own,), programs=(python,))
    assert place.has_module(module) == MODULES[module]
    words = (flag, "-m", module)
    if taken:
        check_arguments("python", words, place)
    else:
        with pytest.raises(Unfit):
            check_arguments("python", words, place)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
