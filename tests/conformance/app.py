"""The `pilothouse` command with the suite's fixtures: `python -m tests.conformance.app serve`."""

import sys
import warnings

from mcp.shared.exceptions import MCPDeprecationWarning

from pilothouse.cli.main import main
from pilothouse.wiring.groups import GROUP_SPECS
from tests.conformance.fixtures import GROUP_SPEC, extend

if __name__ == "__main__":
    # The suite still tests what the 2026 revision deprecates: sampling and logging.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    sys.exit(main(specs=(*GROUP_SPECS, GROUP_SPEC), extend=extend))
