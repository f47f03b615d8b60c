"""What is kept on disk is found, measured and swept: by age and size, and nothing beside it."""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.changes.journal import open_journal
from pilothouse.bookmarks.files.files import write_file
from pilothouse.core.settings import Settings
from pilothouse.hub.files import hub_files
from pilothouse.intercept.history.file import set_aside
from pilothouse.machine.folders import OpenToOthers, folder_for, open_home, private_folder
from pilothouse.machine.held_folders import held, is_locked, taken
from pilothouse.machine.state.places import PLACES, WRAP_FOLDER, usage
from pilothouse.observe.record.session_store import open_store
from pilothouse.wiring.state_sweep import Report, sweep, why_swept
from tests.support.session_ids import id_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = time.time()
DAY_S = 86_400
MB = 1 << 20


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return open_home(str(tmp_path / "home"))


def write(path: Path, days: float, size: int = 100) -> Path:
    """A file that was written so many days ago, in a folder as old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return aged(path, days)


def aged(path: Path, days: float) -> Path:
    for one in (path, path.parent):
        os.utime(one, (NOW - days * DAY_S,) * 2)
    return path


def session(home: Path, name: str, days: float, size: int = 100) -> Path:
    return write(home / "sessions" / id_of(name) / "app.combined.log", days, size).parent


def swept(home: Path, **settings: Any) -> Report:
    return sweep(Settings(home=str(home), **settings), os.environ, clock)


def clock() -> float:
    return NOW


def removed(report: Report) -> list[str]:
    """The sessions that went, in this order."""
    return [name_of(one.kept.name) for one in report.removed]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def sessions(home: Path) -> set[str]:
    return {name_of(name) for name in names(home / "sessions")}


def rows(home: Path, **settings: Any) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in usage(Settings(home=str(home), **settings), {}, NOW)}


def test_sessions_go_by_age_and_then_by_size(home: Path) -> None:
    for name, days in (("old", 8), ("b", 3), ("c", 2), ("d", 1)):
        session(home, name, days, MB)
    report = swept(home, keep_mb=2)
    assert sessions(home) == {"c", "d"}
    assert removed(report) == ["old", "b"]
    assert [one.reason for one in report.removed] == ["age", "size"]
    assert (report.freed, report.failed) == (2 * MB, [])
    assert swept(home, keep_mb=2).removed == []


def test_what_a_killed_process_left_of_a_trace_goes_at_once_unless_its_session_lives(
    home: Path,
) -> None:
    folders = [session(home, name, 0) for name in ("dead", "living")]
    for folder in folders:
        for name in (".trace-1.unmasked.raw", ".trace-1.part", "trace-1.unmasked-pictures.zip"):
            write(folder / name, 1)
        write(folder / ".trace-2.part", 0)  # which may be being written
    with held(folders[1]):
        assert swept(home).removed == []
    assert names(folders[0]) == {
        "app.combined.log", ".trace-2.part", "trace-1.unmasked-pictures.zip",
    }  # fmt: skip
    assert len(names(folders[1])) == 5


def test_zero_keeps_everything(home: Path) -> None:
    session(home, "old", 1000, 3 * MB)
    assert swept(home, keep_days=0, keep_mb=0).removed == []


def test_a_session_is_as_old_as_what_was_written_last_in_it(home: Path) -> None:
    folder = session(home, "long", 9)
    write(folder / "video" / "page.webm", 1)
    aged(folder / "app.combined.log", 9)
    assert swept(home).removed == []


def test_a_session_that_is_held_stays_until_it_is_let_go(home: Path) -> None:
    folder = session(home, "living", 9)
    with held(folder):
        assert swept(home).removed == []
        assert is_locked(folder)
    assert not is_locked(folder)
    assert removed(swept(home)) == ["living"]


def test_who_asks_later_is_told_the_age_and_the_setting(home: Path) -> None:
    session(home, "gone", 9)
    session(home, "large", 3, 2 * MB)
    settings = Settings(home=str(home), keep_mb=1)
    sweep(settings, os.environ, clock)
    why = why_swept(settings, os.environ, id_of("gone"))
    assert "9.0 days after it was last written: --keep-days (PILOTHOUSE_KEEP_DAYS) is 7" in why
    assert "--keep-mb (PILOTHOUSE_KEEP_MB) is 1" in why_swept(settings, os.environ, id_of("large"))
    assert why_swept(settings, os.environ, id_of("other")) == ""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    write(folder / "precious", 100)
    write(folder / "inner" / "precious", 100)
    return aged(folder, 100)


def test_links_are_neither_followed_nor_removed(home: Path, outside: Path) -> None:
    (home / "sessions" / id_of("link")).symlink_to(outside)
    folder = session(home, "old", 9)
    (folder / "link").symlink_to(outside)
    (folder / "inner").symlink_to(outside / "inner", target_is_directory=True)
    aged(folder / "app.combined.log", 9)
    assert rows(home)["sessions"]["entries"] == 1
    assert removed(swept(home)) == ["old"]
    assert sessions(home) == {"link"}
    assert names(outside) == {"precious", "inner"}
    assert names(outside / "inner") == {"precious"}


def test_a_folder_of_ours_that_is_a_link_is_left_alone_and_told(home: Path, outside: Path) -> None:
    session(home, "old", 9)
    (home / "wrap").symlink_to(outside)
    report = swept(home)
    assert removed(report) == ["old"], "the rest is swept"
    assert len(report.failed) == 1
    assert "wrapped servers" in report.failed[0]
    assert names(outside) == {"precious", "inner"}
    assert "cannot be read" in rows(home)["wrapped servers"]["cap"]


def test_nothing_beside_what_we_name_is_removed(home: Path) -> None:
    kept = [
        write(home / "logins" / "shop.json", 100),
        write(home / "hub" / "hub-0.1.lock", 100),
        write(home / "intercept" / "ca.pem", 100),
        write(home / "intercept" / "config.json", 100),
        write(home / "bookmarks" / "journals" / "a.jsonl", 100),
        write(home / "sessions" / "a-file-of-the-users", 100),
        write(home / "notes.txt", 100),
    ]
    assert swept(home, keep_mb=1).removed == []
    assert all(path.exists() for path in kept)


def test_what_a_user_has_in_the_same_folder_is_neither_counted_nor_removed(home: Path) -> None:
    """A home may be the user's own, or a project, which has folders of such names."""
    kept = [
        write(home / "sessions" / "my-recordings" / "a.webm", 100, MB),
        write(home / "sessions" / "2f1b0e6c-0000-1000-8000-00000000000" / "a", 100, MB),
        write(home / "wrap" / "paper" / "a.txt", 100, MB),
        write(home / "hub" / "hub-notes.log", 100, MB),
        write(home / "hub" / "hub-1.0.logbook", 100, MB),
        write(home / "intercept" / "history.db.corrupt-mine", 100, MB),
        write(home / "bookmarks" / "exports" / "mine.html", 100, MB),
        write(home / "bookmarks" / "journals" / "mine.jsonl", 100, MB),
    ]
    assert swept(home, keep_mb=1).removed == []
    assert all(path.exists() for path in kept)
    assert rows(home)["in all"]["bytes"] == 0


