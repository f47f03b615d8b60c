"""Loaded by every Python process that a test starts: PYTHONPATH names this folder."""

import os

if "LC_HERMETIC_REPORT" in os.environ:
    from tests.support.hermetic import guard

    guard.install()
