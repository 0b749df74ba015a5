#!/usr/bin/env python3
"""Records the class of each operation under `torch.autocast("cuda")`, from an installed PyTorch.

Writes crates/precision/tests/training/numbers/autocast.json:

lists     the operations of each class, without overloads: those in the macros of ATen/autocast_mode.h, and those that
          PyTorch registers without the macros. The script asserts that the operations with a kernel for the dispatch key
          AutocastCUDA are exactly these and `binary_cross_entropy`, whose kernel raises an error.
unlisted  operations without such a kernel, which autocast does not change.
observed  output formats of some operations for inputs in the lower format and in f32. They are the same under autocast to
          f16 and to bf16. No GPU is needed: the tensors are fake CUDA tensors, which autocast treats like real ones.
"""

import json
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

OUT = Path(__file__).resolve().parents[3] / "crates/precision/tests/training/numbers/autocast.json"
HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
MACROS = {
    "lower": ["LOWER_PRECISION_FP"],
    "full": ["FP32", "FP32_SET_OPT_DTYPE", "DIFFERENT_REDISPATCH_SIGNATURE"],
    "widest": ["PROMOTE"],
}
# Registered without the macros: by autocast_mode.cpp, cudnn/RNN.cpp and, observed below, torch.linalg.
WITHOUT_MACROS = {
    "lower": ["_cudnn_rnn", "cudnn_convolution", "cudnn_convolution_transpose"],
    "full": ["linalg_matrix_sqrth"],
    "widest": [],
}
UNLISTED = ["add", "batch_norm", "dropout", "gelu", "mul", "silu"]


def listed(macro):
    body = re.search(rf"#define AT_FORALL_{macro}\(_\)((?:.*\\\n)*.*)", HEADER.read_text()).group(1)
    return re.findall(r"_\((?:ADD_NS\()?(\w+)", body)


def registered():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    return {name[len("aten::"):].split(".")[0] for name in names if has(name, "AutocastCUDA")}


def observed(lower):
    """Returns (operation, inputs, output) triples, with formats written `lower` and `f32`."""
    def tensor(*shape):
        return lambda dtype: torch.empty(*shape, device="cuda", dtype=dtype)

    matrix, row, images, heads = tensor(4, 4), tensor(4), tensor(1, 2, 4, 4), tensor(1, 2, 4, 4)
    classes = torch.zeros(4, dtype=torch.long, device="cuda")
    scale, filters = row(torch.float32), tensor(3, 2, 1, 1)(torch.float32)
    channels = tensor(2)(torch.float32)
    rows = [
        ("matmul", torch.matmul, [matrix, matrix]),
        ("linear", lambda x, w: F.linear(x, w, scale), [matrix, matrix]),
        ("convolution", lambda x: F.conv2d(x, filters), [images]),
        ("attention", F.scaled_dot_product_attention, [heads, heads, heads]),
        ("softmax", lambda x: torch.softmax(x, -1), [matrix]),
        ("layer_norm", lambda x: F.layer_norm(x, (4,), scale, scale), [matrix]),
        ("rms_norm", lambda x: F.rms_norm(x, (4,), scale), [matrix]),
        ("cross_entropy_sum", lambda x: F.cross_entropy(x, classes, reduction="sum"), [matrix]),
        ("add", torch.add, [matrix, matrix]),
        ("mul", torch.mul, [matrix, matrix]),
        ("gelu", F.gelu, [matrix]),
        ("silu", F.silu, [matrix]),
        ("dropout", lambda x: F.dropout(x, 0.1), [matrix]),
        ("batch_norm", lambda x: F.batch_norm(x, None, None, channels, channels, training=True), [images]),
    ]
    names = {lower: "lower", torch.float32: "f32"}
    table = []
    for name, run, inputs in rows:
        for mask in range(2 ** len(inputs)):
            dtypes = [lower if mask >> i & 1 else torch.float32 for i in range(len(inputs))]
            output = run(*[make(dtype) for make, dtype in zip(inputs, dtypes)])
            table.append({"operation": name, "inputs": [names[d] for d in dtypes], "output": names[output.dtype]})
    return table


def main():
    lists = {
        name: sorted({*WITHOUT_MACROS[name], *(op for macro in macros for op in listed(macro))})
        for name, macros in MACROS.items()
    }
    everything = [op for ops in lists.values() for op in ops]
    assert len(everything) == len(set(everything)), "an operation is in two lists"
    unlisted_kernels = registered() ^ set(everything)
    assert unlisted_kernels == {"binary_cross_entropy"}, unlisted_kernels
    assert not registered() & set(UNLISTED)

    torch.set_autocast_enabled("cuda", True)  # torch.autocast("cuda") disables itself without a GPU
    torch.autocast_increment_nesting()
    tables = []
    with FakeTensorMode(allow_non_fake_inputs=True):
        for lower in [torch.float16, torch.bfloat16]:
            torch.set_autocast_dtype("cuda", lower)
            tables.append(observed(lower))
            square = torch.empty(3, 3, device="cuda", dtype=lower)
            assert torch.linalg.matrix_sqrth(square).dtype == torch.float32
    assert tables[0] == tables[1]

    lines = ",\n".join("    " + json.dumps(row) for row in tables[0])
    lists = ",\n".join(f"    {json.dumps(name)}: {json.dumps(ops)}" for name, ops in lists.items())
    version = torch.__version__.split("+")[0]
    OUT.write_text(
        f'{{\n  "generated": "by peers/pytorch/golden/autocast.py; do not edit",\n  "versions": {{"torch": "{version}"}},\n'
        f'  "lists": {{\n{lists}\n  }},\n  "unlisted": {json.dumps(UNLISTED)},\n  "observed": [\n{lines}\n  ]\n}}\n'
    )


if __name__ == "__main__":
    main()
