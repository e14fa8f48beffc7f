"""Proof: what a result claims, and judges that share nothing with the engine.

In comes a receipt, plain JSON: the user's text, the rows it was asked about, the round's now(). Out comes what an independent
engine makes of them, and where that differs. Nothing here knows the parser, the filters or the expressions of eddyline: the text
is run as it was written, by Spark (`eddyline.spark.judge`) or, where every operator in it was found to be the same there, by
DuckDB. What functions that are not deterministic gave comes with the receipt; no judge calls them.
"""

from eddyline.proof.audit_counters import AuditCounters
from eddyline.proof.claims import (
    Claim,
    ClaimDifference,
    FunctionVersion,
    GroupClaim,
    InputRows,
    JudgeFinding,
    JudgeStopped,
    Proof,
    RecordedValue,
    checksum_of,
    claim_difference,
    claim_inputs,
    claim_of,
    no_columns,
    proof_of,
)
from eddyline.proof.departures import departure_proof
from eddyline.proof.duckdb import DuckDbJudge
from eddyline.proof.groups import group_proof
from eddyline.proof.inputs import WrittenInput, quoted, written_inputs
from eddyline.proof.recorded_values import replayed_claim
from eddyline.proof.spark_texts import ARRIVAL, INPUT, SparkText, spark_text
from eddyline.proof.values import from_json, rows_to_json, schema_to_text, to_json, type_from
from eddyline.proof.words import Edit, edited_text, words_of

__all__ = [
    "ARRIVAL",
    "INPUT",
    "AuditCounters",
    "Claim",
    "ClaimDifference",
    "DuckDbJudge",
    "Edit",
    "FunctionVersion",
    "GroupClaim",
    "InputRows",
    "JudgeFinding",
    "JudgeStopped",
    "Proof",
    "RecordedValue",
    "SparkText",
    "WrittenInput",
    "checksum_of",
    "claim_difference",
    "claim_inputs",
    "claim_of",
    "departure_proof",
    "edited_text",
    "from_json",
    "group_proof",
    "no_columns",
    "proof_of",
    "quoted",
    "replayed_claim",
    "rows_to_json",
    "schema_to_text",
    "spark_text",
    "to_json",
    "type_from",
    "words_of",
    "written_inputs",
]
