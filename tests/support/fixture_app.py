"""The `pilothouse` command with the fixture tools beside its own."""

import sys

from pilothouse.cli.main import main
from pilothouse.wiring.groups import PARTS
from tests.support.fixture_tools import PART

if __name__ == "__main__":
    sys.exit(main(parts=(*PARTS, PART)))
