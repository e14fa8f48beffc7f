"""Proof: what a result claims, and judges that share nothing with whoever made it.

In comes a receipt, plain JSON: the user's text, the rows it was asked about, the round's now(). Out comes what an independent
engine makes of them, and where that differs. Nothing here knows the parser, the filters or the expressions of eddyline: the text
is run as it was written, by Spark (`eddyline.spark.prove`) or, where every operator in it was found to be the same there, by
DuckDB. What functions that are not deterministic gave comes with the receipt; no judge calls them.
"""

from eddyline.proof.claims import (
    Claim,
    Compared,
    Found,
    FunctionVersion,
    InputRows,
    JudgeStopped,
    Proof,
    RecordedValue,
    checksum_of,
    claim_of,
    compared,
    input_rows,
    no_columns,
    proof_of,
)

__all__ = [
    "Claim",
    "Compared",
    "Found",
    "FunctionVersion",
    "InputRows",
    "JudgeStopped",
    "Proof",
    "RecordedValue",
    "checksum_of",
    "claim_of",
    "compared",
    "input_rows",
    "no_columns",
    "proof_of",
]
