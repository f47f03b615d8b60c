"""Keeps a parent's memory shared with its forks.

A page of memory is shared until somebody writes to it, and CPython writes to whatever it looks at:
the collector into each object's header, every use into the object's reference count. Objects that
are immortal (PEP 683) have a count that is never written. Forks of a parent that has made all its
objects so have about half as much memory to themselves.
"""

from __future__ import annotations

import gc
import sys
from typing import Any


def share_what_lives() -> None:
    """Keep what lives now from being freed or collected; called last before the first fork."""
    gc.collect()
    if count := _immortal_count():
        _make_immortal(count)
    gc.freeze()
    gc.disable()


def _immortal_count() -> int:
    """Return the count that marks an immortal object for this interpreter; 0 if it is not known."""
    import ctypes
    import sysconfig

    known = sys.implementation.name == "cpython" and sys.maxsize > 2**32
    if not known or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return 0
    # None has been immortal since there are immortal objects: it shows the value. Whatever has a
    # number of this size is never freed, whether or not the interpreter heeds the mark.
    shown = ctypes.c_uint32.from_address(id(None)).value
    return shown if shown >= 1 << 30 else 0


def _make_immortal(count: int) -> None:
    import ctypes

    word = ctypes.c_uint32.from_address
    latest: list[Any] = gc.get_objects()
    found = {id(one): one for one in latest}
    while latest:
        others = {id(one): one for one in gc.get_referents(*latest)}
        latest = [one for address, one in others.items() if address not in found]
        found |= others
    for address in found:
        # The high half is empty: no object has 2**32 references.
        if word(address).value < 1 << 30:
            word(address).value = count
    found.clear()
