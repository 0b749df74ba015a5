"""State and requests of the current cell."""

import contextlib
import ctypes
import gc
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from mantissa_torch.kernels import kernel
from mantissa_torch.setting import Setting, Unavailable

__all__ = ["Session", "Unavailable"]


def forget_workspaces():
    """Frees the workspaces of earlier probes. cuBLAS keeps a workspace for each thread that has computed a matmul."""
    if torch.cuda.is_initialized():
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def forget_peak():
    """Resets the peak memory of this process, if the system supports it, so that it excludes reading the cell."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        pass


class Session:
    """A model with its data and optimizer, or a kernel with its operands."""

    def __init__(self, folder, cell):
        forget_workspaces()
        self.folder = Path(folder)
        self.cell_file = json.loads((self.folder / cell).read_text())
        workload, self.seed = self.cell_file["cell"]["workload"], self.cell_file["cell"]["seed"]
        [(self.kind, self.task)] = workload["task"].items()
        if self.kind != "kernel":
            # Import the model libraries only here: the import takes as long as that of PyTorch, kernels do not need it, and it must not be timed.
            from mantissa_torch import models

            self.models = models
        begun = time.monotonic()
        self.setting = Setting(self.cell_file["cell"]["setting"])
        self.outermost = contextlib.ExitStack()
        if self.kind == "kernel":
            self.kernel = kernel(self.task["kernel"], self.setting)
            # Do not keep other references to the operands, so that an optimizer can free memory that it no longer needs.
            self.rotating_operands, self.launches, self.first = [self.kernel.ready(self.operands())], 0, None
            compiles = self.setting.compiled and self.kernel.compiles
            self.computed = torch.compile(self.kernel.compute) if compiles else self.kernel.compute
            if self.setting.device == "cuda":
                # Record each event once, because the first `record` creates the event and is slower.
                self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                for event in self.events:
                    event.record()
        else:
            self.load_model()
            self.parts = self.models.read(self.folder, self.cell_file)
            self.places = {part: places(tensors) for part, tensors in self.parts.items() if "rows" in tensors}
            self.first_running = {name: value.clone() for name, value in self.model.named_buffers()}
            # Use a small loss scale, so that no warm-up step overflows and the optimizer state exists before steps are timed.
            self.start_anew(loss_scale=2.0)
        if self.kind != "train":
            # Weights do not change here, so enter autocast once: it caches the casts of weights until this context exits, instead of for one batch
            # or token. Operands of kernels are not cached, because they do not require gradients.
            self.outermost.enter_context(self.setting.context())
        if self.cell_file.get("prompts"):
            self.prompts = load_file(self.folder / self.cell_file["prompts"])["ids"].long()
        self.setting.wait()
        self.seconds = time.monotonic() - begun
        forget_peak()

    def load_model(self):
        [(self.model_kind, size)] = self.task["model"].items()
        self.model = self.models.build(self.model_kind, size, self.cell_file, self.folder, self.setting)
        by_classes = bool(self.cell_file.get("classes"))
        selects_positions = self.kind != "generate" and self.model_kind in self.models.HEADS and (self.model_kind == "bloom" or not by_classes)
        called = self.models.SelectedPositions(self.model, self.model_kind, by_classes) if selects_positions else self.model
        self.selects_positions = selects_positions
        self.called = torch.compile(called) if self.setting.compiled else called
        # Fail at the recompilation limit. By default, further shapes run eagerly with only a warning.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.setting.wait()

    def close(self):
        self.outermost.close()

    # Training

    def start_anew(self, loss_scale=2.0**16):
        torch.manual_seed(self.seed)
        if self.kind != "train":
            return
        task, setting = self.task, self.setting
        parameters, rate = self.model.parameters(), task["learning_rate"]
        match setting.optimizer:
            case "sgd":
                self.optimizer = torch.optim.SGD(parameters, lr=rate, momentum=task["momentum"])
            case "adam":
                self.optimizer = torch.optim.Adam(parameters, lr=rate, eps=setting.adam_eps, fused=setting.fused_adam)
            case "adamw":
                self.optimizer = torch.optim.AdamW(
                    parameters, lr=rate, eps=setting.adam_eps, weight_decay=task["weight_decay"], fused=setting.fused_adam
                )
            case other:
                raise Unavailable(f"the PyTorch peer does not support `optimizer={other}`")
        if setting.scales_loss and task.get("loss_scale") is not None:
            raise Unavailable("PyTorch's `GradScaler` does not support a constant loss scale")
        self.scaler = torch.amp.GradScaler(setting.device, init_scale=loss_scale, enabled=setting.scales_loss)

    def start_over(self):
        """Discards the warm-up steps. With a learning rate of 0, they did not change the parameters unless gradients were not finite."""
        with torch.no_grad():
            for name, value in self.model.named_buffers():
                value.copy_(self.first_running[name])
            if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
                self.load_model()
        self.start_anew()

    def step(self, micro_batches, learning_rate):
        self.model.train()
        # Read the scale outside of the timed window, here and below, because reading it waits for the device.
        before = self.scaler.get_scale()
        begun = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        batches = [self.batch("train", examples) for examples in micro_batches]
        share = 1.0 / sum(len(labels) for _, labels in batches)
        losses, correct = [], []
        for batch in batches:
            given, labels = self.on_device(*batch)
            with self.setting.context():
                logits = self.logits(given)
                loss = F.cross_entropy(logits, labels, reduction="sum")
            self.scaler.scale(loss * share).backward()
            losses.append(loss.detach())
            correct.append((logits.detach().argmax(1) == labels).sum())
        if (norm := self.task.get("clip_norm")) is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.setting.wait()
        loss = share * sum(loss.double().item() for loss in losses)
        hits = int(sum(correct))
        ended = time.monotonic()
        after = self.scaler.get_scale()
        return {
            "window": {"begun": begun, "ended": ended},
            "loss": finite(loss),
            "hits": hits,
            "scales": [before, after] if self.setting.scales_loss else None,
            "skipped": after < before,
        }

    # Testing

    @torch.no_grad()
    def predict(self, part, examples):
        self.model.eval()
        given, labels = self.batch(part, examples)
        begun = time.monotonic()
        [given] = self.on_device(given)
        with self.setting.context():
            logits = self.logits(given)
        predicted = logits.argmax(1).tolist()
        ended = time.monotonic()
        # Compute the losses on the host, because they are not part of the model and must not use device memory.
        logits = logits.cpu()
        wide = logits.double() if logits.dtype == torch.float64 else logits.float()
        losses = F.cross_entropy(wide, labels, reduction="none").tolist()
        return {
            "window": {"begun": begun, "ended": ended},
            "predicted": predicted,
            "losses": [finite(loss) for loss in losses],
        }

    def batch(self, part, examples):
        """Returns the inputs and targets of these examples, on the host."""
        tensors, chosen = self.parts[part], torch.tensor(examples)
        if "pixels" in tensors:
            return {"pixels": tensors["pixels"][chosen]}, tensors["labels"][chosen].long()
        sequence = tensors["ids"].shape[1]
        # Shift the row indices to the position of the example in the micro-batch.
        picked = [self.places[part][example] for example in examples]
        rows = torch.cat([tensors["rows"][which] % sequence + at * sequence for at, which in enumerate(picked)])
        labels = torch.cat([tensors["labels"][which] for which in picked])
        mask = torch.arange(sequence)[None, :] < tensors["lengths"][chosen][:, None]
        return {"ids": tensors["ids"][chosen].long(), "mask": mask, "rows": rows.long()}, labels.long()

    def on_device(self, given, *labels):
        """Moves inputs and targets to the device, with pixels in the format of the model."""
        formats = {"pixels": self.setting.stored}
        given = {name: value.to(self.setting.device, formats.get(name)) for name, value in given.items()}
        return given, *(values.to(self.setting.device) for values in labels)

    def logits(self, given):
        """Returns the logits of each target: `[targets, classes or tokens]`."""
        if "pixels" in given:
            output = self.called(given["pixels"])
            return getattr(output, "logits", output)
        if self.selects_positions:
            if self.setting.compiled:
                # The number of rows varies between batches. A timed step must not recompile because of it.
                torch._dynamo.maybe_mark_dynamic(given["rows"], 0)
            return self.called(**given)
        return self.called(input_ids=given["ids"], attention_mask=given["mask"]).logits

    # Text generation

    @torch.no_grad()
    def write(self):
        self.model.eval()
        generator = torch.Generator().manual_seed(self.seed)
        cache = self.models.DynamicCache(config=self.model.config)
        begun = since = time.monotonic()
        given, seconds, tokens = self.prompts.to(self.setting.device), [], []
        for _ in range(self.task["new_tokens"]):
            logits = self.called(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
            given = self.choose(logits, generator)
            tokens.append(given.flatten().tolist())
            now = time.monotonic()
            seconds.append(now - since)
            since = now
        return {
            "window": {"begun": begun, "ended": since},
            "tokens": [token for step in tokens for token in step],
            "seconds": seconds,
            "finite": bool(logits.isfinite().all()),
        }

    def choose(self, logits, generator):
        if self.task["temperature"] == 0:
            return logits.argmax(-1, keepdim=True)
        shares = torch.softmax(logits.cpu().double() / self.task["temperature"], -1)
        return torch.multinomial(shares, 1, generator=generator).to(logits.device)

    # Kernels

    @torch.no_grad()
    def launch(self, what):
        """Times the kernel on the next operands, a copy of them, or an empty launch. The device is idle before and after."""
        operands = self.rotating_operands[self.launches % len(self.rotating_operands)]
        on_gpu = self.setting.device == "cuda"
        self.setting.wait()
        begun = time.monotonic()
        if on_gpu:
            before, after = self.events
            before.record()
        match what:
            case "kernel":
                result = self.computed(*operands)
            case "copy":
                result = operands.clone()
        if on_gpu:
            after.record()
        self.setting.wait()
        ended = time.monotonic()
        if what != "nothing":
            self.launches += 1
            if self.launches == 1:
                self.first = result
        return {
            "window": {"begun": begun, "ended": ended},
            "device": before.elapsed_time(after) / 1e3 if on_gpu else None,
        }

    def result(self, file):
        Path(file).write_bytes(self.first.cpu().double().contiguous().numpy().tobytes())
        self.first = None

    def operands(self):
        operands = load_file(self.folder / self.cell_file["operands"])
        return {name: value.to(self.setting.device, self.setting.stored) for name, value in operands.items()}

    def copies(self, copies):
        operands = self.operands()
        self.rotating_operands += [self.kernel.ready({name: value.clone() for name, value in operands.items()}) for _ in range(copies - 1)]
        self.setting.wait()

    def lay_for_copy(self, values, copies):
        self.rotating_operands = None
        one = torch.full((values,), 1.5, dtype=self.setting.stored, device=self.setting.device)
        self.rotating_operands = [one] + [one.clone() for _ in range(copies - 1)]
        self.setting.wait()

    def allocator(self):
        """Returns the peaks of PyTorch's CUDA allocator since the cell was read, in bytes."""
        if self.setting.device != "cuda":
            return None
        return {"reserved": torch.cuda.max_memory_reserved(), "in_use": torch.cuda.max_memory_allocated()}


def places(tensors):
    """Returns the slice of targets of each example."""
    examples, sequence = tensors["ids"].shape
    counts = torch.bincount(tensors["rows"] // sequence, minlength=examples)
    ends = counts.cumsum(0)
    return [slice(end - count, end) for end, count in zip(ends.tolist(), counts.tolist())]


def finite(number):
    return number if abs(number) < float("inf") else None
