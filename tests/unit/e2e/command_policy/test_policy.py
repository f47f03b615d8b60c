"""What a session may start: commands, folders and variables that would get round the rules."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.e2e.command_policy.own_code import CommandPlace
from pilothouse.e2e.command_policy.policy import check_command, check_cwd, child_env
from pilothouse.e2e.model import CommandNotAllowed, ServerStartFailed

NOWHERE = Path("/nowhere")
PLACE = CommandPlace(NOWHERE, (NOWHERE,))


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    return path


def check(
    command: str | Path,
    *args: str,
    allowed: tuple[str, ...] | None = None,
    production: bool = False,
    search: str = "",
    base: Path | None = None,
) -> Path:
    place = CommandPlace(base or NOWHERE, (base or NOWHERE,), search)
    return check_command(
        str(command),
        args,
        place=place,
        allowed=allowed,
        production=production,
        absolute=base is None,
    )


def listing(*paths: Path) -> tuple[str, ...]:
    return tuple(map(str, paths))


# Development, nothing listed


def test_any_program_of_ones_own_may_start_in_development(tmp_path: Path) -> None:
    server = program(tmp_path / "server")
    assert check(server) == server
    assert check(server, "-c", "anything") == server


def test_a_name_is_looked_up_in_path(tmp_path: Path) -> None:
    first, second = program(tmp_path / "a" / "serve"), program(tmp_path / "b" / "serve")
    assert check("serve", search=f"{tmp_path}/none:{first.parent}:{second.parent}") == first
    first.chmod(0o644)
    assert check("serve", search=f"{first.parent}:{second.parent}") == second


@pytest.mark.parametrize("search", ["", ":", ".", "bin", "./bin:", "~/bin"])
def test_a_name_is_never_looked_up_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    program(tmp_path / "serve")
    program(tmp_path / "bin" / "serve")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ServerStartFailed) as failed:
        check("serve", search=search)
    assert failed.value.details["cause"] == {"type": "command_not_found", "path": "serve"}


@pytest.mark.parametrize("given", ["./server", "bin/../server", "../server", "server/", "~/server"])
def test_a_relative_path_is_refused_where_nothing_says_from_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    program(tmp_path / "server")
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandNotAllowed, match="not absolute"):
        check(given)


def test_a_relative_path_starts_at_the_folder_that_is_given(tmp_path: Path) -> None:
    server = program(tmp_path / "bin" / "server")
    assert check("bin/server", base=tmp_path) == server
    assert check("./bin/../bin/server", base=tmp_path).resolve() == server.resolve()
    with pytest.raises(CommandNotAllowed):
        check("bin/server", base=tmp_path, allowed=listing(tmp_path / "other"))


@pytest.mark.parametrize("missing", ["gone", "gone/deeper", "file/below"])
def test_what_is_not_there_is_command_not_found(tmp_path: Path, missing: str) -> None:
    program(tmp_path / "file")
    with pytest.raises(ServerStartFailed) as failed:
        check(tmp_path / missing)
    cause = {"type": "command_not_found", "path": str(tmp_path / missing)}
    assert failed.value.details["cause"] == cause


def test_what_cannot_be_executed_is_permission_denied(tmp_path: Path) -> None:
    plain = program(tmp_path / "plain", 0o644)
    for path in (plain, tmp_path):
        with pytest.raises(ServerStartFailed) as failed:
            check(path)
        assert failed.value.details["cause"] == {"type": "permission_denied", "path": str(path)}


def test_a_fifo_or_device_is_permission_denied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o755)
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises((ServerStartFailed, CommandNotAllowed)):
            check(path)


@pytest.mark.parametrize("given", ["", "\0", "/bin/sh\0-c", "a\0b"])
def test_an_impossible_name_is_invalid_input(given: str) -> None:
    with pytest.raises(InvalidInput):
        check(given, search="/bin:/usr/bin")


def test_a_zero_byte_in_an_argument_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        check(program(tmp_path / "server"), "a\0b")


# What others can write


def test_a_file_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    server = program(tmp_path / "server", 0o757)
    with pytest.raises(CommandNotAllowed, match="everybody can write"):
        check(server)
    with pytest.raises(CommandNotAllowed, match="everybody can write"):
        check(server, allowed=listing(server))
    with pytest.raises(CommandNotAllowed, match="everybody can write"):
        check("server", search=str(tmp_path))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_folder_on_the_way_that_everybody_can_write_is_refused(
    tmp_path: Path, depth: int
) -> None:
    server = program(tmp_path / "a" / "b" / "server")
    folder = server.parents[depth]
    folder.chmod(0o777)
    with pytest.raises(CommandNotAllowed, match=f"everybody can write {folder}"):
        check(server)
    folder.chmod(0o755)
    assert check(server) == server


def test_a_sticky_folder_is_no_danger_to_ones_own_files(tmp_path: Path) -> None:
    server = program(tmp_path / "shared" / "server")
    server.parent.chmod(0o1777)
    assert check(server) == server


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_in_a_sticky_folder_is_refused(tmp_path: Path) -> None:
    server = program(tmp_path / "shared" / "server")
    server.parent.chmod(0o1777)
    os.chown(server, 4321, 4321)
    with pytest.raises(CommandNotAllowed, match="another user's"):
        check(server)
    link = tmp_path / "shared" / "link"
    link.symlink_to(program(tmp_path / "good"))
    os.lchown(link, 4321, 4321)
    with pytest.raises(CommandNotAllowed, match="another user's"):
        check(link)
    folder = program(tmp_path / "shared" / "folder" / "server").parent
    os.chown(folder, 4321, 4321)
    with pytest.raises(CommandNotAllowed, match="another user's"):
        check(folder / "server")


def test_a_link_is_judged_by_its_target_and_by_where_it_lies(tmp_path: Path) -> None:
    good, bad = program(tmp_path / "good"), program(tmp_path / "bad", 0o757)
    to_good, to_bad = tmp_path / "to-good", tmp_path / "to-bad"
    to_good.symlink_to("good")
    to_bad.symlink_to(bad)
    assert check(to_good) == to_good
    with pytest.raises(CommandNotAllowed, match="everybody can write"):
        check(to_bad)
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    (open_folder / "link").symlink_to(good)
    with pytest.raises(CommandNotAllowed, match="everybody can write"):
        check(open_folder / "link")


def test_every_link_of_a_chain_and_every_linked_folder_is_looked_at(tmp_path: Path) -> None:
    good = program(tmp_path / "bin" / "good")
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    (open_folder / "middle").symlink_to(good)
    (tmp_path / "first").symlink_to("open/middle")
    (open_folder / "folder").symlink_to(good.parent)
    (tmp_path / "through").symlink_to("open/folder/good")
    for path in ("first", "through", "open/folder/good", "open/../bin/good"):
        with pytest.raises(CommandNotAllowed, match="everybody can write"):
            check(tmp_path / path)
    (tmp_path / "straight").symlink_to("bin/../bin/good")
    assert check(tmp_path / "straight") == tmp_path / "straight"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(CommandNotAllowed):
        check(tmp_path / "a")


def test_a_program_that_runs_as_another_user_is_refused(tmp_path: Path) -> None:
    server = program(tmp_path / "server")
    server.chmod(0o755 | stat.S_ISUID)
    with pytest.raises(CommandNotAllowed, match="another user"):
        check(server)


# Production, and lists


def test_in_production_without_a_list_nothing_may_start(tmp_path: Path) -> None:
    server = program(tmp_path / "server")
    for given in (str(server), "server", "/nowhere", "sh"):
        with pytest.raises(CommandNotAllowed, match="in production") as refused:
            check(given, production=True, search=str(tmp_path))
        assert refused.value.details["setting"] == "SERVER_COMMAND_PATH"
        assert "SERVER_COMMAND_PATH" in refused.value.hint


@pytest.mark.parametrize("production", [False, True])
def test_only_what_is_listed_may_start(tmp_path: Path, production: bool) -> None:
    server, other = program(tmp_path / "server"), program(tmp_path / "server2")
    allowed = listing(tmp_path / "none", server)
    assert check(server, "--start", "-c", allowed=allowed, production=production) == server
    assert check("server", allowed=allowed, production=production, search=str(tmp_path)) == server
    for refused in (other, tmp_path / "server3", Path("/bin/sh")):
        with pytest.raises(CommandNotAllowed, match="not on the list") as fault:
            check(refused, allowed=allowed, production=production)
        assert "SERVER_COMMAND_PATH" in fault.value.hint


@pytest.mark.parametrize("allowed", [(), ("server",), ("./server",), ("",), ("*",)])
def test_a_list_without_a_whole_path_allows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandNotAllowed):
        check(program(tmp_path / "server"), allowed=allowed)


def test_a_listed_folder_allows_what_really_lies_in_it(tmp_path: Path) -> None:
    inside = program(tmp_path / "ok" / "deep" / "server")
    twin = program(tmp_path / "ok-evil" / "server")
    allowed = (f"{tmp_path}/ok/",)
    assert check(inside, allowed=allowed) == inside
    (tmp_path / "ok" / "shell").symlink_to("/bin/sh")
    (tmp_path / "into").symlink_to(inside)
    assert check(tmp_path / "into", allowed=allowed) == inside
    for path in (twin, tmp_path / "ok" / "shell", tmp_path / "ok" / ".." / "ok-evil" / "server"):
        with pytest.raises(CommandNotAllowed, match="not on the list"):
            check(path, allowed=allowed)
    with pytest.raises(CommandNotAllowed):
        check(inside, allowed=(f"{tmp_path}/ok",))


def test_a_link_to_a_shell_is_a_shell(tmp_path: Path) -> None:
    link = tmp_path / "server"
    link.symlink_to("/bin/sh")
    with pytest.raises(CommandNotAllowed, match="not on the list"):
        check(link, allowed=listing(tmp_path / "other"))
    with pytest.raises(CommandNotAllowed, match="-c"):
        check(link, "-c", "id", allowed=listing(link))
    hidden = tmp_path / "hidden"
    hidden.symlink_to(link)
    with pytest.raises(CommandNotAllowed, match="-c"):
        check(hidden, "-c", "id", allowed=listing(hidden))


def test_a_program_runs_under_the_name_that_was_listed(tmp_path: Path) -> None:
    # Some programs are many: which one is decided by the name that they are called by.
    many = program(tmp_path / "many")
    for name in ("list", "shell"):
        (tmp_path / name).symlink_to(many)
    assert check(tmp_path / "shell", allowed=listing(tmp_path / "list")) == tmp_path / "list"


def test_a_listed_file_behind_a_traversal_is_the_same_file(tmp_path: Path) -> None:
    server = program(tmp_path / "bin" / "server")
    assert check(f"{tmp_path}/bin/../bin/./server", allowed=listing(server)) == server


# Arguments of what is listed

REFUSED = """
    sh -c id | sh -ec id | sh -lc id | bash -c id | bash --rcfile /tmp/x | bash -i -c id
    bash -O extglob -c id | dash -c id | zsh -c id | fish --command id | ksh -c id
    bash --init-file x
    python3 -c pass | python3.13 -c pass | python -Ic pass | python -uc pass | python -cpass
    python3 -I -c pass | python -m timeit pass | python -m pdb -c x y.py | python -X importtime -c x
    python -W error::os.x y.py | pypy3 -c pass | python3 -i app.py | python -m IPython -c x
    node -e 1 | node --eval 1 | node --eval=1 | node -p 1 | node -pe 1 | node --print=1
    node -r /tmp/x app.js | node --require=/tmp/x app.js
    node --import data:text/javascript,1 app.js
    node --loader /tmp/x app.js | node --experimental-loader=x app.js
    node --env-file=/tmp/e app.js
    node --inspect=0.0.0.0 app.js | node data:text/javascript,1 | nodejs -e 1 | node20 -e 1
    tsx -e 1 | ts-node -e 1 | nodemon --exec id | nodemon -x id
    npx -c id | npx --call id | npx --call=id | npx -p x -c id | npx --package=x y | npx ./x
    npx --node-options=--require=/tmp/x vite | npx git+https://host.test/x.git | npx node -e 1
    npx -y bash -c id | npx https://host.test/x.tgz | npx node@20 -e 1 | npx-cli.js -c id
    npm exec -c id | npm x -- id | npm exec --call=id | npm install x
    npm run dev --script-shell=/tmp/x
    npm --node-options=--require=/tmp/x run dev | npm run dev --node-options -r
    npm --prefix /tmp run x
    npm config set script-shell /tmp/x | npm-cli.js exec -c id | npm init evil
    npm start --userconfig=x
    yarn exec id | yarn dlx x | yarn node -e 1 | yarn run node -e 1 | yarn --cwd /tmp dev
    pnpm exec id | pnpm dlx x | pnpm --dir /tmp run dev | pnpm -c exec id
    bun -e 1 | bun x evil | bun run -e 1 | bun --preload /tmp/x run a | bunx -p x y
    bun run node -e 1
    deno eval 1 | deno run https://host.test/x.ts | deno run --import-map=data:x a.ts | deno repl
    deno run npm:evil | deno run data:application/javascript,1
    ruby -e 1 | ruby -r/tmp/x a.rb | ruby3.1 -e 1 | perl -e 1 | perl -E 1 | perl -Mevil a.pl
    perl5.36 -e 1 | php -r 1 | php -d auto_prepend_file=/tmp/x a.php | php8.2 -r 1 | lua5.4 -e 1
    elixir -e 1 | erl -eval 1 | julia -e 1 | Rscript -e 1 | groovy -e 1 | osascript -e 1
    env sh -c id | env -S sh | env A=1 node | xargs sh | nohup sh | timeout 5 sh | nice sh
    setsid sh | sudo id | find . -exec id ; | awk BEGIN{} | sed 1e | busybox sh | git -c x
    ssh host
    ld-linux-x86-64.so.2 /bin/sh | ld-musl-x86_64.so.1 /bin/sh | tar --to-command=id | docker run x
    make --eval=x | make SHELL=/tmp/x | make all -f /tmp/Makefile | gmake --eval x | make -C /tmp
    uv run python -c pass | uv run --with evil x | uvx --from git+x y | poetry run python -c pass
    bundle exec ruby -e 1 | pipenv run sh -c id | hatch run node -e 1 | corepack yarn dev
    concurrently id | cross-env A=1 sh
