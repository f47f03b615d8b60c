"""The `pilothouse` command with the fixture tools beside its own."""

import sys

from pilothouse.cli import main
from pilothouse.groups import PARTS
from tests.support.fixture_tools import PART

if __name__ == "__main__":
    sys.exit(main(parts=(*PARTS, PART)))
