"""What a holder of a home does for others: takes commands on the home's socket, backs the home up, looks it through.

Enters: a home, and a table of commands. Leaves: answers on the socket, a backup file, findings.
"""

from eddyline.control.backup import Backup, backup_of, backup_of_folder, restore, verify
from eddyline.control.doctor import ERROR, OK, WARNING, Finding, check_home, folder_findings, group_findings
from eddyline.control.home_socket import Control, Remote
from eddyline.documents import error_from, error_to

__all__ = [
    "ERROR",
    "OK",
    "WARNING",
    "Backup",
    "Control",
    "Finding",
    "Remote",
    "backup_of",
    "backup_of_folder",
    "check_home",
    "error_from",
    "error_to",
    "folder_findings",
    "group_findings",
    "restore",
    "verify",
]
