"""Reads requests from standard input and writes responses to standard output, one JSON document per line.

`crates/workloads/src/peer/program.rs` defines the requests and the fields of a response. Output of libraries goes to standard error.
"""

import gc
import json
import os
import sys
import time
import traceback

# From here on, output to standard output, also from C++, goes to standard error.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402

from mantissa_torch.products import multiply  # noqa: E402
from mantissa_torch.session import Session, Unavailable  # noqa: E402
from mantissa_torch.setting import Setting  # noqa: E402


def about():
    return {"name": f"PyTorch {torch.__version__.split('+')[0]}", "pid": os.getpid()}


class Answering:
    """Handler of requests, one after the other."""

    def __init__(self):
        self.session = None

    def answer(self, question):
        [(asked, given)] = question.items() if isinstance(question, dict) else [(question, {})]
        match asked:
            case "about":
                return about()
            case "clock":
                return time.monotonic()
            case "multiply":
                try:
                    setting = Setting(given.pop("setting"))
                except Unavailable as reason:
                    return str(reason)
                return multiply(setting, given.pop("pass"), **given)
            case "load":
                self.forget()
                try:
                    self.session = Session(**given)
                except Unavailable as reason:
                    return {"seconds": 0.0, "unavailable": str(reason)}
                return {"seconds": self.session.seconds, "unavailable": None}
            case "step" | "start_over" | "predict" | "write" | "launch" | "result" | "copies" | "lay_for_copy":
                return getattr(self.session, asked)(**given)
        raise ValueError(f"nobody asks `{asked}`")

    def forget(self):
        """Releases the current cell before the next one is read."""
        if self.session:
            self.session.close()
            self.session = None
            gc.collect()

    def allocator(self):
        return self.session and self.session.allocator()


# Messages of libraries that PyTorch passes on: its own allocator on a CPU, the system (ENOMEM), cuBLAS and cuDNN.
OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "status_alloc_failed")


def reason_of(error):
    """Returns the error on one line. An out-of-memory error starts with the text that Mantissa searches for."""
    text = " ".join(str(error).split()) or type(error).__name__
    ran_out = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(said in text.lower() for said in OUT_OF_MEMORY)
    return f"out of memory: {text}" if ran_out else text


def main():
    # Mantissa passes its own number of threads.
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    answering = Answering()
    for line in sys.stdin:
        try:
            said = answering.answer(json.loads(line))
            said = {"answer": said, "allocator": answering.allocator()}
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            said = {"failed": reason_of(error), "allocator": None}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
