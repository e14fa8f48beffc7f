"""Deprecated: import from `eddyline.pipeline`."""

from eddyline.api.moved_names import moved_to

__getattr__ = moved_to("eddyline.pipeline", __name__)
