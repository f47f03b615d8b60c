"""How an app is started, and how its server is told the port."""

from __future__ import annotations

import json
import os
import shlex
import sys
from shlex import quote
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.e2e.app_server.detect import detect, fixed_port, local_program, with_port
from pilothouse.e2e.app_server.frameworks import program

if TYPE_CHECKING:
    from pathlib import Path


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def package(scripts: dict[str, str] | None = None, **more: object) -> str:
    return json.dumps({"scripts": scripts or {}, **more})


def environment(folder: Path, name: str = ".venv", programs: tuple[str, ...] = ("python",)) -> None:
    fill(folder / name, {"pyvenv.cfg": "", **{f"bin/{program}": "" for program in programs}})


def found(folder: Path) -> str:
    plan = detect(folder)
    assert plan is not None
    return shlex.join(plan.argv)


# What is found in a folder


@pytest.mark.parametrize(
    ("scripts", "command"),
    [
        ({"dev": "vite", "start": "node ."}, "npm run dev"),
        ({"start": "node .", "serve": "x"}, "npm start"),
        ({"serve": "vue-cli-service serve", "preview": "vite preview"}, "npm run serve"),
        ({"preview": "vite preview"}, "npm run preview"),
        ({"dev": "tailwindcss -w", "start": "node ."}, "npm start"),
        ({"dev": "tsc --watch", "serve": "http-server"}, "npm run serve"),
        ({"dev": "  ", "start": "node ."}, "npm start"),
    ],
)
def test_the_best_script_of_a_package_is_chosen(
    tmp_path: Path, scripts: dict[str, str], command: str
) -> None:
    assert found(fill(tmp_path, {"package.json": package(scripts)})) == command


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pnpm-lock.yaml": ""}, "pnpm run dev"),
        ({"yarn.lock": ""}, "yarn run dev"),
        ({"bun.lock": ""}, "bun run dev"),
        ({"bun.lockb": ""}, "bun run dev"),
        ({"package-lock.json": ""}, "npm run dev"),
        ({"package.json": package({"dev": "vite"}, packageManager="pnpm@9.1.0")}, "pnpm run dev"),
        (
            {
                "package.json": package({"dev": "vite"}, packageManager="yarn@4.0.0+sha"),
                "package-lock.json": "",
            },
            "yarn run dev",
        ),
        ({"package.json": package({"dev": "vite"}, packageManager="cargo@1")}, "npm run dev"),
    ],
)
def test_the_package_manager_is_known_by_its_files(
    tmp_path: Path, files: dict[str, str], command: str
) -> None:
    assert found(fill(tmp_path, {"package.json": package({"dev": "vite"}), **files})) == command


def test_the_lock_file_of_a_workspace_lies_further_up(tmp_path: Path) -> None:
    fill(tmp_path, {"pnpm-lock.yaml": "", "apps/web/package.json": package({"dev": "vite"})})
    assert found(tmp_path / "apps" / "web") == "pnpm run dev"


def test_the_search_for_a_lock_file_ends_at_the_repository(tmp_path: Path) -> None:
    fill(tmp_path, {"pnpm-lock.yaml": "", "repo/.git/HEAD": ""})
    fill(tmp_path / "repo", {"package.json": package({"dev": "vite"})})
    assert found(tmp_path / "repo") == "npm run dev"


