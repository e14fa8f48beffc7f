"""Alerts that are open: who acknowledged and silenced them, their messages, how they are grouped.

Enters: an engine's rounds. Leaves: alerts, messages and silences as users see them.
"""

from eddyline.alerts.alerts import Alert, AlertList, follow_messages, messages, on_message, open_alerts
from eddyline.alerts.groups import alert_groups, n_open_alerts
from eddyline.alerts.history import alert_history
from eddyline.alerts.silencing import acknowledge, add_silence, end_silence, is_pattern, silences

__all__ = [
    "Alert",
    "AlertList",
    "acknowledge",
    "add_silence",
    "alert_groups",
    "alert_history",
    "end_silence",
    "follow_messages",
    "is_pattern",
    "messages",
    "n_open_alerts",
    "on_message",
    "open_alerts",
    "silences",
]
