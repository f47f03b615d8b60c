"""mitmproxy's addons one by one. Imported before any of them.

The package `mitmproxy.addons` imports all of its modules, and with them Flask, LDAP and a parser
for filters: a second of every start and a third of the memory, for addons that are not used here.
A bare package in its place finds the same modules and imports those that are asked for.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec

_NAME = "mitmproxy.addons"


def _bare_package() -> None:
    whole = find_spec(_NAME)
    if whole is None or _NAME in sys.modules:
        return
    bare = ModuleSpec(_NAME, None, origin=whole.origin, is_package=True)
    bare.submodule_search_locations = whole.submodule_search_locations
    sys.modules[_NAME] = module_from_spec(bare)


_bare_package()
