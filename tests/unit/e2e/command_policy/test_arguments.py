"""Arguments of listed programs in a project's folder: would the code that runs be its own?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from pilothouse.e2e.command_policy.own_code import CommandPlace
from pilothouse.e2e.command_policy.policy import check_command, child_env
from pilothouse.e2e.model import CommandNotAllowed

# Below the project, each with its folders; a target after an arrow makes a link.
PROJECT = """
    app.py server.js manage.py main.ts run.sh site/__main__.py app.pyz artisan conf.py bin/rails
    shop/__init__.py shop/__main__.py shop/web.py shop/deep/__init__.py
    bare/main.py bare/inner/job.py empty/readme.txt pip/__main__.py calendar.py runpy.py
    own/pip/__init__.py own/pip/__main__.py own/app.py own/flask.py own/manage.py own/web/index.html
    package.json sub/app.py sub/manage.py index.js lib/index.js
    .venv/pyvenv.cfg .venv/bin/pip .venv/bin/flask .venv/bin/daphne
    .venv/lib/python3.13/site-packages/pip/__init__.py
    .venv/lib/python3.13/site-packages/pip/__main__.py
    .venv/lib/python3.13/site-packages/flask/__init__.py
    .venv/lib/python3.13/site-packages/flask/__main__.py
    node_modules/vite/bin/vite.js node_modules/ts-node/dist/bin.js
    node_modules/concurrently/dist/bin/concurrently.js node_modules/npm/bin/npm-cli.js
    node_modules/.bin/vite>../vite/bin/vite.js node_modules/.bin/ts-node>../ts-node/dist/bin.js
    within.py>app.py alias>shop broken.py>/nowhere/x.py
    out.py>../outside/evil.py outdir>../outside stdin.py>/dev/stdin fd.py>/proc/self/fd/0
    hop.py>outdir/evil.py hidden.js>../outside/evil.js linked/__main__.py>../../outside/evil.py
    linked/__init__.py linkedjs/index.js>../../outside/evil.js mod.py>../outside/evil.py
    half/__init__.py half/web.py>../../outside/evil.py flasklink/flask>../../outside
    sneaky>.venv/bin/pip http/notes.py src/laid/__init__.py src/laid/__main__.py src/pip/web.py
    src/requests/__init__.py asgi.py vite.config.js node_modules/@11ty/eleventy/cmd.cjs
    node_modules/rollup/dist/bin/rollup evilconf.js>../outside/evil.js
