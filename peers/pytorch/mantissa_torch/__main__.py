"""Reads requests from standard input and writes responses to standard output, one JSON document per line.

`crates/workloads/src/peer/program.rs` defines the requests and the fields of a response. Output of libraries goes to standard error.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback

# From here on, everything that Python or C++ writes to standard output goes to standard error.
responses = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402

from mantissa_torch.collectives import CollectiveError  # noqa: E402
from mantissa_torch.errors import error_reason  # noqa: E402
from mantissa_torch.matmul_passes import multiply  # noqa: E402
from mantissa_torch.session import Session, UnsupportedSetting  # noqa: E402
from mantissa_torch.setting import Setting  # noqa: E402


def about():
    return {"name": f"PyTorch {torch.__version__.split('+')[0]}", "pid": os.getpid()}


# Methods of `Session` by name of the request. Only rank 0 sends `compare_parameters`, to the other ranks.
SESSION_METHODS = {
    "step": "step",
    "start_over": "reset_training",
    "predict": "predict",
    "write": "generate",
    "launch": "launch",
    "result": "write_result",
    "copies": "replicate_operands",
    "lay_for_copy": "allocate_copy_operands",
    "compare_parameters": "compare_parameters",
}


class RequestHandler:
    """Handles requests one by one. Holds the session of the current cell."""

    def __init__(self):
        self.session = None

    def handle(self, request):
        [(name, arguments)] = request.items() if isinstance(request, dict) else [(request, {})]
        match name:
            case "about":
                return about()
            case "clock":
                return time.monotonic()
            case "multiply":
                try:
                    setting = Setting(arguments.pop("setting"))
                except UnsupportedSetting as reason:
                    return str(reason)
                return multiply(setting, arguments.pop("pass"), **arguments)
            case "load":
                self.close_session()
                try:
                    self.session = Session(**arguments)
                except UnsupportedSetting as reason:
                    return {"seconds": 0.0, "unavailable": str(reason)}
                return {"seconds": self.session.seconds, "unavailable": None}
            case _ if name in SESSION_METHODS:
                return getattr(self.session, SESSION_METHODS[name])(**arguments)
        raise ValueError(f"unknown request `{name}`")

    def close_session(self):
        """Frees the memory of the current cell before the next cell is loaded."""
        if self.session:
            self.session.close()
            self.session = None
            gc.collect()

    def allocator(self):
        return self.session and self.session.allocator()


def exit_with_parent():
    """Kills this process when the process that started it exits. Does nothing if the system lacks support."""
    with contextlib.suppress(OSError, AttributeError):
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(rank=0):
    """Handles requests until the end of the input. `rank` is the rank of this process in a training on several devices."""
    # Mantissa passes the number of threads that burn uses.
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    handler = RequestHandler()
    for line in sys.stdin:
        try:
            result = handler.handle(json.loads(line))
            response = {"answer": result, "allocator": handler.allocator()}
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            response = {"failed": error_reason(error), "collective": isinstance(error, CollectiveError), "allocator": None}
        responses.write(json.dumps(response) + "\n")
        responses.flush()
        if rank and "failed" in response:
            # The other ranks may wait for this one. Exit without closing the group, so that their exchange fails at once.
            os._exit(1)
    handler.close_session()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    rank = parser.parse_args().rank
    if rank:
        exit_with_parent()
    main(rank)