def test_packages_that_are_not_installed_are_told(tmp_path: Path) -> None:
    fill(tmp_path, {"package.json": package({"dev": "vite"}, devDependencies={"vite": "7"})})
    plan = detect(tmp_path)
    assert plan is not None
    assert "npm install" in plan.missing
    (tmp_path / "node_modules").mkdir()
    plan = detect(tmp_path)
    assert plan is not None
    assert plan.missing == ""


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"manage.py": "import django"}, "python3 manage.py runserver"),
        (
            {"app.py": "from flask import Flask\napp = Flask(__name__)\n"},
            "python3 -m flask --app app run --debug",
        ),
        (
            {"server.py": "import flask\nsite = flask.Flask('x')\n"},
            "python3 -m flask --app server:site run --debug",
        ),
        (
            {"main.py": "from fastapi import FastAPI\napp = FastAPI(title='x')\n"},
            "python3 -m uvicorn main:app --reload",
        ),
        ({"main.py": "api: FastAPI = FastAPI()\n"}, "python3 -m uvicorn main:api --reload"),
        (
            {"app/main.py": "app = FastAPI()\n", "app/__init__.py": ""},
            "python3 -m uvicorn app.main:app --reload",
        ),
        (
            {"src/main.py": "app = FastAPI()\n"},
            "python3 -m uvicorn main:app --reload --app-dir src",
        ),
        (
            {"src/shop/app.py": "app = FastAPI()\n"},
            "python3 -m uvicorn shop.app:app --reload --app-dir src",
        ),
        (
            {"src/app.py": "app = Flask(__name__)\n"},
            "python3 -m flask --app src/app.py run --debug",
        ),
        (
            {"shop/__init__.py": "def create_app():\n    return Flask(__name__)\n"},
            "python3 -m flask --app shop run --debug",
        ),
        (
            {"main.py": "def create_app():\n    return FastAPI()\n"},
            "python3 -m uvicorn main:create_app --reload --factory",
        ),
        ({"Procfile": "web: gunicorn app:app\n"}, "gunicorn app:app"),
        (
            {"Procfile": "worker: x\nweb: gunicorn -b 0.0.0.0:$PORT app:app\n"},
            "gunicorn -b '127.0.0.1:{port}' app:app",
        ),
        ({"Procfile": "web: bin/rails server -p ${PORT:-3000}"}, "bin/rails server -p '{port}'"),
        ({"index.html": ""}, f"{quote(sys.executable)} -m http.server"),
        ({"public/index.html": ""}, f"{quote(sys.executable)} -m http.server --directory public"),
    ],
)
def test_an_app_is_known_by_its_files(tmp_path: Path, files: dict[str, str], command: str) -> None:
    assert found(fill(tmp_path, files)) == command


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": "# hello"},
        {"package.json": "not JSON"},
        {"package.json": "[]"},
        {"package.json": package({"build": "vite build", "dev": "tsc -w"})},
        {"package.json": json.dumps({"scripts": {"dev": 5, "start": None}})},
        {"manage.py": "print('of another kind')"},
        {"app.py": "print('no server')"},
        {"Procfile": "worker: x"},
        {"Procfile": "web: cd web && npm start"},
        {"Procfile": "web: serve $DIRECTORY"},
        {"Procfile": "web: 'unbalanced"},
        {"index.html/page": ""},
    ],
)
def test_a_folder_that_says_nothing_gives_no_plan(tmp_path: Path, files: dict[str, str]) -> None:
    assert detect(fill(tmp_path, files)) is None


def test_a_folder_that_is_not_there_gives_no_plan(tmp_path: Path) -> None:
    assert detect(tmp_path / "gone") is None


def test_a_plan_says_why_and_what_else_there_was(tmp_path: Path) -> None:
    scripts = {"dev": "vite", "preview": "vite preview"}
    fill(tmp_path, {"package.json": package(scripts), "manage.py": "django", "pnpm-lock.yaml": ""})
    plan = detect(tmp_path)
    assert plan is not None
    assert plan.why == 'package.json has a script "dev" (vite), run with pnpm (pnpm-lock.yaml).'
    assert plan.others == ("pnpm run preview", "python3 manage.py runserver")


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_the_virtual_environment_of_the_folder_is_preferred(tmp_path: Path, name: str) -> None:
    environment(tmp_path, name)
    fill(tmp_path, {"manage.py": "django", "uv.lock": ""})
    assert found(tmp_path) == f"{tmp_path}/{name}/bin/python manage.py runserver"


@pytest.mark.parametrize(
    ("lock", "command"),
    [
        ("uv.lock", "uv run python manage.py runserver"),
        ("poetry.lock", "poetry run python manage.py runserver"),
        ("Pipfile.lock", "pipenv run python manage.py runserver"),
    ],
)
def test_a_locked_project_without_an_environment_is_run_by_its_tool(
    tmp_path: Path, lock: str, command: str
) -> None:
    assert found(fill(tmp_path, {"manage.py": "django", lock: ""})) == command


def test_the_folder_s_own_programs_come_before_those_on_path(tmp_path: Path) -> None:
    environment(tmp_path, programs=("python", "flask"))
    fill(tmp_path, {"node_modules/.bin/vite": ""})
    own = tmp_path / ".venv" / "bin"
    assert local_program(["flask", "run"], tmp_path) == [str(own / "flask"), "run"]
    assert local_program(["python3", "x.py"], tmp_path) == [str(own / "python"), "x.py"]
    assert local_program(["vite"], tmp_path) == [str(tmp_path / "node_modules" / ".bin" / "vite")]
    assert local_program(["npm", "start"], tmp_path) == ["npm", "start"]
    assert local_program(["/usr/bin/flask"], tmp_path) == ["/usr/bin/flask"]


def test_nothing_of_a_folder_is_run_or_followed_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.json")
    os.mkfifo(tmp_path / "app.py")
    (tmp_path / "manage.py").symlink_to("manage.py")
    assert detect(tmp_path) is None


# How the port is told

VITE = "--port 5 --strictPort --host 127.0.0.1"


