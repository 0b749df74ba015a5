"""State and requests of the current cell."""

import contextlib
import ctypes
import gc
import hashlib
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from mantissa_torch.collectives import Group, SingleRank
from mantissa_torch.kernels import kernel
from mantissa_torch.ranks import OtherRanks, RankError
from mantissa_torch.setting import Setting, UnsupportedSetting

__all__ = ["Session", "UnsupportedSetting"]


def free_cublas_workspaces():
    """Frees the workspaces of earlier probes. cuBLAS keeps a workspace for each thread that has computed a matmul."""
    if torch.cuda.is_initialized():
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def reset_peak_memory():
    """Resets the peak memory of this process, so that it does not include loading of the cell. Does nothing if the system lacks support."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        pass


class Session:
    """A model with its data and optimizer, or a kernel with its operands.

    A training on several devices has one session per rank, each in its own process. Rank 0 passes the requests of the training on to the others.
    """

    def __init__(self, folder, cell, rank=0, rendezvous=None):
        self.exit_stack = contextlib.ExitStack()
        self.group, self.other_ranks = SingleRank(), None
        free_cublas_workspaces()
        self.folder = Path(folder)
        self.cell_file = json.loads((self.folder / cell).read_text())
        workload, self.seed = self.cell_file["cell"]["workload"], self.cell_file["cell"]["seed"]
        [(self.kind, self.task)] = workload["task"].items()
        if self.kind != "kernel":
            # Import the model libraries only here. Kernels do not need them, and the import is slow and must not be timed.
            from mantissa_torch import models

            self.models = models
        self.setting = Setting(self.cell_file["cell"]["setting"])
        if self.setting.devices == 1:
            self.load()
            return
        if rank == 0:
            self.other_ranks = OtherRanks(self.setting.devices)
            self.other_ranks.load(folder=folder, cell=cell)
            rendezvous = self.other_ranks.rendezvous
        try:
            with self.on_all_ranks():
                self.group = Group(rank, self.setting.devices, rendezvous, self.setting)
                self.load()
                self.check_parameters()
        except BaseException:
            self.close()
            raise

    def load(self):
        """Loads the files of the cell."""
        begun = time.monotonic()
        if self.kind == "kernel":
            self.kernel = kernel(self.task["kernel"], self.setting)
            # Keep no reference to the operands here, so that an optimizer can free those that it no longer needs.
            self.rotating_operands, self.launches, self.first_result = [self.kernel.select_operands(self.operands())], 0, None
            compiles = self.setting.compiled and self.kernel.compiles
            self.compiled_kernel = torch.compile(self.kernel.compute) if compiles else self.kernel.compute
            if self.setting.device == "cuda":
                # Record each event once, because the first `record` creates the event and is slower.
                self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                for event in self.events:
                    event.record()
        else:
            self.load_model()
            self.parts = self.models.load_parts(self.folder, self.cell_file)
            self.target_slices = {part: target_slices(tensors) for part, tensors in self.parts.items() if "rows" in tensors}
            self.initial_buffers = {name: value.clone() for name, value in self.model.named_buffers()}
            # Use a small loss scale, so that no warm-up step overflows and the optimizer state exists before steps are timed.
            self.reset_optimizer(loss_scale=2.0)
        if self.kind != "train":
            # Weights do not change here, so enter autocast once for all batches or tokens: it caches the casts of weights until it exits.
            # Operands of kernels are not cached, because they do not require gradients.
            self.exit_stack.enter_context(self.setting.context())
        if self.cell_file.get("prompts"):
            self.prompts = load_file(self.folder / self.cell_file["prompts"])["ids"].long()
        self.setting.synchronize()
        self.seconds = time.monotonic() - begun
        reset_peak_memory()

    def load_model(self):
        [(self.model_kind, size)] = self.task["model"].items()
        self.model = self.models.build(self.model_kind, size, self.cell_file, self.folder, self.setting)
        by_classes = bool(self.cell_file.get("classes"))
        selects_positions = self.kind != "generate" and self.model_kind in self.models.HEADS and (self.model_kind == "bloom" or not by_classes)
        forward = self.models.SelectedPositions(self.model, self.model_kind, by_classes) if selects_positions else self.model
        self.selects_positions = selects_positions
        self.compiled_model = torch.compile(forward) if self.setting.compiled else forward
        # Fail at the recompilation limit. By default, PyTorch only warns and runs further shapes in eager mode.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        self.setting.synchronize()

    def close(self):
        self.exit_stack.close()
        if self.other_ranks:
            self.other_ranks.close()
        self.group.close()

    # Several ranks

    @contextlib.contextmanager
    def on_all_ranks(self, request=None):
        """Runs the body while the other ranks handle `request`, and reads their responses. If it is `None`, they already have a request."""
        if self.other_ranks is None:
            yield
            return
        if request is not None:
            self.other_ranks.send(request)
        try:
            yield
        except UnsupportedSetting:
            raise
        except Exception as error:  # noqa: BLE001
            # The exchange of the other ranks fails once this one closes its connections.
            self.group.close()
            self.other_ranks.fail_after(error)
        self.other_ranks.collect()

    def check_parameters(self):
        """Raises an error if the parameters of the ranks differ. Every rank must call this method."""
        digest = hashlib.blake2b(digest_size=7)
        for parameter in self.model.parameters():
            digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        digests = self.group.gather(int.from_bytes(digest.digest()))
        if different := [rank for rank, other in enumerate(digests) if other != digests[0]]:
            raise RankError(f"the parameters of rank {different[0]} differ from those of rank 0")

    def compare_parameters(self):
        """Compares the parameters of all ranks after the last step. Does nothing if they have not changed."""
        if self.group.size > 1 and self.parameters_changed:
            with self.on_all_ranks("compare_parameters"):
                self.check_parameters()
            self.parameters_changed = False

    # Training

    def reset_optimizer(self, loss_scale=2.0**16):
        # Ranks draw different dropout masks, because they train on different micro-batches. PyTorch's CPU generator uses only the lower 32 bits.
        torch.manual_seed((self.seed + self.group.rank * 0x9E3779B1) % 2**64)
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
                raise UnsupportedSetting(f"the PyTorch peer does not support `optimizer={other}`")
        if setting.scales_loss and task.get("loss_scale") is not None:
            raise UnsupportedSetting("PyTorch's `GradScaler` does not support a constant loss scale")
        self.scaler = torch.amp.GradScaler(setting.device, init_scale=loss_scale, enabled=setting.scales_loss)
        # The first use creates the scale. A rank without micro-batches does not scale a loss in its first step, but unscales the gradients.
        self.scaler.scale(torch.zeros((), device=setting.device))
        self.parameters_changed = False

    def reset_training(self):
        with self.on_all_ranks("start_over"):
            self.reset_own_training()

    def reset_own_training(self):
        """Undoes the warm-up steps: restores buffers and resets the optimizer. The warm-up has a learning rate of 0, so parameters changed
        only if gradients were not finite. In that case, the model is loaded again."""
        with torch.no_grad():
            for name, value in self.model.named_buffers():
                value.copy_(self.initial_buffers[name])
            if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
                self.load_model()
        self.reset_optimizer()

    def step(self, micro_batches, learning_rate):
        with self.on_all_ranks({"step": {"micro_batches": micro_batches, "learning_rate": learning_rate}}):
            return self.own_step(micro_batches, learning_rate)

    def own_step(self, micro_batches, learning_rate):
        """Trains on the micro-batches of this rank, and makes the optimizer step with the gradients of all ranks."""
        self.model.train()
        self.parameters_changed = True
        # Read the scale outside of the timed window, here and below, because reading it waits for the device.
        scale_before = self.scaler.get_scale()
        begun = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        # Micro-batch j of N ranks belongs to rank N − 1 − (j mod N), as in Mantissa.
        own = range(self.group.size - 1 - self.group.rank, len(micro_batches), self.group.size)
        batches = [self.batch("train", micro_batches[position]) for position in own]
        loss_weight = 1.0 / sum(self.label_count("train", examples) for examples in micro_batches)
        losses, correct = [], []
        for batch in batches:
            inputs, labels = self.on_device(*batch)
            with self.setting.context():
                logits = self.logits(inputs)
                loss = F.cross_entropy(logits, labels, reduction="sum")
            self.scaler.scale(loss * loss_weight).backward()
            losses.append(loss.detach())
            correct.append((logits.detach().argmax(1) == labels).sum())
        # The sum has the same bits on every rank. All ranks therefore take the same decisions about overflows and clipping.
        self.group.reduce_gradients(self.model.parameters(), self.setting.reduce_format)
        if (norm := self.task.get("clip_norm")) is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.setting.synchronize()
        numbers = [0.0] * len(micro_batches)
        for position, loss in zip(own, losses):
            numbers[position] = loss.double().item()
        *losses, num_correct = self.group.add_counts([*numbers, float(sum(correct))])
        loss = loss_weight * sum(losses)
        ended = time.monotonic()
        scale_after = self.scaler.get_scale()
        return {
            "window": {"begun": begun, "ended": ended},
            "loss": finite(loss),
            "hits": int(num_correct),
            "scales": [scale_before, scale_after] if self.setting.scales_loss else None,
            "skipped": scale_after < scale_before,
        }

    # Evaluation

    @torch.no_grad()
    def predict(self, part, examples):
        # Only rank 0 predicts, because the record contains the results of rank 0.
        self.compare_parameters()
        self.model.eval()
        inputs, labels = self.batch(part, examples)
        begun = time.monotonic()
        [inputs] = self.on_device(inputs)
        with self.setting.context():
            logits = self.logits(inputs)
        predicted = logits.argmax(1).tolist()
        ended = time.monotonic()
        # Compute the losses on the host, because they are not part of the model and must not use device memory.
        logits = logits.cpu()
        # Compute losses of 16-bit logits in f32.
        upcast = logits if logits.dtype == torch.float64 else logits.float()
        losses = F.cross_entropy(upcast, labels, reduction="none").tolist()
        return {
            "window": {"begun": begun, "ended": ended},
            "predicted": predicted,
            "losses": [finite(loss) for loss in losses],
        }

    def batch(self, part, examples):
        """Returns the inputs and targets of these examples, on the host."""
        tensors, indices = self.parts[part], torch.tensor(examples)
        if "pixels" in tensors:
            return {"pixels": tensors["pixels"][indices]}, tensors["labels"][indices].long()
        sequence = tensors["ids"].shape[1]
        # `rows` are positions in the flattened split. Convert them to positions in the flattened micro-batch.
        slices = [self.target_slices[part][example] for example in examples]
        rows = torch.cat([tensors["rows"][targets] % sequence + index * sequence for index, targets in enumerate(slices)])
        labels = torch.cat([tensors["labels"][targets] for targets in slices])
        mask = torch.arange(sequence)[None, :] < tensors["lengths"][indices][:, None]
        return {"ids": tensors["ids"][indices].long(), "mask": mask, "rows": rows.long()}, labels.long()

    def label_count(self, part, examples):
        """Returns the number of targets of these examples."""
        if "pixels" in self.parts[part]:
            return len(examples)
        return sum(targets.stop - targets.start for targets in (self.target_slices[part][example] for example in examples))

    def on_device(self, inputs, *labels):
        """Moves inputs and targets to the device, with pixels in the format of the model."""
        formats = {"pixels": self.setting.param_dtype}
        inputs = {name: value.to(self.setting.device, formats.get(name)) for name, value in inputs.items()}
        return inputs, *(values.to(self.setting.device) for values in labels)

    def logits(self, inputs):
        """Returns the logits of each target: `[targets, classes or tokens]`."""
        if "pixels" in inputs:
            output = self.compiled_model(inputs["pixels"])
            return getattr(output, "logits", output)
        if self.selects_positions:
            if self.setting.compiled:
                # The number of rows varies between batches. A timed step must not recompile because of it.
                torch._dynamo.maybe_mark_dynamic(inputs["rows"], 0)
            return self.compiled_model(**inputs)
        return self.compiled_model(input_ids=inputs["ids"], attention_mask=inputs["mask"]).logits

    # Text generation

    @torch.no_grad()
    def generate(self):
        self.model.eval()
        generator = torch.Generator().manual_seed(self.seed)
        cache = self.models.DynamicCache(config=self.model.config)
        begun = since = time.monotonic()
        input_ids, seconds, tokens = self.prompts.to(self.setting.device), [], []
        for _ in range(self.task["new_tokens"]):
            logits = self.compiled_model(input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
            input_ids = self.sample_token(logits, generator)
            tokens.append(input_ids.flatten().tolist())
            now = time.monotonic()
            seconds.append(now - since)
            since = now
        return {
            "window": {"begun": begun, "ended": since},
            "tokens": [token for step in tokens for token in step],
            "seconds": seconds,
            "finite": bool(logits.isfinite().all()),
        }

    def sample_token(self, logits, generator):
        if self.task["temperature"] == 0:
            return logits.argmax(-1, keepdim=True)
        probs = torch.softmax(logits.cpu().double() / self.task["temperature"], -1)
        return torch.multinomial(probs, 1, generator=generator).to(logits.device)

    # Kernels

    @torch.no_grad()
    def launch(self, what):
        """Times `what`: the kernel on the next operands, a copy of the next operands, or nothing. The device is idle before and after."""
        operands = self.rotating_operands[self.launches % len(self.rotating_operands)]
        on_gpu = self.setting.device == "cuda"
        self.setting.synchronize()
        begun = time.monotonic()
        if on_gpu:
            before, after = self.events
            before.record()
        match what:
            case "kernel":
                result = self.compiled_kernel(*operands)
            case "copy":
                result = operands.clone()
        if on_gpu:
            after.record()
        self.setting.synchronize()
        ended = time.monotonic()
        if what != "nothing":
            self.launches += 1
            if self.launches == 1:
                self.first_result = result
        return {
            "window": {"begun": begun, "ended": ended},
            "device": before.elapsed_time(after) / 1e3 if on_gpu else None,
        }

    def write_result(self, file):
        """Writes the result of the first launch as f64."""
        Path(file).write_bytes(self.first_result.cpu().double().contiguous().numpy().tobytes())
        self.first_result = None

    def operands(self):
        operands = load_file(self.folder / self.cell_file["operands"])
        return {name: value.to(self.setting.device, self.setting.param_dtype) for name, value in operands.items()}

    def replicate_operands(self, copies):
        """Adds copies of the kernel's operands, so that `copies` launches in turn use different memory."""
        operands = self.operands()
        self.rotating_operands += [self.kernel.select_operands({name: value.clone() for name, value in operands.items()}) for _ in range(copies - 1)]
        self.setting.synchronize()

    def allocate_copy_operands(self, values, copies):
        """Replaces the operands by `copies` tensors of this many values, for `launch("copy")`."""
        self.rotating_operands = None
        one = torch.full((values,), 1.5, dtype=self.setting.param_dtype, device=self.setting.device)
        self.rotating_operands = [one] + [one.clone() for _ in range(copies - 1)]
        self.setting.synchronize()

    def allocator(self):
        """Returns the peaks of PyTorch's CUDA allocator since the cell was read, in bytes."""
        if self.setting.device != "cuda":
            return None
        return {"reserved": torch.cuda.max_memory_reserved(), "in_use": torch.cuda.max_memory_allocated()}


def target_slices(tensors):
    """Returns the range of each example's targets in `rows` and `labels`."""
    examples, sequence = tensors["ids"].shape
    counts = torch.bincount(tensors["rows"] // sequence, minlength=examples)
    ends = counts.cumsum(0)
    return [slice(end - count, end) for end, count in zip(ends.tolist(), counts.tolist())]


def finite(number):
    return number if abs(number) < float("inf") else None
