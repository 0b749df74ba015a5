"""Reads questions from standard input and writes answers to standard output, a JSON document a line.

`crates/workloads/src/peer/program.rs` has the questions and what an answer holds. What libraries print goes to standard error.
"""

import gc
import json
import os
import sys
import time
import traceback

# Whatever prints to standard output from here on, C++ included, prints to standard error.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402

from mantissa_torch.products import multiply  # noqa: E402
from mantissa_torch.session import Session, Unavailable  # noqa: E402
from mantissa_torch.setting import Setting  # noqa: E402


def about():
    return {"name": f"PyTorch {torch.__version__.split('+')[0]}", "pid": os.getpid()}


class Answering:
    """What questions are answered with, one after the other."""

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
        """Lets go of a cell before the next one is read."""
        if self.session:
            self.session.close()
            self.session = None
            gc.collect()

    def allocator(self):
        return self.session and self.session.allocator()


# What libraries say where PyTorch passes their words on: its own allocator on a CPU, the system (ENOMEM), cuBLAS and cuDNN.
OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "status_alloc_failed")


def reason_of(error):
    """In a line; what ran out of memory says so in the words that Mantissa looks for."""
    text = " ".join(str(error).split()) or type(error).__name__
    ran_out = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(said in text.lower() for said in OUT_OF_MEMORY)
    return f"out of memory: {text}" if ran_out else text


def main():
    # Mantissa says how many threads it has itself.
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
