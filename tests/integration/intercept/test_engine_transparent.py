"""Transparent proxies, with connections that the kernel really redirects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.apart import told_apart

if TYPE_CHECKING:
    from pathlib import Path

GUARD_S = 100


def test_redirected_connections_are_recorded_and_reach_their_servers(tmp_path: Path) -> None:
    came = told_apart(
        "tests.support.redirecting",
        str(tmp_path),
        within_s=GUARD_S,
        cannot="connections cannot be redirected here",
    )
    assert all(answer.endswith("hello, world") for answer in came["answers"])
    plain, secure = came["ports"]
    assert came["rows"] == [
        *[["http", plain, "/hello", 200]] * 2,
        *[["https", secure, "/hello", 200]] * 2,
    ]
