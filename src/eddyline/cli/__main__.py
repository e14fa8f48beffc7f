"""`python -m eddyline.cli`, where the command is not installed."""

import sys

from eddyline.cli.main import main

sys.exit(main())
