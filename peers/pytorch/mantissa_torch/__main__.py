"""Reads requests from standard input and writes responses to standard output, one JSON document per line.

`crates/workloads/src/peer/program.rs` defines the requests and the fields of a response. Output of libraries goes to standard error.
"""

import gc
import json
import os
import sys
import time
import traceback

# From here on, writes to standard output, also from C++, go to standard error.
responses = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402

from mantissa_torch.products import multiply  # noqa: E402
from mantissa_torch.session import Session, Unavailable  # noqa: E402
from mantissa_torch.setting import Setting  # noqa: E402


def about():
    return {"name": f"PyTorch {torch.__version__.split('+')[0]}", "pid": os.getpid()}


class RequestHandler:
    """Handles requests one by one."""

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
                except Unavailable as reason:
                    return str(reason)
                return multiply(setting, arguments.pop("pass"), **arguments)
            case "load":
                self.forget()
                try:
                    self.session = Session(**arguments)
                except Unavailable as reason:
                    return {"seconds": 0.0, "unavailable": str(reason)}
                return {"seconds": self.session.seconds, "unavailable": None}
            case "step" | "start_over" | "predict" | "write" | "launch" | "result" | "copies" | "lay_for_copy":
                return getattr(self.session, name)(**arguments)
        raise ValueError(f"unknown request `{name}`")

    def forget(self):
        """Releases the current cell before the next cell is read."""
        if self.session:
            self.session.close()
            self.session = None
            gc.collect()

    def allocator(self):
        return self.session and self.session.allocator()


# Fragments of out-of-memory errors: of PyTorch's allocator on a CPU, the system (ENOMEM), cuBLAS and cuDNN.
OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "status_alloc_failed")


def reason_of(error):
    """Returns the error message on one line. Out-of-memory errors begin with `out of memory`, which Mantissa detects."""
    text = " ".join(str(error).split()) or type(error).__name__
    ran_out = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(fragment in text.lower() for fragment in OUT_OF_MEMORY)
    return f"out of memory: {text}" if ran_out else text


def main():
    # Mantissa passes the number of threads that burn uses.
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    handler = RequestHandler()
    for line in sys.stdin:
        try:
            answer = handler.handle(json.loads(line))
            response = {"answer": answer, "allocator": handler.allocator()}
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            response = {"failed": reason_of(error), "allocator": None}
        responses.write(json.dumps(response) + "\n")
        responses.flush()


if __name__ == "__main__":
    main()
