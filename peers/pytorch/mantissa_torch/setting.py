"""Translates a setting of Mantissa to PyTorch."""

import contextlib

import torch

FORMATS = {"64": torch.float64, "32": torch.float32, "16": torch.float16, "bf16": torch.bfloat16}


class Unavailable(Exception):
    """Raised if PyTorch cannot compute the cell under its setting."""


class Setting:
    """Formats, options and device of a cell.

    `NN-true` is a model in that format. `NN-mixed` is a model with parameters in f32 under `torch.autocast`, with a `GradScaler` for f16. `matmul`
    calls `torch.set_float32_matmul_precision`, and sets TF32 of cuDNN, which is on by default and not changed by that function. Partial sums of f16
    and bf16 matmuls are reduced in f32 unless the accumulator is f16. `fusion` is `torch.compile`.
    """

    def __init__(self, setting):
        format, kind = setting["precision"].split("-")
        self.mixed = kind == "mixed"
        self.stored = torch.float32 if self.mixed else FORMATS[format]
        self.computed = FORMATS[format]
        self.scales_loss = self.mixed and self.computed == torch.float16
        self.device = {"flex": "cpu", "cuda": "cuda"}.get(setting["backend"])
        self.compiled = setting.get("fusion") == "on"
        self.attention = {"math": "eager", "fused": "sdpa"}[setting.get("attention", "math")]
        self.gelu = setting.get("gelu", "exact")
        self.checkpointing = setting.get("checkpointing") == "on"
        self.batch = setting.get("batch")
        self.accumulate = setting.get("accumulate", 1)
        self.batchnorm_momentum = setting.get("batchnorm_momentum", "keep")
        self.optimizer = setting.get("optimizer")
        self.adam_eps = setting.get("adam_eps")
        # Use the fused optimizer, as transformers' `Trainer` does. Not for 16-bit parameters: the fused optimizer computes in f32, where an epsilon of
        # 1e-8 is not 0, and PyTorch's default computes in 16 bits.
        self.fused_adam = self.stored in (torch.float32, torch.float64)
        if self.device is None:
            raise Unavailable(f"the PyTorch peer does not support `backend={setting['backend']}`")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Unavailable("PyTorch did not find a CUDA device")
        if setting.get("keep_f32"):
            raise Unavailable("the PyTorch peer does not support `keep_f32`")
        if setting.get("devices", 1) != 1:
            raise Unavailable("the PyTorch peer does not support several devices")
        # Settings of kernels without matmuls do not contain these axes.
        matmul, narrow_sums = setting.get("matmul", "highest"), setting.get("accumulator") == "f16"
        if narrow_sums and self.computed != torch.float16:
            raise Unavailable("PyTorch supports `accumulator=f16` only for f16 matmuls")
        if narrow_sums and self.device != "cuda":
            raise Unavailable("PyTorch supports `accumulator=f16` only on CUDA")
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = matmul != "highest"
        products = torch.backends.cuda.matmul
        products.allow_fp16_reduced_precision_reduction = narrow_sums
        products.allow_bf16_reduced_precision_reduction = False
        products.allow_fp16_accumulation = narrow_sums

    def context(self):
        """Returns the context of forward passes."""
        if not self.mixed:
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=self.computed)

    def wait(self):
        """Waits until the device is idle."""
        if self.device == "cuda":
            torch.cuda.synchronize()