def test_packets_set_aside_go_by_age(home: Path) -> None:
    intercept = home / "intercept"
    aside = set_aside(write(intercept / "history.db", 9), lambda: 0.0)
    write(intercept / f"{aside}-wal", 9)
    aged(intercept / aside, 9)
    swept(home)
    assert names(intercept) == set()


def test_backups_that_somebody_asked_for_and_the_audit_log_stay(home: Path) -> None:
    audit = write(home / "intercept" / "audit.jsonl", 100, 2 * MB)
    export = write_file(private_folder(str(home), {}, "data", "bookmarks/exports"), "html", "x")
    aged(export, 100)
    assert swept(home, keep_mb=1).removed == []
    assert audit.exists()
    assert export.exists()
    found = rows(home)
    assert found["bookmark exports"]["entries"] == found["intercept audit"]["entries"] == 1
    assert found["in all"]["bytes"] == 2 * MB + 1, "they count"


def test_a_mark_is_not_lost_to_a_look_at_the_same_time(home: Path) -> None:
    folder = session(home, "living", 9)
    looking = ExitStack()
    assert looking.enter_context(taken(folder))
    over = threading.Timer(0.1, looking.close)
    over.start()
    with held(folder):
        over.join()
        assert swept(home).removed == []
        assert is_locked(folder)


