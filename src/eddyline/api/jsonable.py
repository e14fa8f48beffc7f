"""Values in what JSON has, for `--json` and for the socket."""

from eddyline.delivery.jsonable import jsonable

__all__ = ["jsonable"]
