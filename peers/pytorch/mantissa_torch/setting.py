"""Translates a setting of Mantissa to PyTorch."""

import contextlib
import os

import torch

from mantissa_torch.collectives import ALGORITHMS, BACKENDS

# Axes that this peer implements, or rejects if it does not support the value.
IMPLEMENTED_AXES = {
    "precision", "matmul", "accumulator", "accumulate", "attention", "gelu", "optimizer", "adam_eps", "batchnorm_momentum", "checkpointing",
    "fusion", "keep_f32", "devices", "reduce", "reduce_algorithm", "reduce_format", "staleness", "threads", "backend",
}
# Axes that Mantissa applies to the files and requests that the peer receives: examples, operands, learning rates and the seed.
AXES_APPLIED_BY_MANTISSA = {"batch", "sequence", "size", "distribution", "learning_rate", "learning_rate_scaling", "seed"}

FORMATS = {"64": torch.float64, "32": torch.float32, "16": torch.float16, "bf16": torch.bfloat16}

REDUCE_FORMATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class UnsupportedSetting(Exception):
    """Raised if PyTorch cannot compute the cell under its setting."""


class Setting:
    """Formats, options and device of a cell.

    `NN-true` is a model in that format. `NN-mixed` is a model with parameters in f32 under `torch.autocast`, with a `GradScaler` for f16.
    `matmul` sets `torch.set_float32_matmul_precision`. It also sets TF32 of cuDNN, which is on by default and not part of that function.
    Partial sums of f16 and bf16 matmuls are reduced in f32 unless the accumulator is f16. `fusion` is `torch.compile`.
    """

    def __init__(self, setting):
        # Reject an axis that is new in Mantissa. If it were ignored, the peer would compute another cell than burn.
        if unknown := sorted(setting.keys() - IMPLEMENTED_AXES - AXES_APPLIED_BY_MANTISSA):
            raise UnsupportedSetting(f"the PyTorch peer does not support the axis `{unknown[0]}`")
        format, kind = setting["precision"].split("-")
        self.mixed = kind == "mixed"
        self.param_dtype = torch.float32 if self.mixed else FORMATS[format]
        self.compute_dtype = FORMATS[format]
        self.scales_loss = self.mixed and self.compute_dtype == torch.float16
        self.device = {"flex": "cpu", "cuda": "cuda"}.get(setting["backend"])
        self.compiled = setting.get("fusion") == "on"
        self.attention = {"math": "eager", "fused": "sdpa"}[setting.get("attention", "math")]
        self.gelu = setting.get("gelu", "exact")
        self.checkpointing = setting.get("checkpointing") == "on"
        self.accumulate = setting.get("accumulate", 1)
        self.batchnorm_momentum = setting.get("batchnorm_momentum", "keep")
        self.optimizer = setting.get("optimizer")
        self.adam_eps = setting.get("adam_eps")
        # Use the fused optimizer, as transformers' `Trainer` does, except for 16-bit parameters. For these, the fused optimizer computes in
        # f32, where an epsilon of 1e-8 is not 0, whereas PyTorch's default optimizer computes in 16 bits.
        self.fused_adam = self.param_dtype in (torch.float32, torch.float64)
        if self.device is None:
            raise UnsupportedSetting(f"the PyTorch peer does not support `backend={setting['backend']}`")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UnsupportedSetting("PyTorch did not find a CUDA device")
        if setting.get("keep_f32"):
            raise UnsupportedSetting("the PyTorch peer does not support `keep_f32`")
        self.devices = setting.get("devices", 1)
        self.reduce_algorithm = setting.get("reduce_algorithm", "ring")
        self.reduce_format = REDUCE_FORMATS[setting.get("reduce_format", "f32")]
        if self.devices > 1:
            self.check_reduction(setting.get("reduce", "all-reduce"))
        if "threads" in setting:
            torch.set_num_threads(setting["threads"])
        elif self.devices > 1 and self.device == "cpu":
            # Divide the cores among the ranks, as Mantissa does.
            cores = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count())
            torch.set_num_threads(max(1, cores // self.devices))
        # Settings of kernels without matmuls do not contain the axes `matmul` and `accumulator`.
        matmul, f16_accumulation = setting.get("matmul", "highest"), setting.get("accumulator") == "f16"
        if f16_accumulation and self.compute_dtype != torch.float16:
            raise UnsupportedSetting("PyTorch supports `accumulator=f16` only for f16 matmuls")
        if f16_accumulation and self.device != "cuda":
            raise UnsupportedSetting("PyTorch supports `accumulator=f16` only on CUDA")
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = matmul != "highest"
        cuda_matmul = torch.backends.cuda.matmul
        cuda_matmul.allow_fp16_reduced_precision_reduction = f16_accumulation
        cuda_matmul.allow_bf16_reduced_precision_reduction = False
        cuda_matmul.allow_fp16_accumulation = f16_accumulation

    def check_reduction(self, reduce):
        """Rejects ways of combining the gradients of several devices that the peer does not implement."""
        if reduce != "all-reduce":
            raise UnsupportedSetting(f"the PyTorch peer does not support `reduce={reduce}`")
        if self.reduce_algorithm not in ALGORITHMS[self.device]:
            backend, algorithms = BACKENDS[self.device], " or ".join(f"`{name}`" for name in ALGORITHMS[self.device])
            raise UnsupportedSetting(
                f"the PyTorch peer does not support `reduce_algorithm={self.reduce_algorithm}`: it sums gradients with {backend}, and supports only "
                f"{algorithms}"
            )
        if self.device == "cuda" and (found := torch.cuda.device_count()) < self.devices:
            raise UnsupportedSetting(f"the cell has {self.devices} devices, but PyTorch found {found} CUDA devices")

    def context(self):
        """Returns the context of forward passes."""
        if not self.mixed:
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=self.compute_dtype)

    def synchronize(self):
        """Waits until the device is idle."""
        if self.device == "cuda":
            torch.cuda.synchronize()
