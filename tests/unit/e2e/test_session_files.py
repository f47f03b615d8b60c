"""The files of a living session: the newest of each kind stay, and who asks for another is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from pilothouse.core.timeline.timeline import Timeline
from pilothouse.e2e.ended_sessions import EndedSessions
from pilothouse.e2e.model import LogFileNotFound
from pilothouse.e2e.session import E2eSession
from pilothouse.e2e.session_files import NEWEST, NEWEST_TRACES
from pilothouse.e2e.tools.logs import artifact

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-03-01T09:00:03.000Z"


def session_in(folder: Path) -> E2eSession:
    async def made() -> E2eSession:
        part = cast("Any", None)
        return E2eSession("id", lambda: 1_772_355_603_000.0, folder, Timeline(), part, part)

    return asyncio.run(made())


def read(session: E2eSession, name: str) -> bytes:
    class NoSessions:
        def find(self, _: str) -> E2eSession:
            return session

    async def asked() -> str | bytes:
        return await artifact.reader(sessionId="id", name=name, sessions=NoSessions())

    return cast("bytes", asyncio.run(asked()))


@pytest.mark.parametrize(
    "name", ["dossier-{}.html", "failure-{}.unmasked.png", "screenshot-{}.unmasked.png"]
)
def test_the_newest_of_a_kind_stay_and_who_asks_for_another_is_told(
    tmp_path: Path, name: str
) -> None:
    session = session_in(tmp_path)
    session.save("other-1.html", b"x")
    (tmp_path / "app.combined.log").write_bytes(b"x")
    for number in range(NEWEST + 2):
        session.save(name.format(number), b"x")
    assert {path.name for path in tmp_path.iterdir()} == {
        "other-1.html",
        "app.combined.log",
        *(name.format(number) for number in range(2, NEWEST + 2)),
    }
    assert read(session, name.format(2)) == b"x"
    with pytest.raises(LogFileNotFound) as gone:
        read(session, name.format(1))
    assert f"it made room at {AT}: of each session the newest 200 files" in gone.value.message
    with pytest.raises(LogFileNotFound) as never:
        read(session, name.format(9_999))
    assert "made room" not in never.value.message


def test_a_file_that_is_written_again_takes_nobody_s_place(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    session.save("dossier-1.html", b"x")
    for _ in range(NEWEST + 1):
        session.save("dossier-2.html", b"x")
    assert (tmp_path / "dossier-1.html").exists()


def test_a_file_that_is_written_again_is_the_newest(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    for number in (*range(NEWEST), 0, NEWEST):
        session.save(f"dossier-{number}.html", b"x")
    assert (tmp_path / "dossier-0.html").exists()
    assert not (tmp_path / "dossier-1.html").exists()


def test_fewer_traces_stay(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    for number in range(NEWEST_TRACES + 1):
        session.save(f"trace-{number}.unmasked-pictures.zip", b"x")
    assert len(list(tmp_path.iterdir())) == NEWEST_TRACES


def test_only_the_agent_whose_session_it_was_is_told_that_its_files_were_swept(
    tmp_path: Path,
) -> None:
    def why(_: str) -> str:
        return "removed at noon"

    session = session_in(tmp_path)
    session.ended = "manual"
    owner, other = EndedSessions(why), EndedSessions(why)
    owner.add(session, 0.0)
    assert "Its files were removed at noon." in owner.fault("id").message
    assert other.fault("id").message == EndedSessions(lambda _: "").fault("id").message
    assert other.why_swept("id") == ""