@pytest.mark.parametrize(
    ("command", "script", "expected"),
    [
        # The ways of package managers
        ("npm run dev", "vite", f"npm run dev -- {VITE}"),
        ("npm run dev -- --open", "vite", f"npm run dev -- --open {VITE}"),
        ("npm run dev --silent", "vite", f"npm run dev --silent -- {VITE}"),
        ("/usr/lib/node_modules/npm/bin/npm-cli.js run dev", "vite",
         f"/usr/lib/node_modules/npm/bin/npm-cli.js run dev -- {VITE}"),
        ("pnpm run dev", "vite", f"pnpm run dev {VITE}"),
        ("pnpm dev", "vite", f"pnpm dev {VITE}"),
        ("yarn dev", "vite", f"yarn dev {VITE}"),
        ("yarn run dev", "vite", f"yarn run dev {VITE}"),
        ("bun run dev", "vite", f"bun run dev {VITE}"),
        ("bun run --bun dev", "vite", f"bun run --bun dev {VITE}"),
        ("npx vite", "", f"npx vite {VITE}"),
        ("npx -y vite", "", f"npx -y vite {VITE}"),
        ("pnpm exec vite", "", f"pnpm exec vite {VITE}"),
        ("pnpm vite", "", f"pnpm vite {VITE}"),
        ("yarn vite", "", f"yarn vite {VITE}"),
        ("bunx --bun vite", "", f"bunx --bun vite {VITE}"),
        ("npm exec vite", "", "npm exec vite"),
        ("npm --workspace web run dev", "vite", "npm --workspace web run dev"),
        ("pnpm --filter web dev", "vite", "pnpm --filter web dev"),
        ("npm install", "vite", "npm install"),
        ("npm run other", "vite", "npm run other"),
        # What stands in scripts
        ("npm run dev", "NODE_ENV=development vite", f"npm run dev -- {VITE}"),
        ("npm run dev", "cross-env A=1 vite dev", f"npm run dev -- {VITE}"),
        ("npm run dev", "dotenv -e .env -- vite", f"npm run dev -- {VITE}"),
        ("npm run dev", "node --inspect node_modules/vite/bin/vite.js", f"npm run dev -- {VITE}"),
        ("npm run dev", "tsc && vite", f"npm run dev -- {VITE}"),
        ("npm run dev", "vite --port 3000", f"npm run dev -- {VITE}"),
        ("npm run dev", "vite && echo done", "npm run dev"),
        ("npm run dev", "vite build", "npm run dev"),
        ("npm run dev", 'concurrently "vite" "node api.js"', "npm run dev"),
        ("npm run dev", 'sh -c "vite & node api.js"', "npm run dev"),
        ("npm run dev", "npm run dev", "npm run dev"),
        # Frameworks
        ("npm run dev", "next dev --turbopack", "npm run dev -- --port 5"),
        ("npm run dev", "next", "npm run dev -- --port 5"),
        ("npm run dev", "next build", "npm run dev"),
        ("npm run dev", "react-scripts start", "npm run dev"),
        ("npm run dev", "ng serve", "npm run dev -- --port 5"),
        ("npm run dev", "astro dev", "npm run dev -- --port 5 --host 127.0.0.1"),
        ("npm run dev", "nuxt dev", "npm run dev -- --port 5 --host 127.0.0.1"),
        ("npm run dev", "remix vite:dev", "npm run dev -- --port 5"),
        ("npm run dev", "react-router dev", "npm run dev -- --port 5"),
        ("npm run dev", "vite dev", f"npm run dev -- {VITE}"),
        ("npm run dev", "webpack serve --mode development", "npm run dev -- --port 5"),
        ("npm run dev", "webpack-dev-server", "npm run dev -- --port 5"),
        ("npm run dev", "webpack --watch", "npm run dev"),
        ("npm run dev", "parcel index.html", "npm run dev -- --port 5"),
        ("npm run dev", "parcel build index.html", "npm run dev"),
        ("npm run dev", "gatsby develop", "npm run dev -- --port 5"),
        ("npm run dev", "serve -s build", "npm run dev -- -l tcp://127.0.0.1:5"),
        ("npm run dev", "node server.js", "npm run dev"),
        ("npm run dev", "nodemon server.js", "npm run dev"),
        ("node server.js", "", "node server.js"),
        ("flask run", "", "flask run --port 5"),
        ("flask --app shop run --debug", "", "flask --app shop run --debug --port 5"),
        ("flask routes", "", "flask routes"),
        ("/app/.venv/bin/python -m flask run", "", "/app/.venv/bin/python -m flask run --port 5"),
        ("uvicorn main:app --reload", "", "uvicorn main:app --reload --port 5"),
        ("uv run uvicorn main:app", "", "uv run uvicorn main:app --port 5"),
        ("poetry run flask run", "", "poetry run flask run --port 5"),
        ("fastapi dev main.py", "", "fastapi dev main.py --port 5"),
        ("gunicorn app:app", "", "gunicorn app:app --bind 127.0.0.1:5"),
        ("python manage.py runserver", "", "python manage.py runserver 127.0.0.1:5"),
        ("python3.13 manage.py runserver --noreload", "",
         "python3.13 manage.py runserver --noreload 127.0.0.1:5"),
        ("python manage.py migrate", "", "python manage.py migrate"),
        ("python -m http.server", "", "python -m http.server 5 --bind 127.0.0.1"),
        ("python -m http.server --directory public", "",
         "python -m http.server --directory public 5 --bind 127.0.0.1"),
        ("python app.py", "", "python app.py"),
        ("bundle exec rails server", "", "bundle exec rails server --port 5"),
        # A place of its own
        ("server --listen :{port}", "", "server --listen :5"),
        ("npm run dev -- --port={port}", "vite", "npm run dev -- --port=5"),
    ],
)  # fmt: skip
def test_the_port_is_told_as_each_program_wants_it(
    tmp_path: Path, command: str, script: str, expected: str
) -> None:
    fill(tmp_path, {"package.json": package({"dev": script} if script else {})})
    argv, env = with_port(shlex.split(command), 5, tmp_path)
    assert shlex.join(argv) == shlex.join(shlex.split(expected))
    assert env["PORT"] == "5"
    assert env["BROWSER"] == "none"


