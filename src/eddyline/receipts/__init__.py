"""Receipts of results, and the audit that checks a share of all rounds again.

Enters: a result, or a committed round with a home. Leaves: a receipt, a proof, or a difference that is announced.
"""

from eddyline.receipts.audit import Audit
from eddyline.receipts.expansion import record_of_receipt, record_written_out
from eddyline.receipts.group_why import why_group_result
from eddyline.receipts.readings import branches_over, has_repeated_sets, input_numbers
from eddyline.receipts.receipts import Receipt, prove, receipt
from eddyline.receipts.recorded_calls import recorded_values

__all__ = [
    "Audit",
    "Receipt",
    "branches_over",
    "has_repeated_sets",
    "input_numbers",
    "prove",
    "receipt",
    "record_of_receipt",
    "record_written_out",
    "recorded_values",
    "why_group_result",
]