def test_a_hub_that_starts_is_refused_by_no_sweep_or_status(home: Path) -> None:
    files = hub_files(str(home), os.environ, "1.0")
    write(files.log, 1)
    files.lock.touch()
    probed = []

    def watch(path: Path, **_: object) -> Any:
        probed.append(path)
        return taken(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pilothouse.wiring.state_sweep.taken", watch)
        swept(home)
        rows(home)
        assert probed == []
        aged(files.log, 9)
        swept(home)
    assert probed == [files.lock]


@pytest.mark.parametrize("what", ["written", "held"])
def test_what_is_used_after_it_was_looked_at_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Others are removed before, which takes its time."""
    for name, days in (("first", 10), ("next", 9), ("third", 8)):
        session(home, name, days)
    used = home / "sessions" / id_of("next")
    with ExitStack() as stack:

        def use(name: str, **how: Any) -> None:
            if name == id_of("first"):
                if what == "written":
                    (used / "app.combined.log").write_bytes(b"more")
                else:
                    stack.enter_context(held(used))
            rmtree(name, **how)

        monkeypatch.setattr("pilothouse.wiring.state_sweep.shutil.rmtree", use)
        report = swept(home)
    assert removed(report) == ["first", "third"]
    assert sessions(home) == {"next"}
    assert why_swept(Settings(home=str(home)), os.environ, id_of("next")) == ""


def test_nobody_can_mark_what_is_being_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = session(home, "old", 9)
    locked = []

    def watch(name: str, **how: Any) -> None:
        locked.append(is_locked(folder))
        rmtree(name, **how)

    monkeypatch.setattr("pilothouse.wiring.state_sweep.shutil.rmtree", watch)
    assert removed(swept(home)) == ["old"]
    assert locked == [True]


def test_what_could_not_go_costs_others_their_place(home: Path) -> None:
    for name, days in (("living", 3), ("b", 2), ("c", 1)):
        session(home, name, days, MB)
    with held(home / "sessions" / id_of("living")):
        assert removed(swept(home, keep_mb=2)) == ["b"]
    assert sessions(home) == {"living", "c"}


def test_a_time_to_come_keeps_nothing_for_ever(home: Path) -> None:
    folder = session(home, "future", 9)
    os.utime(folder / "app.combined.log", (NOW + 1000 * DAY_S,) * 2)
    assert swept(home).removed == [], "it was given that time just now"
    settings = Settings(home=str(home))
    assert removed(sweep(settings, os.environ, lambda: NOW + 8 * DAY_S)) == ["future"]


def test_a_sweep_that_is_over_goes_on_with_no_other_entry(home: Path) -> None:
    for name in ("a", "b", "c"):
        session(home, name, 9)
    asked = iter([False] * 4 + [True] * 9)  # three are found, and one is removed
    report = sweep(Settings(home=str(home)), os.environ, clock, lambda: next(asked))
    assert len(report.removed) == 1
    assert len(sessions(home)) == 2


def test_where_it_cannot_be_told_what_is_in_use_nothing_goes_and_that_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without such locks."""

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    for name in ("a", "b"):
        session(home, name, 9)
    monkeypatch.setattr("pilothouse.machine.held_folders.fcntl.flock", refuse)
    with held(home / "sessions" / id_of("a")):
        report = swept(home)
    assert report.failed == ["sessions: it cannot be told what is in use: No locks available"]
    assert sessions(home) == {"a", "b"}


def test_packets_go_whole_when_nobody_wrote_any_for_so_long(home: Path) -> None:
    path = home / "intercept" / "history.db"
    for end in ("", "-wal", "-shm"):
        write(Path(f"{path}{end}"), 9, MB)
    with held(path.parent):
        assert swept(home, keep_mb=1).removed == [], "the engine runs"
    aged(Path(f"{path}-wal"), 1)
    assert swept(home, keep_mb=1).removed == [], "too much of them is for the engine to mend"
    assert rows(home)["packets"]["bytes"] == 3 * MB
    aged(Path(f"{path}-wal"), 9)
    assert [one.kept.kind for one in swept(home).removed] == ["packets"]
    assert names(path.parent) == set()


def test_more_packets_than_half_of_all_do_not_cost_all_else(home: Path) -> None:
    write(home / "intercept" / "history.db", 1, 10 * MB)
    session(home, "a", 3, MB)
    session(home, "b", 2, MB)
    assert removed(swept(home, keep_mb=2)) == ["a"]


def test_the_log_of_a_hub_that_runs_stays_and_those_of_others_go(home: Path) -> None:
    files = hub_files(str(home), os.environ, "1.0")
    others = hub_files(str(home), os.environ, "0.9")
    for one in (files, others):
        write(one.log, 9)
        write(one.older_log, 9)
        one.lock.touch()
    lock = files.hold()
    assert lock is not None
    try:
        swept(home)
    finally:
        os.close(lock)
    assert files.log.exists()
    assert files.older_log.exists()
    assert not others.log.exists()
    assert not others.older_log.exists()
    assert others.lock.exists()


@pytest.fixture
def wrapped(home: Path) -> Iterator[tuple[Path, Path]]:
    """The folder of a wrapped server that has ended, and that of its logs."""
    logs = Path(tempfile.mkdtemp(prefix=WRAP_FOLDER))
    write(logs / "server.combined.log", 9, 1000)
    folder = home / "wrap" / "0123456789abcdef0123"
    last = {"message": "It was shut down.", "logs": {}, "folder": str(logs)}
    write(folder / "last.json", 9).write_text(json.dumps(last))
    aged(folder / "last.json", 9)
    yield folder, logs
    for path in logs.parent.glob(f"{logs.name}/*"):
        path.unlink()
    if logs.exists():
        logs.rmdir()


def test_a_wrapped_server_goes_with_its_logs(home: Path, wrapped: tuple[Path, Path]) -> None:
    folder, logs = wrapped
    with held(folder):
        assert swept(home).removed == []
    assert rows(home)["wrapped servers"]["bytes"] > 1000
    swept(home)
    assert not folder.exists()
    assert not logs.exists()


def test_a_wrapped_server_whose_supervisor_holds_no_lock_is_known_by_its_socket(
    home: Path, wrapped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, logs = wrapped
    monkeypatch.chdir(folder)
    with closing(socket.socket(socket.AF_UNIX)) as supervisor:
        supervisor.bind("socket")
        supervisor.listen()
        aged(folder / "socket", 9)
        aged(folder / "last.json", 9)
        assert swept(home).removed == []
        assert logs.exists()
    swept(home)
    assert not folder.exists(), "a supervisor that was killed leaves its socket behind"
    assert not logs.exists()


def test_the_journal_of_a_profile_that_is_never_used_again_goes_after_three_months(
    home: Path,
) -> None:
    folder = home / "bookmarks" / "journals"
    open_journal(folder, "gone").close()
    (gone,) = folder.iterdir()
    journal = open_journal(folder, "open")
    (used,) = (path for path in folder.iterdir() if path != gone)
    session(home, "new", 1, 2 * MB)
    for path in (gone, used):
        write(path, 80, MB)
    assert removed(swept(home, keep_mb=1)) == ["new"], "it goes by its age alone"
    assert rows(home)["bookmark journals"]["cap"] == "90 days, 8 MB a profile"
    aged(used, 91)
    aged(gone, 91)
    assert swept(home, keep_days=0).removed == []
    assert swept(home, keep_days=100).removed == []
    swept(home)
    assert names(folder) == {used.name}
    journal.close()
    open_journal(folder, "open").close()
    swept(home)
    assert names(folder) == {used.name}, "it was used just now"


def test_a_store_that_nobody_has_open_makes_room(home: Path) -> None:
    path = home / "events.db"
    store = f"sqlite:{path}"
    with open_store(store, "me"), closing(sqlite3.connect(path)) as connection, connection:
        for seq, days in ((0, 9), (1, 1)):
            event = ("me", "T", seq, (NOW - days * DAY_S) * 1000, "", "", "", "", 0, "", b"")
            connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 11)})", event)
    assert swept(home, store=store).failed == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT seq FROM events").fetchall() == [(1,)]