"""
OUTSIDE = "evil.py evil.js evil.sh __init__.py __main__.py conf.py site-packages/x.py .git"
INSTALLED = "pip/__init__.py pip/__main__.py requests/__init__.py"

# A folder of the project before a colon is where it runs. {out} is a folder outside.
ALLOWED = """
    python3 app.py | python3 -u app.py -c pass | python3 {root}/app.py | python3 ./sub/../app.py
    python3 within.py | python3 site | python3 site/ | python3 app.pyz | python3 .
    sub: python3 app.py | sub: python3 ../app.py | python3 -uB app.py | python3 -bb app.py
    python3 gone.py | python3 -I app.py | python3 manage.py runserver | python3 manage.py migrate
    python3 manage.py runserver --settings shop.web | python3 -m shop | python3 -m shop.web
    python3 -m shop.gone -c x | python3 -m alias | python3 -um shop | python3 -mshop
    python3 -m bare.main | python3 -m bare.inner.job | own: python3 -m pip install x
    python3 -m calendar | own: python3 -m app | own: python3 -m flask shell | python3 -m app
    python3 -Bm app | python3 -m http.server | python3 -m http.server 8000 --bind 127.0.0.1
    python3 -I -m http.server | python3 -m http.server --directory own/web
    python3 -m http.server -d {root}/own | python3 -m flask run
    python3 -m flask --app app run --debug | python3 -m flask --app shop/web.py:app run
    python3 -m flask --app shop.web run --port 3000 | python3 -m flask -A app run -p 1
    python3 -m uvicorn app:app --reload | python3 -m uvicorn app:app --app-dir own --host 127.0.0.1
    python3 -m uvicorn app:app --root-path /api --uds /run/x.sock --ssl-keyfile /etc/key.pem
    python3 -P -m uvicorn app:app | python3 -m gunicorn app:app -c conf.py --bind unix:/run/x.sock
    sub: python3 -m gunicorn app:app --chdir .. -c conf.py
    python3 -m gunicorn -w 4 app:app --access-logfile sub/x | python3 -m hypercorn app:app
    python3 -m hypercorn own/app:app -b 127.0.0.1:1 | python3 -m fastapi dev
    python3 -m fastapi dev app.py | python3 -m fastapi run --root-path /api app.py
    python3 -m streamlit run app.py | python3 -m streamlit run app.py --server.baseUrlPath /x
    python3 -m django runserver 8000 | python3 .venv/bin/flask run
    python3 .venv/lib/python3.13/site-packages/flask run | node server.js | node server | node .
    node lib | node --watch server.js -e 1 | node --test app.js
    node node_modules/.bin/vite --port 3000 | node node_modules/vite/bin/vite.js | node gone.js
    node node_modules/npm/bin/npm-cli.js run dev | tsx watch main.ts | tsx main.ts
    ts-node main.ts | nodemon --watch sub server.js --port 3000 | nodemon server.js -c x
    sh run.sh -c id | bash ./run.sh | bash gone.sh | perl app.pl | ruby bin/rails server
    lua app.lua | php artisan serve | php -S 127.0.0.1:1 -t sub | deno run -A main.ts
    deno task dev:web | bun run main.ts | bun run dev:web | npm run dev:web | npm start | pnpm dev
    pnpm run dev:web | npx vite | make serve | uv run app.py | uv run python app.py
    uv run flask run | uv run flask --app app run | uv run declared | uv run python -m shop
    uv run task | poetry run uvicorn app:app | bundle exec rails server | uvx flask run
    pipx run pycowsay | python3 -m flask --app shop.web:create('dev') run
    python3 -m flask --app laid run | python3 -m flask --app shop:create(debug=True) run
    python3 -m flask --app shop/deep/__init__.py run | python3 -m gunicorn app:create('dev',1)
    python3 -m gunicorn app:app --timeout 120 --worker-tmp-dir /dev/shm -c python:conf
    python3 -m gunicorn app:app --access-logfile - --error-logfile=- --access-logformat %(t)s:x
    python3 -m uvicorn --factory laid:main | python3 -m uvicorn --access-log --header a:b app:app
    python3 -m hypercorn asgi:application | python3 -m hypercorn wsgi:app:app -c python:conf
    python3 -m hypercorn app:create() | python3 -m fastapi run --entrypoint shop.web:app
    python3 -m gunicorn app:app --chdir own --pythonpath sub
    python3 -m streamlit run app.py -- --data /data/x
    python3 -m streamlit run --server.port 1 app.py
    node node_modules/.bin/vite --config vite.config.js --port {{port}} --base /app/
    npx vite --open /docs --host 0.0.0.0 | npx next dev sub -p 3000 | npx nuxt dev . --port {{port}}
    npx serve -l tcp://127.0.0.1:{{port}} sub | npx webpack serve -c vite.config.js
    npm run dev:web -- --config vite.config.js --base /app/ | npx @11ty/eleventy --serve
    node node_modules/rollup/dist/bin/rollup -c vite.config.js
    tsx watch --clear-screen=false main.ts | php artisan serve --env tests | make serve -- other
    manage.py runserver shell | flask --app app run | flask --app app routes
    python3 sub/manage.py runserver --settings shop.web --pythonpath .
    python3 own/manage.py runserver --settings pip | python3 -m django runserver --settings=shop.web
    python3 -m gunicorn app:app -e DEBUG=1 --env MODE=x=y -e DJANGO_SETTINGS_MODULE=shop.web
    python3 -m gunicorn web:app --chdir shop --env DJANGO_SETTINGS_MODULE=web
    python3 -m gunicorn app:app --pid sub/pid -p pid -blocalhost:3000 -k gthread
    python3 -m gunicorn app:app -k uvicorn.workers.UvicornWorker -eDEBUG=1
    python3 -m gunicorn app:app --worker-class=shop.web.Worker | gunicorn app:app -k app.Worker
    python3 -m gunicorn app:app --logger-class gunicorn.glogging.Logger
    python3 -m hypercorn app:app -k uvloop -p sub/pid | python3 -m uvicorn app:app --loop uvloop
    python3 -m uvicorn app:app --http h11 --ws=none --loop shop.web:loop
    gunicorn shop.web:app -b 127.0.0.1:1 | streamlit run app.py | uvicorn laid:app
