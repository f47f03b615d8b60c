"""Installs the packages of the apps that tests start, or checks that they are there."""

from __future__ import annotations

import sys

from tests.support import apps
from tests.support.apps.install import NotInstalled

if "--check" in sys.argv[1:]:
    sys.exit(0 if apps.are_installed() else 1)
try:
    apps.install_all()
except NotInstalled as failure:
    sys.exit(str(failure))
