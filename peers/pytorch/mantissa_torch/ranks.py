"""Processes of the ranks other than 0.

The process that Mantissa starts is rank 0. It starts `python -m mantissa_torch --rank N` for each other rank, passes requests on to them, and
reads their responses. If a rank fails, rank 0 kills all others and reports the rank that failed first.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from mantissa_torch.collectives import TIMEOUT, CollectiveError
from mantissa_torch.errors import error_reason

# Time limit for the other ranks to exit or respond after one failed, in seconds.
FAILURE_GRACE = 10

# Time limit for the other ranks to exit at the end of a cell, in seconds. Mantissa waits 5 seconds for this process.
EXIT_GRACE = 3


class RankError(Exception):
    """Raised on rank 0 if a rank failed. The message contains the rank."""


class RankProcess:
    """Process of another rank."""

    def __init__(self, rank):
        self.rank = rank
        # The process finds this package like this one, wherever it was imported from.
        path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")]))
        # Without a session or process group of its own, the process is killed with the cell.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mantissa_torch", "--rank", str(rank)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path},
        )
        # Lines of the process; `None` after the last one.
        self.lines = queue.Queue()
        threading.Thread(target=self.read_lines, daemon=True).start()

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.process.stdout.close()
        self.lines.put(None)

    def send(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            # The missing response is detected when it is read.
            pass

    def response(self, seconds):
        """Returns the next response, or `None` if the process exits first. Raises `queue.Empty` at the time limit."""
        line = self.lines.get(timeout=max(seconds, 0))
        if line is None:
            self.lines.put(None)
            return None
        return json.loads(line)

    def exit_reason(self):
        try:
            status = self.process.wait(FAILURE_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its output"
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"

    def close_input(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close_input()


class OtherRanks:
    """Processes of all ranks but 0. The constructor waits until they have imported their libraries."""

    def __init__(self, size):
        self.folder = tempfile.TemporaryDirectory(prefix="mantissa-torch-")
        self.rendezvous = str(Path(self.folder.name) / "rendezvous")
        self.processes = [RankProcess(rank) for rank in range(1, size)]
        self.send("clock")
        self.collect()

    def send(self, request):
        for process in self.processes:
            process.send(request)

    def load(self, **arguments):
        """Sends the request `load` to every rank."""
        for process in self.processes:
            process.send({"load": {**arguments, "rank": process.rank, "rendezvous": self.rendezvous}})

    def collect(self):
        """Reads a response of every rank. Raises an error if one failed."""
        deadline = time.monotonic() + TIMEOUT
        failures = [self.failure(process, deadline) for process in self.processes]
        if any(failures):
            self.fail(failures)

    def fail_after(self, error):
        """Raises the error of the rank that failed first. `error` is that of this rank."""
        if not isinstance(error, CollectiveError):
            self.kill()
            raise error if isinstance(error, RankError) else RankError(f"rank 0: {error_reason(error)}") from error
        # A rank that fails closes its connections, and the exchange fails on the others.
        deadline = time.monotonic() + FAILURE_GRACE
        failures = [self.failure(process, deadline) for process in self.processes]
        self.fail([*failures, (3, f"rank 0: {error_reason(error)}")])

    def failure(self, process, deadline):
        """Reads a response. Returns `None` for a result, and otherwise an order and a reason. Of several failures, the one with the smallest
        order is the cause of the others."""
        try:
            response = process.response(deadline - time.monotonic())
        except queue.Empty:
            return 2, f"rank {process.rank} did not respond in time"
        if response is None:
            return 0, f"rank {process.rank} {process.exit_reason()}"
        if (reason := response.get("failed")) is not None:
            return 3 if response["collective"] else 1, f"rank {process.rank}: {reason}"
        return None

    def fail(self, failures):
        self.kill()
        _, reason = min((failure for failure in failures if failure), key=lambda failure: failure[0])
        raise RankError(reason)

    def kill(self):
        for process in self.processes:
            process.kill()
        self.folder.cleanup()

    def close(self):
        """Ends the processes: each exits at the end of its input."""
        for process in self.processes:
            process.close_input()
        deadline = time.monotonic() + EXIT_GRACE
        for process in self.processes:
            try:
                process.process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                pass
        self.kill()