"""
REFUSED = """
    python3 {out}/evil.py | python3 ../outside/evil.py | sub: python3 ../../outside/evil.py
    python3 {root}/../outside/evil.py | python3 out.py | python3 outdir/evil.py | python3 hop.py
    python3 outdir | python3 {out} | python3 linked | python3 linked/ | python3 broken.py
    python3 /dev/stdin | python3 /dev/fd/0 | python3 /proc/self/fd/0 | python3 stdin.py
    python3 fd.py | python3 /proc/self/cwd/app.py | python3 /proc/1/root/x.py | python3 -
    python3 -u - | python3 pipe | python3 app{{port}}.py | python3 ~/evil.py
    python3 http://host.test/x.py | python3 -c pass | python3 -Bc pass | python3 -uc pass
    python3 -cpass | python3 -Ic pass | python3 -X importtime -c x | python3 -X presite=x app.py
    python3 -Xpycache_prefix=/tmp app.py | python3 -W error::evil.X app.py
    python3 -Werror::evil.X app.py | python3 -i app.py | python3 -iu app.py
    python3 --check-hash-based-pycs never app.py | python3 -- app.py | python3 -- -c
    python3 --help | python3 -m pip | python3 -m pip.__main__ install x
    python3 -m pip._internal x | python3 -mpip install x | python3 -um pip install x
    python3 -Im pip | python3 -I -m shop | python3 -P -m shop | python3 -IBm shop
    python3 -m runpy pip | python3 -m timeit pass | python3 -m pdb app.py | python3 -m code
    python3 -m http | python3 -m http.notes | python3 -m zipapp | python3 -m ensurepip
    python3 -m idlelib | python3 -m requests | python3 -m pytest | python3 -m empty
    python3 -m bare.gone | python3 -m bare | python3 -m | python3 -m -c
    python3 -m ../outside/evil | python3 -m {out}/evil | python3 -m shop..web | python3 -m mod
    python3 -m linked | python3 -m outdir | python3 -m outdir.evil | python3 -m half.web
    python3 -m app{{port}} | flasklink: python3 -m flask run | empty: python3 -m shop
    .venv/lib/python3.13/site-packages: python3 -m pip install x
    .venv/lib/python3.13/site-packages/pip: python3 __main__.py install x
    python3 .venv/bin/pip install x | python3 .venv/bin/daphne | python3 .venv/bin/flask shell
    python3 .venv/lib/python3.13/site-packages/pip install x
    python3 .venv/lib/python3.13/site-packages/pip/__main__.py install x
    .venv/bin: python3 pip install x | python3 -m flask shell | python3 -m flask --app app shell
    python3 -m flask --app run shell | python3 -m flask | python3 -m flask --app {out}/evil.py run
    python3 -m flask --app={out}/evil.py:app run | python3 -m flask -A{out}/evil run
    python3 -m flask -A ../outside/evil run | python3 -m flask -e {out}/env run
    python3 -m flask --app out.py run | python3 -m flask --app app{{port}} run
    python3 -m uvicorn evil:app --app-dir {out} | python3 -m uvicorn evil:app --app-dir=../outside
    python3 -m uvicorn app:app --env-file {out}/env
    python3 -m uvicorn app:app --log-config {out}/log.yaml
    python3 -m uvicorn app:app --app-dir outdir | python3 -m uvicorn app:app --app-dir ~
    python3 -m gunicorn app:app -c {out}/conf.py
    python3 -m gunicorn app:app -c file:{out}/conf.py | python3 -m gunicorn app:app -c{out}/conf.py
    python3 -m gunicorn app:app -Rc {out}/conf.py
    python3 -m gunicorn app:app --conf={out}/conf.py
    python3 -m gunicorn app:app --pythonpath own,{out}
    sub: python3 -m gunicorn app:app --chdir .. -c ../outside/conf.py
    python3 -m gunicorn app:app --chdir {out}
    sub: python3 -m gunicorn app:app -c ../outside/conf.py --chdir=.. | python3 sneaky run
    python3 -m hypercorn {out}/evil:app | python3 -m hypercorn asgi:../outside/evil:app
    python3 -m hypercorn -c {out}/x a:b | python3 -m fastapi dev {out}/evil.py
    python3 -m fastapi cloud | python3 -m streamlit run {out}/evil.py
    python3 -m streamlit run https://host.test/x.py | python3 -m streamlit hello
    python3 -m django shell -c pass
    python3 -m django runserver --pythonpath {out} --settings evil
    python3 -m django runserver --pyth={out} --settings evil | python3 -m http.server -d /
    python3 -m http.server --dir=/etc | python3 manage.py shell -c pass
    python3 manage.py runserver --pythonpath {out} --settings evil | node {out}/evil.js
    node ../outside/evil.js | node hidden | node linkedjs | node outdir/evil.js | node stdin.py
    node -e 1 | node -p 1 | node -pe 1 | node --eval=1 | node --import ./x.js server.js
    node -r ./x.js server.js | node --require=./x.js server.js
    node --experimental-loader=./x.js server.js | node --env-file=.env server.js
    node --env-file-if-exists=.env server.js | node -C x server.js | node - | node --run dev
    node -- server.js | node inspect {out}/evil.js | node inspect server.js
    node debug host.test:9229 | node file:{out}/evil.js | node --test app.js {out}/evil.js
    node --watch {out}/evil.js | node --snapshot-blob x server.js
    node --experimental-config-file=x server.js | node /dev/stdin | node /proc/self/fd/0
    node node_modules/.bin/ts-node -e 1 | node node_modules/ts-node/dist/bin.js --eval 1
    node node_modules/npm/bin/npm-cli.js exec id
    node node_modules/concurrently/dist/bin/concurrently.js id | tsx watch {out}/evil.js
    tsx {out}/evil.js | tsx -e 1 | ts-node {out}/evil.js | ts-node -r x main.ts
    nodemon server.js --exec id | nodemon server.js -x id | nodemon server.js --exec=id
    nodemon {out}/evil.js | nodemon --watch sub {out}/evil.js
    nodemon server.js --config {out}/x.json | electron . --gpu-launcher=id
    deno run -A {out}/evil.js | deno run --allow-all ../outside/evil.js
    deno run file:{out}/evil.js | deno serve {out}/evil.js | deno eval 1 | deno task --eval id
    deno run --preload=x main.ts | deno run data:x | bun run {out}/evil.js
    bun run --preload x main.ts | bun -e 1 | bun run env | bun run uname -a | sh {out}/evil.sh
    bash ../outside/evil.sh | bash outdir/evil.sh | bash env | sh /dev/stdin | bash /dev/fd/3
    perl {out}/evil.pl | perl -e 1 | ruby {out}/evil.rb | ruby bin/rails runner 1
    php {out}/evil.php | php -r 1 | php -S 127.0.0.1:1 -t {out} | php -S 127.0.0.1:1 {out}/evil.php
    php artisan tinker --execute=1 | pwsh -e aQBkAA== | ipython app.py -c pass
    ipython app.py --InteractiveShellApp.exec_lines=1 | uv run {out}/evil.py | uv run out.py
    uv run --with x app.py | uv run python -c pass | uv run -m pip
    uv run .venv/lib/python3.13/site-packages/pip/__main__.py install x
    uv run python {out}/evil.py
    uv run python -m pip install x | uv run pip install x | uv run uname -a
    uv run --script app.py | uv run - | uv run https://host.test/x.py | uv run {out}/evil.sh
    uv pip install x | uv run flask --app {out}/evil.py run | uv run flask shell
    uv run gunicorn -c {out}/conf.py app:app | uv run .venv/bin/pip install x
    uv run django-admin shell -c pass | poetry run env sh | hatch run uname
    bundle exec rails runner 1 | bundle exec {out}/evil.rb | uvx --from x y | uvx --with x y
    uvx ./x | uvx pip x | npx -p x y | npx -c id | npx ./evil | npx ts-node -e 1 | npm exec id
    npm exec -- id | npm --prefix {out} start | pnpm run {out}/evil.sh | pipx run {out}/evil.py
    pipx run --spec x y | yarn exec id | pilothouse wrap -- sh
    bash +e -c id | sh +x -c id | bash +O extglob -c id | bash +e run.sh | uv run bash +e -c id
    python3 -m flask --app subprocess:getoutput('id') run | python3 -m flask -A os:system('id') run
    python3 -m flask -Aos:system('id') run | python3 -m flask --app pip run
    python3 -m flask --app sub/subprocess:getoutput('id') run
    python3 -m flask --app own/subprocess.py:getoutput('id') run
    python3 -m flask --app shop/os:system('id') run | python3 -m flask --app requests run
    python3 -m flask --app app:create(open('x','w')) run | python3 -m flask --app gone run
    python3 -m gunicorn os:system('id') | python3 -m gunicorn --timeout 120 os:system('id')
    python3 -m gunicorn app:app -c python:os | python3 -m gunicorn -cpython:os app:app
    python3 -m gunicorn app:app --conf=python:requests | uv run gunicorn os:system('id')
    python3 -m gunicorn app:app --access-logfile {out}/evil.py --access-logformat id
    python3 -m gunicorn app:app --access-logf=/var/log/x | python3 -m hypercorn app:exec('1')
    python3 -m uvicorn --factory pip:main | python3 -m uvicorn --access-log requests:main
    python3 -m hypercorn app:__import__('os').system('id') | python3 -m hypercorn asgi:os:f('id')
    python3 -m hypercorn app:os:f('id') | python3 -m hypercorn app:app -c python:os
    python3 -m hypercorn app:app --access-logfile {out}/evil.py
    python3 -m fastapi run --entrypoint os:system | python3 -m laid | python3 -m uvicorn pip.web:app
    python3 -m streamlit run --theme.base app.py https://host.test/x.py
    python3 -m streamlit run -- https://host.test/x.py
    make -- X:=$(shell${{IFS}}id) dev | make -- X=1 dev | make dev -- SHELL=/x | gmake -- X!=id
    npx vite --config {out}/evil.js | npx vite -c {out}/evil.js | npx vite --config={out}/evil.js
    npx vite --base {out} {out} | npx vite {out} | npx vite --config evilconf.js
    npx webpack -c{out}/evil.js | npx webpack -wc{out}/evil.js | npx webpack -w {out}/evil.js
    npx next dev {out} | npx next dev ../outside | npx nuxt dev --open {out}
    npx astro --root {out}
    npx nuxi dev --cwd={out} | npx storybook dev -c {out}
    npx @11ty/eleventy --config {out}/evil.js
    node node_modules/.bin/vite --config {out}/evil.js | npx serve {out} | npx vite http://../../x
    node node_modules/@11ty/eleventy/cmd.cjs --config {out}/evil.js | vite --config {out}/evil.js
    node node_modules/rollup/dist/bin/rollup -c {out}/evil.js | uv run vite --config {out}/evil.js
    npm run dev:web -- --config {out}/evil.js | npm run dev:web -- -c../outside/evil.js
    yarn dev --config={out}/evil.js | pnpm run dev:web -r {out}/evil.js | bun run dev:web -c {out}/x
    manage.py shell_plus -c 1 | python3 manage.py shell_plus -c 1 | python3 manage.py debugsqlshell
    php artisan --env local tinker --execute=1 | php artisan tink --execute=1 | php artisan Tinker
    rails --trace runner 1 | flask --app subprocess:getoutput('id') run | flask --app app shell
    gunicorn os:system('id') | streamlit run https://host.test/x.py | django-admin shell -c 1
    python3 -m gunicorn app:app -e LD_PRELOAD=/x | python3 -m gunicorn app:app -ePYTHONPATH=/x
    python3 -m gunicorn app:app --env=GUNICORN_CMD_ARGS=-cpython:os | gunicorn app:app -e PATH=/x
    python3 -m gunicorn app:app -e DJANGO_SETTINGS_MODULE=requests
    python3 -m gunicorn app:app --pid {out}/evil.py | python3 -m gunicorn app:app -p {out}/evil.py
    python3 -m gunicorn app:app -p{out}/evil.py | python3 -m hypercorn app:app --pid={out}/evil.py
    python3 -m hypercorn app:app -p ../outside/pid | gunicorn app:app --pi {out}/pid
    python3 -m gunicorn app:app -k requests.Worker | python3 -m gunicorn app:app -kos.system
    python3 -m gunicorn app:app --worker-class=pip._internal.Worker | gunicorn app:app -k egg:x
    python3 -m gunicorn app:app --logger-class requests.Logger | gunicorn app:app --logger-cl os.x
    python3 -m hypercorn app:app --worker-class requests:x | python3 -m uvicorn app:app --loop=pip:x
    python3 -m uvicorn app:app --http=requests:x | python3 -m uvicorn app:app --ws requests:x
    python3 -m django runserver --settings=requests | python3 -m django runserver --set os
    python3 manage.py runserver --settings requests.x | sub: python3 ../manage.py x --settings gone
    uvicorn --factory pip:main | python3 -m flask --app calendar:f('x') run | uvicorn runpy:x
    python3 -m flask --app ./calendar.py:f('x') run | rails -p console
