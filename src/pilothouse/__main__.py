"""`python -m pilothouse` is the `pilothouse` command."""

import sys

from pilothouse.cli import main

sys.exit(main())
