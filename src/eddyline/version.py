"""The version of this package, as `eddyline.__version__` and every document show it."""

VERSION = "0.1.0"
