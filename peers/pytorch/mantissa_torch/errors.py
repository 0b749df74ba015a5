"""Error messages for Mantissa."""

import torch

# Fragments of out-of-memory errors: of PyTorch's allocator on a CPU, the system (ENOMEM), cuBLAS and cuDNN.
OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "status_alloc_failed")


def error_reason(error):
    """Returns the error message on one line. Out-of-memory errors contain `out of memory`, which Mantissa detects."""
    text = " ".join(str(error).split()) or type(error).__name__
    ran_out = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(fragment in text.lower() for fragment in OUT_OF_MEMORY)
    return f"out of memory: {text}" if ran_out else text