def test_create_react_app_listens_on_loopback_alone(tmp_path: Path) -> None:
    fill(tmp_path, {"package.json": package({"start": "react-scripts start"})})
    argv, env = with_port(["npm", "start"], 5, tmp_path)
    assert argv == ["npm", "start"]
    assert env == {"PORT": "5", "BROWSER": "none", "HOST": "127.0.0.1"}


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("npm start", "npm run dev", f"npm start -- -- {VITE}"),
        ("npm start", "yarn dev", f"npm start -- {VITE}"),
        ("yarn start", "npm run dev", f"yarn start -- {VITE}"),
        ("pnpm start", "pnpm dev", f"pnpm start {VITE}"),
    ],
)
def test_flags_go_through_a_script_that_runs_another(
    tmp_path: Path, outer: str, inner: str, expected: str
) -> None:
    fill(tmp_path, {"package.json": package({"start": inner, "dev": "vite"})})
    argv, _ = with_port(outer.split(), 5, tmp_path)
    assert " ".join(argv) == expected


@pytest.mark.parametrize("flag", ["--prefix web", "--prefix=web"])
def test_a_package_in_another_folder_is_read_there(tmp_path: Path, flag: str) -> None:
    fill(tmp_path, {"web/package.json": package({"dev": "vite"})})
    argv, _ = with_port(f"npm {flag} run dev".split(), 5, tmp_path)
    assert " ".join(argv) == f"npm {flag} run dev -- {VITE}"


@pytest.mark.parametrize(
    ("command", "port"),
    [
        ("npx vite --port 3000", 3000),
        ("npx vite --port=3000", 3000),
        ("npm run dev -- --port 3000", 3000),
        ("npx next dev -p 3000", 3000),
        ("node server.js --port 3000", 3000),
        ("node -p 3000", 0),
        ("python -m http.server 8000", 8000),
        ("python -m http.server --bind 127.0.0.1 8000", 8000),
        ("python -m http.server --bind 127.0.0.1", 0),
        ("python manage.py runserver 8000", 8000),
        ("python manage.py runserver 0.0.0.0:8000", 8000),
        ("python manage.py runserver", 0),
        ("gunicorn -b 127.0.0.1:8000 app:app", 8000),
        ("flask run --port {port}", 0),
        ("npx vite --port 99999", 0),
        ("npx vite --port", 0),
        ("npm run dev", 0),
    ],
)
def test_a_port_in_the_command_is_kept(tmp_path: Path, command: str, port: int) -> None:
    assert fixed_port(command.split()) == port
    if port:
        assert with_port(command.split(), port, tmp_path)[0] == command.split()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("/usr/bin/python3.13", "python"),
        ("node_modules/vite/bin/vite.js", "vite"),
        ("pnpm.cjs", "pnpm"),
        ("npm.cmd", "npm"),
        ("manage.py", "manage.py"),
    ],
)
def test_a_program_is_known_by_its_name(word: str, name: str) -> None:
    assert program(word) == name


@given(argv=st.lists(st.text(max_size=12), min_size=1, max_size=6), port=st.integers(1, 65_535))
@settings(deadline=None)
def test_any_command_keeps_its_own_words(
    tmp_path_factory: pytest.TempPathFactory, argv: list[str], port: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    told, env = with_port(argv, port, folder)
    assert told[: len(argv)] == [word.replace("{port}", str(port)) for word in argv]
    assert env["PORT"] == str(port)