"""


@dataclass(frozen=True)
class Rig:
    root: Path
    outside: Path
    bin: Path

    def check(self, row: str) -> Path:
        folder, _, words = row.rpartition(": ")
        words = words.format(out=self.outside, root=self.root)
        name, *args = words.split()
        program = touch(self.bin / name)
        place = CommandPlace(self.root / folder, (self.root,), str(self.bin))
        allowed = (f"{self.bin}/",)
        return check_command(str(program), args, place=place, allowed=allowed, production=True)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text('{"scripts": {"dev:web": "vite"}}' if path.suffix == ".json" else "")
        path.chmod(0o755)
    return path


def rows(table: str) -> list[str]:
    return [row.strip() for line in table.strip().splitlines() for row in line.split(" | ")]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    base = tmp_path_factory.mktemp("place")
    made = Rig(base / "root", base / "outside", base / "usr" / "bin")
    for name in OUTSIDE.split():
        touch(made.outside / name)
    for name in INSTALLED.split():
        touch(base / "usr" / "lib" / "python3.13" / "site-packages" / name)
    for entry in PROJECT.split():
        name, arrow, target = entry.partition(">")
        path = made.root / name
        if arrow:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        else:
            touch(path)
    os.mkfifo(made.root / "pipe")
    (made.root / "pyproject.toml").write_text('[project.scripts]\ndeclared = "shop:main"\n')
    for name in ("env", "uname", "declared"):
        touch(made.bin / name)
    return made


def test_the_tables_are_as_long_as_they_should_be() -> None:
    assert len(rows(ALLOWED)) >= 80
    assert len(rows(REFUSED)) >= 180


@pytest.mark.parametrize("row", rows(ALLOWED))
def test_the_projects_own_code_and_its_servers_run(rig: Rig, row: str) -> None:
    assert rig.check(row).parent == rig.bin


@pytest.mark.parametrize("row", rows(REFUSED))
def test_code_of_others_is_refused_with_its_reason_and_what_to_do(rig: Rig, row: str) -> None:
    with pytest.raises(CommandNotAllowed, match="may not be started with these arguments") as fault:
        rig.check(row)
    setting = fault.value.details["setting"]
    assert setting in ("SERVER_COMMAND_PATH", "PILOTHOUSE_ROOTS")
    assert setting in fault.value.hint


def test_what_lies_outside_is_named_with_the_folders_that_would_do(rig: Rig) -> None:
    with pytest.raises(CommandNotAllowed) as fault:
        rig.check("python3 out.py")
    assert f"out.py ({rig.outside}/evil.py) lies outside the folders" in fault.value.message
    assert str(rig.root) in fault.value.hint
    assert fault.value.details["setting"] == "PILOTHOUSE_ROOTS"
    with pytest.raises(CommandNotAllowed) as fault:
        rig.check("python3 -m pip.__main__ install x")
    said = f"-m pip.__main__ is neither a module in the folder in which it runs ({rig.root})"
    assert said in fault.value.message
    assert "uvicorn" in fault.value.message


def test_a_package_below_src_is_said_to_run_there(rig: Rig) -> None:
    for row, name in (
        ("python3 -m laid", "laid"),
        ("python3 -m flask --app requests run", "requests"),
    ):
        with pytest.raises(CommandNotAllowed, match=r"in the folder in which it runs \(") as fault:
            rig.check(row)
        assert f"the folder that has {name}" in fault.value.hint
        assert f'cwd: "{rig.root}/src"' in fault.value.hint
    assert rig.check("src: python3 -m laid")


@pytest.mark.parametrize("name", ["FLASK_APP", "flask_app", "FLASK_ENV_FILE"])
def test_a_variable_that_names_code_names_the_sessions_own(rig: Rig, name: str) -> None:
    place = CommandPlace(rig.root, (rig.root,))
    for good in (
        "app",
        "shop.web:create(1, 'a:b')",
        "shop/web.py:app",
        "laid",
        f"{rig.root}/app.py",
    ):
        assert child_env({}, {name: good}, restricted_to=place) == {name: good}
    bad_ones = [f"{rig.outside}/evil.py", "../outside/evil.py:app", "out.py", "~/evil.py"]
    called = "subprocess:getoutput('id')"
    for bad in (*bad_ones, *([called] if name != "FLASK_ENV_FILE" else [])):
        with pytest.raises(CommandNotAllowed, match=name) as fault:
            child_env({}, {name: bad}, restricted_to=place)
        assert fault.value.details["variable"] == name
        assert child_env({}, {name: bad}, restricted_to=None) == {name: bad}


@pytest.mark.parametrize(
    "name",
    "GUNICORN_CMD_ARGS UVICORN_APP_DIR uvicorn_log_config UVICORN_ENV_FILE UVICORN_NEWER"
    " TS_NODE_PROJECT XDG_CONFIG_HOME VIRTUAL_ENV ESBUILD_BINARY_PATH NODE_COMPILE_CACHE"
    " PYTHONSAFEPATH PYTHONINSPECT Node_Options npm_config_node_options UV_PYTHON DENO_DIR".split(),
)
def test_a_variable_that_brings_code_in_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(CommandNotAllowed, match=name):
        child_env({}, {name: "x"}, restricted_to=CommandPlace(rig.root, (rig.root,)))


APPS = "app:app shop.web:create laid:app"
MODULES = "app shop.web laid"
ELSEWHERE = "pip._internal.cli.main:main pip:x os:system gone:app app:open('x','w').read()"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("UVICORN_APP", APPS, ELSEWHERE),
        ("uvicorn_app", APPS, ELSEWHERE),
        ("QUART_APP", APPS, ELSEWHERE),
        ("UVICORN_LOOP", f"auto uvloop {APPS}", "a:b pip._internal:x"),
        ("UVICORN_HTTP", f"h11 {APPS}", "a:b os:x"),
        ("UVICORN_WS", f"none websockets-sansio {APPS}", "a:b os:x"),
        ("DJANGO_SETTINGS_MODULE", MODULES, "pip os gone pip._internal.cli.main"),
    ],
)
def test_a_variable_of_a_server_is_judged_like_its_argument(
    rig: Rig, name: str, good: str, bad: str
) -> None:
    place = CommandPlace(rig.root, (rig.root,))
    for value in ("", *good.split()):
        assert child_env({}, {name: value}, restricted_to=place) == {name: value}
    for value in bad.split():
        with pytest.raises(CommandNotAllowed, match=f"variable {name} may not be set"):
            child_env({}, {name: value}, restricted_to=place)
        assert child_env({}, {name: value}, restricted_to=None) == {name: value}


def test_plain_options_of_a_server_may_be_set_by_variables(rig: Rig) -> None:
    names = "HOST PORT RELOAD LOG_LEVEL PROXY_HEADERS WORKERS ROOT_PATH FACTORY SSL_KEYFILE"
    given = {f"UVICORN_{name}": "1" for name in names.split()}
    assert child_env({}, given, restricted_to=CommandPlace(rig.root, (rig.root,))) == given


def test_a_refused_variable_on_the_command_line_is_named(rig: Rig) -> None:
    with pytest.raises(CommandNotAllowed, match="the variable LD_PRELOAD may not be set"):
        rig.check("python3 -m gunicorn app:app -e LD_PRELOAD=/x")


@pytest.mark.parametrize(
    "given",
    "/dev/stdin /dev/fd/0 /dev/fd/3 /proc/self/fd/0 /proc/self/cwd/app.py stdin.py fd.py /dev/tty"
    " /usr/lib/python3.13/timeit.py /usr/lib/python3/dist-packages/pip".split(),
)
def test_what_is_each_processs_own_or_pythons_is_nobodys_code(rig: Rig, given: str) -> None:
    # Even where everything lies in the folders of the session.
    program = touch(rig.bin / "python3")
    place = CommandPlace(rig.root, (Path("/"),))
    for args in ((given,), ("-u", given)):
        with pytest.raises(CommandNotAllowed):
            check_command(
                str(program), args, place=place, allowed=(str(program),), production=False
            )
    check_command(str(program), ("app.py",), place=place, allowed=(str(program),), production=False)
