"""A relay's end of its client's standard error, which others may share and nobody has to read."""

from __future__ import annotations

import os

from pilothouse.relay.descriptors import CONGESTED, LogEnd

LINE = b"x" * 999 + b"\n"
MANY = 2 * CONGESTED // len(LINE)


def test_a_log_that_nobody_reads_holds_up_nothing_and_takes_little_memory() -> None:
    outlet, inlet = os.pipe()
    log = LogEnd(inlet)
    for _ in range(MANY):
        log.write(LINE)
    assert log.waiting_fd == inlet
    assert os.get_blocking(inlet), "whoever shares it would be surprised"
    read = b""
    while log.waiting_fd is not None:
        read += os.read(outlet, 1 << 16)
        log.flush()
    os.close(inlet)
    while piece := os.read(outlet, 1 << 16):
        read += piece
    os.close(outlet)
    assert set(read.split(b"\n")[:-1]) == {LINE[:-1]}, "lines are whole or left out"
    assert len(read) < MANY * len(LINE)


def test_a_log_whose_reader_has_gone_or_that_is_closed_is_no_trouble() -> None:
    outlet, inlet = os.pipe()
    log = LogEnd(inlet)
    os.close(outlet)
    log.write(LINE)
    log.write(LINE)
    log.flush()
    assert log.waiting_fd is None
    os.close(inlet)
    closed = LogEnd(inlet)
    closed.write(LINE)
    assert closed.waiting_fd is None
