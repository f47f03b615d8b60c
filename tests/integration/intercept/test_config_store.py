"""The configuration's file: replaced whole, backed up, and never more than its own folder."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.intercept.config import store as config_store
from pilothouse.intercept.config.model import default_config
from pilothouse.intercept.config.store import MAX_BACKUPS, MAX_BYTES, ConfigStore
from pilothouse.intercept.model import BadConfig
from tests.support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_754_308_800_000.0
"""2025-08-04T12:00:00Z"""
EMPTY: dict[str, Any] = {
    "listenPorts": [],
    "servers": [],
    "modifications": [],
    "sslPassThroughs": [],
}


@pytest.fixture
def clock() -> Clock:
    return Clock(AT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "intercept"


@pytest.fixture
def store(folder: Path, clock: Clock) -> ConfigStore:
    return ConfigStore(folder, clock)


def config(*names: str) -> dict[str, Any]:
    """A configuration that is known by its servers."""
    return {**EMPTY, "servers": [{"ip": name, "port": 1} for name in names]}


def names(store: ConfigStore) -> list[str]:
    return [server.ip for server in store.load().servers]


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_without_a_file_there_are_the_defaults_and_nothing_is_written(
    store: ConfigStore, folder: Path
) -> None:
    assert store.load() == default_config()
    assert store.backups() == []
    assert not folder.exists()


def test_a_replaced_configuration_is_read_back_with_its_ids(store: ConfigStore) -> None:
    done = store.replace(config("a", "b"), backup=False)
    assert store.load() == done.config
    assert [server.id for server in done.config.servers] == [1, 2]
    assert done.backup_info is None
    assert done.warnings == []
    assert store.backups() == []


def test_items_missing_from_the_body_are_deleted(store: ConfigStore) -> None:
    store.replace(config("a", "b"), backup=False)
    body = store.load().dump()
    del body["servers"][0]
    store.replace(body, backup=False)
    assert [(server.id, server.ip) for server in store.load().servers] == [(2, "b")]


def test_only_the_user_may_read_what_is_stored(store: ConfigStore, folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    store.replace(EMPTY, backup=True)
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_backup_is_told_as_the_spec_has_it(store: ConfigStore, folder: Path) -> None:
    store.replace(config("a"), backup=False)
    done = store.replace(config("b"), backup=True)
    assert done.backup_info == {
        "backup_id": "backup_20250804_120000",
        "backup_path": "backup/backup_20250804_120000.json",
        "timestamp": "2025-08-04T12:00:00Z",
    }
    kept = json.loads((folder / done.backup_info["backup_path"]).read_bytes())
    assert [server["ip"] for server in kept["servers"]] == ["a"]


def test_the_first_backup_has_the_defaults(store: ConfigStore) -> None:
    done = store.replace(config("a"), backup=True)
    assert done.backup_info is not None
    store.restore(done.backup_info["backup_id"])
    assert store.load() == default_config()


def test_backups_of_one_second_have_suffixes_and_are_listed_newest_first(
    store: ConfigStore, clock: Clock
) -> None:
    for at in range(11):
        store.replace(config(f"s{at}"), backup=True)
    clock.now += 1000
    store.replace(config("later"), backup=True)
    listed = store.backups()
    assert [one["backup_id"] for one in listed] == [
        "backup_20250804_120001",
        *(f"backup_20250804_120000_{number}" for number in range(11, 1, -1)),
        "backup_20250804_120000",
    ]
    assert listed[0]["timestamp"] == "2025-08-04T12:00:01Z"
    assert all(one["bytes"] > 0 for one in listed)


def test_restoring_takes_a_backup_so_that_a_restore_can_be_undone(store: ConfigStore) -> None:
    store.replace(config("a"), backup=False)
    first = store.replace(config("b"), backup=True).backup_info
    assert first is not None
    second = store.restore(first["backup_id"]).backup_info
    assert second is not None
    assert names(store) == ["a"]
    third = store.restore(second["backup_id"]).backup_info
    assert third is not None
    assert names(store) == ["b"]
    store.restore(third["backup_id"])
    assert names(store) == ["a"]


def test_at_most_a_hundred_backups_are_kept_the_newest(store: ConfigStore, clock: Clock) -> None:
    for at in range(MAX_BACKUPS + 3):
        clock.now = AT + 1000 * (at // 2)
        store.replace(config(f"s{at}"), backup=True)
    ids = [one["backup_id"] for one in store.backups()]
    assert len(ids) == MAX_BACKUPS
    assert ids[0] == "backup_20250804_120051"
    assert ids[-1] == "backup_20250804_120001_2"


def test_a_clock_set_back_does_not_cost_the_backup_just_taken(
    store: ConfigStore, clock: Clock
) -> None:
    for _ in range(MAX_BACKUPS):
        store.replace(EMPTY, backup=True)
    clock.now -= 86_400_000
    info = store.replace(EMPTY, backup=True).backup_info
    assert info is not None
    assert info["backup_id"] in [one["backup_id"] for one in store.backups()]


@pytest.mark.parametrize(
    "raw", [None, [], {}, {**EMPTY, "more": []}, {**EMPTY, "servers": [{"ip": "a", "port": 0}]}]
)
def test_what_is_refused_changes_nothing(store: ConfigStore, folder: Path, raw: Any) -> None:
    store.replace(config("a"), backup=True)
    before = files(folder)
    with pytest.raises(BadConfig):
        store.replace(raw, backup=True)
    assert files(folder) == before


def test_a_configuration_too_large_to_be_read_again_is_not_stored(
    store: ConfigStore, folder: Path
) -> None:
    rule = {"direction": "ALL", "method": "SIMPLE", "replaced": "x" * 65_536}
    items = [{**rule, "pattern": str(at)} for at in range(MAX_BYTES // 65_536 + 1)]
    with pytest.raises(BadConfig, match="at most 4194304 are stored; nothing was changed"):
        store.replace({**EMPTY, "modifications": items}, backup=True)
    assert not folder.exists()


TRICKS: list[Any] = [
    "", ".", "..", "/", "../config", "../config.json", "../../etc/passwd", "/etc/passwd",
    "backup_20250804_120000/../../config", "backup_20250804_120000/", "./backup_20250804_120000",
    "backup_20250804_120000.json", "backup_20250804_120000\0", "backup_20250804_120000\0.json",
    "backup_20250804_120000\n", " backup_20250804_120000", "BACKUP_20250804_120000",
    "Backup_20250804_120000", "backup_20250804_12000\uff10", "backup_2025080\u0664_120000",
    "\uff42ackup_20250804_120000", "backup_20250804_120000_1", "backup_20250804_120000_02",
    "backup_20250804_120000_0", "backup_20250804_120000_9999999", "backup_20250804_120000_",
    "backup_20250804_120000_2 ", "backup_2025080_120000", "backup_20250804-120000", "backup_*",
    "backup_" + "0" * 5_000 + "_120000", "a" * 100_000, "..\\config", "%2e%2e%2fconfig",
    "~/config", "file:///etc/passwd", "backup_20250804_120001", "\ud800", "\u202econfig",
    None, 1, True, [], ["backup_20250804_120000"], {}, b"backup_20250804_120000", 1.5,
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: repr(trick)[:40])
def test_an_id_of_no_backup_is_refused_like_every_other(
    store: ConfigStore, folder: Path, trick: Any
) -> None:
    store.replace(config("a"), backup=True)
    assert [one["backup_id"] for one in store.backups()] == ["backup_20250804_120000"]
    before = files(folder)
    with pytest.raises(BadConfig, match=r"^there is no backup of that id$") as caught:
        store.restore(trick)
    assert "list_backups" in caught.value.hint
    assert files(folder) == before


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "fifo", "folder link"])
def test_a_backup_that_is_no_file_is_no_backup(
    store: ConfigStore, folder: Path, tmp_path: Path, kind: str
) -> None:
    store.replace(config("a"), backup=True)
    name = "backup_20250804_110000"
    path = folder / "backup" / f"{name}.json"
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(EMPTY))
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "absent")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        elsewhere = tmp_path / "elsewhere"
        (folder / "backup").rename(elsewhere)
        (elsewhere / f"{name}.json").write_text(json.dumps(EMPTY))
        (folder / "backup").symlink_to(elsewhere)
    with pytest.raises(BadConfig, match=r"^there is no backup of that id$"):
        store.restore(name)
    assert names(store) == ["a"]
    if kind != "folder link":
        assert [one["backup_id"] for one in store.backups()] == ["backup_20250804_120000"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b'{"listenPorts": [', "line 1 column"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "expected an object with listenPorts"),
        (b'{"listenPorts": [], "servers": [], "modifications": []}', "sslPassThroughs: expected"),
        (json.dumps({**EMPTY, "servers": [{"ip": "a", "port": "x"}]}).encode(), "servers[0].port"),
        (b" " * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_a_file_broken_by_hand_is_named_kept_and_can_be_replaced(
    store: ConfigStore, folder: Path, content: bytes, said: str
) -> None:
    folder.mkdir(parents=True)
    file = folder / "config.json"
    file.write_bytes(content)
    with pytest.raises(BadConfig) as caught:
        store.load()
    assert str(file) in caught.value.message
    assert said in caught.value.message
    assert "update_config" in caught.value.hint
    assert file.read_bytes() == content
    info = store.replace(config("a"), backup=True).backup_info
    assert info is not None
    assert names(store) == ["a"]
    assert (folder / info["backup_path"]).read_bytes() == content
    with pytest.raises(BadConfig, match=info["backup_id"]):
        store.restore(info["backup_id"])
    assert names(store) == ["a"]


def test_a_folder_in_the_files_place_is_a_bad_configuration(
    store: ConfigStore, folder: Path
) -> None:
    (folder / "config.json").mkdir(parents=True)
    with pytest.raises(BadConfig, match="cannot be read"):
        store.load()
    with pytest.raises(BadConfig, match="cannot be stored"):
        store.replace(EMPTY, backup=False)


def test_a_place_that_cannot_be_written_is_a_bad_configuration(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadConfig, match="cannot be stored"):
        ConfigStore(tmp_path / "file" / "intercept", clock).replace(EMPTY, backup=True)


def test_a_draft_left_behind_is_in_nobodys_way(store: ConfigStore, folder: Path) -> None:
    store.replace(config("a"), backup=True)
    for place in (folder, folder / "backup"):
        (place / ".draft").symlink_to(folder / "config.json")
    store.replace(config("b"), backup=True)
    assert names(store) == ["b"]
    assert not list(folder.rglob(".draft"))


def test_whoever_never_lets_go_is_not_waited_for_for_ever(
    store: ConfigStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(config_store, "LOCK_WAIT_S", 0.1)
    store.replace(config("a"), backup=False)
    with (folder / "config.lock").open() as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(BadConfig, match="another Pilothouse"):
            store.replace(config("b"), backup=True)
    assert names(store) == ["a"]
    assert store.backups() == []
    store.replace(config("b"), backup=True)


def _replace_often(folder: Path, name: str, times: int) -> None:
    store = ConfigStore(folder, lambda: AT)
    for at in range(times):
        store.replace(config(f"{name}{at}"), backup=True)


def test_two_processes_take_turns_and_no_change_goes_without_its_backup(
    store: ConfigStore, folder: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_replace_often, args=(folder, name, 12)) for name in "ab"]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    kept = [json.loads(data) for name, data in files(folder).items()]
    seen = sorted(item["servers"][0]["ip"] for item in kept if item["servers"])
    assert seen == sorted(f"{name}{at}" for name in "ab" for at in range(12))
    assert len(store.backups()) == 24
