"""What `status` says of a history that cannot be written, as on a full disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.machine.folders import private_folder
from pilothouse.machine.held_folders import is_locked
from tests.support.intercepting import Tap
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

NAME = "packet history"


def test_status_tells_that_packets_cannot_be_written_and_when_they_can_be_again(
    tmp_path: Path,
) -> None:
    # A folder in the file's place is as little use as a full disk, and can be had anywhere.
    blocked = private_folder(str(tmp_path), {}, "data", "intercept") / "history.db"
    blocked.mkdir()
    with Tap(home=tmp_path) as tap:
        tap.listen()
        told = wait_until(lambda: tap.call("status")["services"].get(NAME))
        assert told.startswith("off: the history cannot be written: ")
        assert f"The {NAME} is off" in tap.ask("status")["content"][0]["text"]
        blocked.rmdir()
        wait_until(lambda: tap.call("status")["services"][NAME] == "on")


def test_packets_are_in_use_for_every_process_as_long_as_the_engine_runs(tmp_path: Path) -> None:
    folder = private_folder(str(tmp_path), {}, "data", "intercept")
    with Tap(home=tmp_path) as tap:
        tap.listen()
        assert is_locked(folder)
    wait_until(lambda: not is_locked(folder))
