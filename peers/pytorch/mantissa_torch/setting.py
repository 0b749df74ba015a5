"""A setting of Mantissa in terms of PyTorch."""

import contextlib

import torch

FORMATS = {"64": torch.float64, "32": torch.float32, "16": torch.float16, "bf16": torch.bfloat16}


class Unavailable(Exception):
    """Raised if PyTorch cannot compute the cell under its setting."""


class Setting:
    """Formats, switches and device of a cell.

    `NN-true` is a model in that format; `NN-mixed` is parameters in f32 under `torch.autocast`, f16 with a `GradScaler`. `matmul` is
    `torch.set_float32_matmul_precision`. It also sets TF32 of cuDNN, which is on by default and which that function does not change. Sums of
    f16 and bf16 matmuls are reduced in f32 unless the accumulator is f16. `fusion` is `torch.compile`.
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
        # One pass, as in transformers' `Trainer`. In 16 bits it would compute in f32, where 1e-8 is not 0; PyTorch's default does not.
        self.fused_adam = self.stored in (torch.float32, torch.float64)
        if self.device is None:
            raise Unavailable(f"there is no backend `{setting['backend']}` of PyTorch")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Unavailable("PyTorch finds no CUDA device")
        if setting.get("keep_f32"):
            raise Unavailable("`keep_f32` is not carried over to PyTorch")
        if setting.get("devices", 1) != 1:
            raise Unavailable("several devices are not carried over to PyTorch")
        # Kernels without matmuls have neither.
        matmul, narrow_sums = setting.get("matmul", "highest"), setting.get("accumulator") == "f16"
        if narrow_sums and self.computed != torch.float16:
            raise Unavailable("PyTorch sums in f16 for products of f16 alone")
        if narrow_sums and self.device != "cuda":
            raise Unavailable("PyTorch sums in f16 on CUDA alone")
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
