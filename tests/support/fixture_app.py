"""The `pilothouse` command with the fixture tools beside its own."""

import sys

from pilothouse.cli.main import main
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.fixture_tools import GROUP_SPEC

if __name__ == "__main__":
    sys.exit(main(specs=(*GROUP_SPECS, GROUP_SPEC)))
