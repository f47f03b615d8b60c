"""The `pilothouse` command with the suite's fixtures: `python -m tests.conformance.app serve`."""

import sys
import warnings

from mcp.shared.exceptions import MCPDeprecationWarning

from pilothouse.cli.main import main
from pilothouse.wiring.groups import PARTS
from tests.conformance.fixtures import PART, extend

if __name__ == "__main__":
    # The suite still tests what the 2026 revision deprecates: sampling and logging.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    sys.exit(main(parts=(*PARTS, PART), extend=extend))
