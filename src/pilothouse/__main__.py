"""`python -m pilothouse` is the `pilothouse` command."""

import sys

from pilothouse.cli.main import main

sys.exit(main())
