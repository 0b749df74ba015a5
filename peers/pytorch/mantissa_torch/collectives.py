"""Exchanges between the ranks of a training through `torch.distributed`.

A rank is a process that trains the whole model on a part of each batch. Ranks exchange everything by all-reduce, so that a rank that stops
ends the exchange of all others.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

# Time limit of an exchange, in seconds, including the time of waiting for slower ranks.
TIMEOUT = float(os.environ.get("MANTISSA_TORCH_RANK_TIMEOUT", "300"))

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}

# Algorithms of the all-reduce that a backend can use. gloo always reduces in a ring.
ALGORITHMS = {"cpu": ("ring",), "cuda": ("ring", "tree")}


class CollectiveError(Exception):
    """Raised if an exchange failed, usually because another rank ended."""


class SingleRank:
    """The only rank of a training."""

    rank, size = 0, 1

    def add_counts(self, values):
        return values

    def reduce_gradients(self, parameters, format):
        pass

    def close(self):
        pass


class Group:
    """Connection of this rank with all others. All ranks run on one machine."""

    def __init__(self, rank, size, rendezvous, setting):
        self.rank, self.size, self.device = rank, size, setting.device
        # The host name of a machine does not always resolve to an address.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        options = {}
        if self.device == "cuda":
            torch.cuda.set_device(rank)
            os.environ["NCCL_ALGO"] = setting.reduce_algorithm
            options["device_id"] = torch.device("cuda", rank)
        try:
            dist.init_process_group(
                BACKENDS[self.device], init_method=f"file://{rendezvous}", rank=rank, world_size=size, timeout=timedelta(seconds=TIMEOUT),
                **options,
            )
        except RuntimeError as error:
            raise CollectiveError(f"cannot connect to the other ranks: {error}") from error

    def all_reduce(self, values, operation=dist.ReduceOp.SUM):
        try:
            dist.all_reduce(values, operation)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise CollectiveError(f"all-reduce failed: {error}") from error

    def add_counts(self, values):
        """Adds lists of numbers over all ranks, in f64. The sum is exact if only one rank has a number other than 0 at each index, or if all
        numbers are integers."""
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        self.all_reduce(sums)
        return sums.tolist()

    def reduce_gradients(self, parameters, format):
        """Replaces the accumulated gradients by their sum over all ranks. They are rounded to `format`, and each addition rounds to it.
        A parameter that has a gradient on any rank gets one on all ranks."""
        parameters = list(parameters)
        present = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8, device=self.device)
        self.all_reduce(present, dist.ReduceOp.MAX)
        parameters = [parameter for parameter, is_present in zip(parameters, present.tolist()) if is_present]
        # A rank without micro-batches contributes −0, which does not change any sum.
        gradients = [torch.full_like(each, -0.0) if each.grad is None else each.grad for each in parameters]
        # One buffer for all gradients, as in Mantissa: the ring divides it into one block per rank.
        buffer = torch.cat([gradient.detach().flatten().to(format) for gradient in gradients])
        self.all_reduce(buffer)
        for parameter, part in zip(parameters, buffer.split([parameter.numel() for parameter in parameters])):
            parameter.grad = part.view_as(parameter).to(parameter.dtype)

    def gather(self, value):
        """Returns an integer of each rank."""
        values = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        values[self.rank] = value
        self.all_reduce(values)
        return values.tolist()

    def close(self):
        if dist.is_initialized():
            dist.destroy_process_group()
