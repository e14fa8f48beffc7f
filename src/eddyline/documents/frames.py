"""Arrow tables as DataFrames of other libraries, which are loaded when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eddyline.errors import PropertyError

if TYPE_CHECKING:  # a caller that has a table has loaded it
    import pyarrow as pa


def as_pandas(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise _missing("pandas") from error


def as_polars(table: pa.Table) -> Any:
    try:
        import polars  # loaded only where it is asked for
    except ImportError as error:
        raise _missing("polars") from error
    return polars.from_arrow(table)


def _missing(library: str) -> PropertyError:
    return PropertyError(
        f"{library} is not installed",
        hint=f"Run: pip install {library}, or use to_arrow(), which needs nothing more.",
    )