"""
TAKEN = """
    sh run.sh -c id | bash -e run.sh | bash -eu run.sh --start | sh | python app.py -c x
    python3 -m http.server 8000 | python3.13 -u manage.py runserver | python -m uvicorn app:app -c x
    python -I -B app.py | node server.js -e 1 | node --watch server.js
    node --enable-source-maps a.js
    node --max-old-space-size=512 a.js | npm run dev | npm start | npm run dev -- --port 3000 -c x
    npm run --silent dev | npm test | npm-cli.js run dev | npx vite --port 3000
    npx -y serve@14 dist
    npx @angular/cli serve | yarn dev --port 3000 | yarn run dev -c x | pnpm run dev | pnpm dev
    bun run dev | bun --hot run index.ts | deno task dev | deno run -A main.ts
    deno run --allow-net a.ts
    ruby app.rb -e 1 | perl app.pl | php -S 127.0.0.1:8000 -t public | php artisan serve
    make serve
    uv run flask run | uv run python app.py | poetry run flask run
    bundle exec rails server -e test
    rails server -e test | flask run | gunicorn -c conf.py app | hugo -c x | pythonic -c x
    shelf -c x
"""  # fmt: skip


def lines(table: str) -> list[list[str]]:
    return [line.split() for row in table.strip().splitlines() for line in row.split(" | ")]


@pytest.mark.parametrize("words", lines(REFUSED), ids=" ".join)
def test_a_listed_interpreter_takes_no_code_on_its_command_line(
    tmp_path: Path, words: list[str]
) -> None:
    name, *args = words
    listed = program(tmp_path / name)
    with pytest.raises(CommandNotAllowed, match="with these arguments") as refused:
        check(listed, *args, allowed=listing(listed))
    assert refused.value.details["setting"] == "SERVER_COMMAND_PATH"
    with pytest.raises(CommandNotAllowed):
        check(name, *args, allowed=(f"{tmp_path}/",), production=True, search=str(tmp_path))


@pytest.mark.parametrize("words", lines(TAKEN), ids=" ".join)
def test_what_people_start_is_not_refused(tmp_path: Path, words: list[str]) -> None:
    name, *args = words
    listed = program(tmp_path / name)
    program(tmp_path / "app.py")
    assert check(listed, *args, allowed=listing(listed), base=tmp_path) == listed


def test_without_a_list_development_takes_any_arguments(tmp_path: Path) -> None:
    assert check(program(tmp_path / "bash"), "-c", "npm run dev") == tmp_path / "bash"


# Folders


def test_a_folder_must_really_lie_in_a_root(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "app", other / "deep", tmp_path / "root-evil"):
        folder.mkdir(parents=True)
    (root / "out").symlink_to(other)
    (other / "in").symlink_to(root / "app")
    roots = [root]
    assert check_cwd("", roots) == root
    assert check_cwd("app", roots) == root / "app"
    assert check_cwd(str(root / "app"), roots) == root / "app"
    assert check_cwd(str(other / "in"), roots) == root / "app"
    assert check_cwd(str(other / "deep"), [root, other]) == other / "deep"
    outside = ["..", "/", "out", "out/deep", "app/../..", str(other), str(tmp_path / "root-evil")]
    for given in outside:
        with pytest.raises(CommandNotAllowed, match="outside") as refused:
            check_cwd(given, roots)
        assert "PILOTHOUSE_ROOTS" in refused.value.hint


def test_a_folder_that_is_none_is_invalid_input(tmp_path: Path) -> None:
    program(tmp_path / "file")
    for given in ("gone", "file", "a\0b"):
        with pytest.raises(InvalidInput):
            check_cwd(given, [tmp_path])


# Variables

OURS = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "PILOTHOUSE_HOME": "/secret",
    "PACKET_PROXY_ACCESS_TOKEN": "secret",
    "OAUTH_ISSUER": "https://issuer.test",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "NODE_OPTIONS": "--inspect",
    "LD_PRELOAD": "/x.so",
}


def test_a_child_gets_a_few_variables_its_port_and_what_was_asked() -> None:
    got = child_env(OURS, {"DEBUG": "1", "PORT": "1"}, 3000, restricted_to=None)
    kept = {"PATH": "/bin", "HOME": "/home/me", "LANG": "C.UTF-8"}
    assert got == {**kept, "DEBUG": "1", "PORT": "3000"}
    assert "PORT" not in child_env(OURS, {}, restricted_to=PLACE)


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS",
        "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONWARNINGS", "RUBYOPT",
        "PERL5OPT", "PERL5LIB", "PHPRC", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "IFS", "PATH",
        "HOME", "JAVA_TOOL_OPTIONS", "npm_config_script_shell", "NPM_CONFIG_NODE_OPTIONS",
        "GIT_SSH_COMMAND", "MAKEFLAGS", "GCONV_PATH", "DOTNET_STARTUP_HOOKS", "node_options",
    ],
)  # fmt: skip
def test_a_variable_that_makes_programs_run_other_code_is_refused_where_it_counts(
    name: str,
) -> None:
    with pytest.raises(CommandNotAllowed, match=name) as refused:
        child_env(OURS, {name: "x"}, 1, restricted_to=PLACE)
    assert refused.value.details["variable"] == name
    assert child_env(OURS, {name: "x"}, 1, restricted_to=None)[name] == "x"


@pytest.mark.parametrize(
    "name",
    [
        "DEBUG",
        "NODE_ENV",
        "DATABASE_URL",
        "PYTHONUNBUFFERED",
        "FLASK_DEBUG",
        "GOOGLE_API_KEY",
        "TZ",
    ],
)
def test_usual_variables_may_be_set_everywhere(name: str) -> None:
    assert child_env({}, {name: "x"}, restricted_to=PLACE) == {name: "x"}


@pytest.mark.parametrize("pair", [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")])
def test_an_impossible_variable_is_invalid_input(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        child_env({}, dict([pair]), restricted_to=None)