def test_a_file_of_another_kind_that_is_named_as_store_stays_as_it_is(home: Path) -> None:
    path = home / "mine.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    before = path.read_bytes()
    assert swept(home, store=f"sqlite:{path}").failed == ["observe store: no such table: events"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["elsewhere", "link"])
def test_what_a_wrapped_server_says_of_its_logs_leads_nowhere_else(
    home: Path, wrapped: tuple[Path, Path], outside: Path, where: str
) -> None:
    folder, _ = wrapped
    named = outside
    if where == "link":
        named = Path(tempfile.gettempdir()) / f"{WRAP_FOLDER}{os.getpid()}-link"
        named.symlink_to(outside)
    (folder / "last.json").write_text(json.dumps({"folder": str(named)}))
    aged(folder / "last.json", 9)
    swept(home)
    assert not folder.exists()
    assert names(outside) == {"precious", "inner"}
    if where == "link":
        named.unlink()


# root may remove whatever it likes, so the refusal is made up
def test_what_cannot_be_removed_is_told_and_the_rest_goes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(home, "stuck", 9)
    session(home, "old", 8)

    def remove(name: str, **how: Any) -> None:
        if name == id_of("stuck"):
            raise PermissionError(13, "Permission denied", name)
        rmtree(name, **how)

    monkeypatch.setattr("pilothouse.wiring.state_sweep.shutil.rmtree", remove)
    report = swept(home)
    assert report.failed == [f"sessions {id_of('stuck')}: Permission denied"]
    assert removed(report) == ["old"]
    assert report.facts()["removed"] == 1
    assert why_swept(Settings(home=str(home)), os.environ, id_of("stuck")) == ""


