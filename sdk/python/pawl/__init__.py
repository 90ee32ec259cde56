"""Workers and a client for Pawl, over the HTTP API of a server.

    import pawl

    worker = pawl.Worker(capacity=4)

    @worker.handler("shout")
    def shout(text: str) -> str:
        return text.upper()

    worker.run()

README.md is the manual.
"""

from .client import Client, Job
from .errors import ApiError, Cancelled, Error, InvalidInput, Permanent, Retry, ServerAway, Snooze, Terminated
from .step import Step, StepLogHandler, current_step
from .worker import Worker

__version__ = "0.1.0.dev0"

__all__ = [
    "ApiError", "Cancelled", "Client", "Error", "InvalidInput", "Job", "Permanent", "Retry", "ServerAway",
    "Snooze", "Step", "StepLogHandler", "Terminated", "Worker", "current_step",
]
