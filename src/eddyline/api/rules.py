"""Deprecated: import from `eddyline.rules`."""

from eddyline.api.moved_names import moved_to

__getattr__ = moved_to("eddyline.rules", __name__)
