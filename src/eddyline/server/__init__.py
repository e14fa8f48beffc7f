"""The server: everything the engine can be asked, over HTTP, with tokens, and results as they come.

Enters: requests of people and programs. Leaves: JSON, streams of events, and the dashboard. No algorithm lives here: requests go
to `api.Commands` and `Engine`, in threads, so that nothing blocks the loop that serves all clients.
"""

from eddyline.server.app import create_app
from eddyline.server.process import Serving, serve_in_thread, serve_until_signal
from eddyline.server.service import Service, Settings

__all__ = ["Service", "Serving", "Settings", "create_app", "serve_in_thread", "serve_until_signal"]
