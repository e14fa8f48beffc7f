"""Deprecated: import from `eddyline.api`."""

from eddyline.api.moved_names import moved_to

__getattr__ = moved_to("eddyline.api", __name__)