def test_a_home_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    report = swept(tmp_path / "none")
    assert (report.removed, report.failed) == ([], [])
    assert not (tmp_path / "none").exists()


def test_status_tells_what_each_kind_takes_and_its_cap(home: Path) -> None:
    folder = session(home, "a", 1, MB)
    write(folder / "app.combined.log.from-0", 1, MB)
    write(folder / "dossier-1.html", 1, 1000)
    write(folder / "failure-1.png", 1, 500)
    os.link(write(folder / "video" / "x.webm", 1, 700), folder / "video-1.webm")
    write(home / "intercept" / "history.db", 1, 2000)
    found = rows(home, keep_days=3, keep_mb=500, log_mb=20, history_mb=64)
    size = 2 * MB + 1000 + 500 + 700
    assert found["sessions"] == {"kind": "sessions", "entries": 1, "bytes": size, "cap": "3 days"}
    assert found["server logs"]["bytes"] == 2 * MB
    assert found["server logs"]["cap"] == "20 MB a log"
    assert found["dossiers"]["bytes"] == 1500
    assert found["packets"]["cap"] == "3 days, 64 MB"
    assert found["in all"] == {
        "kind": "in all",
        "entries": 2,
        "bytes": size + 2000,
        "cap": "500 MB",
    }
    assert {place.kind for place in PLACES} < found.keys()


def test_the_store_of_another_is_no_place_of_ours(home: Path) -> None:
    """A database that a user put into our home under a name of their own."""
    path = home / "mine.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    aged(path, 100)
    swept(home, keep_mb=1)
    assert path.exists()


def test_the_places_are_those_that_the_folders_give(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")}
    settings = Settings()
    folder = folder_for("", environ, "state", "sessions") / id_of("old")
    write(folder / "app.stdout.log", 9)
    sweep(settings, environ, clock)
    assert not folder.exists()
    assert why_swept(settings, environ, id_of("old"))


def test_a_home_whose_state_was_swept_is_still_known_as_one(home: Path) -> None:
    session(home, "old", 9)
    swept(home)
    home.chmod(0o755)
    try:
        open_home(str(home))
    except OpenToOthers:
        pytest.fail("it has no sign of a home any more")
