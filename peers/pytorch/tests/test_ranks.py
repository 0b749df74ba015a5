"""Tests of trainings on several ranks, compared with trainings of one rank."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import transformers
from safetensors.torch import load_file, save_file

from mantissa_torch import collectives, models, ranks
from mantissa_torch.ranks import RankError
from mantissa_torch.setting import Setting, UnsupportedSetting
from test_session import SETTING, TASK, load_cell, resnet

# Micro-batches of three steps. With two or four ranks, the last step has fewer micro-batches than ranks.
STEPS = [[[4, 1], [0, 2], [5, 3], [1, 0]], [[3, 5], [2, 4], [0, 1], [5, 2]], [[4]]]

SIZE = {
    "n_layers": 2, "dim": 16, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 16, "vocab_size": 40, "dropout": 0.0,
    "attention_dropout": 0.0, "seq_classif_dropout": 0.0,
}


@contextlib.contextmanager
def distilbert(folder, setting, task=None, size=None):
    """Loads a DistilBERT. It has no batch norms, so micro-batches equal their joined batch."""
    size = SIZE | (size or {})
    torch.manual_seed(3)
    model = transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(**size, num_labels=2))
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    rows = torch.arange(6, dtype=torch.int32) * 8
    examples = {
        "ids": torch.randint(1, 40, (6, 8), dtype=torch.int32), "lengths": torch.tensor([8, 5, 8, 3, 8, 7], dtype=torch.int32),
        "rows": rows, "labels": torch.tensor([0, 1, 1, 0, 1, 0], dtype=torch.int32),
    }
    files = {"weights": weights, "train": examples, "test": examples}
    task = TASK | {"model": {"distilbert": size}} | (task or {})
    session = load_cell(folder, {"train": task}, {"threads": 1} | setting, files, classes=2)
    with contextlib.closing(session):
        yield session


def train(folder, setting, steps=STEPS, task=None, size=None):
    """Returns the responses of all steps without their times, the parameters after them, and the losses of the test."""
    with distilbert(folder, setting, task, size) as session:
        responses = [session.step(micro_batches, 0.1) for micro_batches in steps]
        losses = session.predict("test", [0, 1, 2])["losses"]
        parameters = torch.cat([parameter.detach().flatten() for parameter in session.model.parameters()])
    for response in responses:
        del response["window"]
    return responses, parameters, losses


def joined(steps):
    return [[sum(micro_batches, [])] for micro_batches in steps]


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_equal_one_rank_with_the_joined_batch(tmp_path, size):
    for precision, tolerance in (("64-true", 1e-12), ("32-true", 1e-6)):
        setting = {"precision": precision, "reduce_format": "f64" if precision == "64-true" else "f32"}
        task = {"clip_norm": 0.5}
        one, parameters, losses = train(tmp_path, setting, joined(STEPS), task)
        several, other_parameters, other_losses = train(tmp_path, setting | {"devices": size}, task=task)
        differences = [abs(a["loss"] - b["loss"]) for a, b in zip(one, several, strict=True)]
        differences += [abs(a - b) for a, b in zip(losses, other_losses, strict=True)] + [(parameters - other_parameters).abs().max().item()]
        print(f"{precision}, {size} ranks: {max(differences):.1e}")
        assert max(differences) < tolerance, (precision, differences)
        assert [step["hits"] for step in one] == [step["hits"] for step in several]


@pytest.mark.parametrize("setting", [
    {"precision": "32-true"}, {"precision": "bf16-mixed", "optimizer": "adamw"}, {"precision": "64-true", "reduce_format": "f64"},
    {"precision": "bf16-true", "reduce_format": "bf16"},
], ids=lambda setting: setting["precision"])
def test_two_ranks_with_one_micro_batch_equal_accumulation_bit_for_bit(tmp_path, setting):
    # A sum of two values does not depend on their order.
    steps = [micro_batches[:2] for micro_batches in STEPS]
    alone = train(tmp_path, setting | {"accumulate": 2}, steps)
    together = train(tmp_path, setting | {"accumulate": 1, "devices": 2}, steps)
    assert together[0] == alone[0] and together[2] == alone[2]
    assert torch.equal(together[1], alone[1])


def test_a_rank_without_a_micro_batch_unscales_the_gradients_of_the_others(tmp_path):
    # Rank 0 does not have a micro-batch in the first step.
    steps = [[[4, 1], [0, 2], [5]], [[0], [1], [2], [5]], [[0], [1], [2], [3]]]
    responses = []
    for setting, groups in (({}, joined(steps)), ({"devices": 4}, steps)):
        with distilbert(tmp_path, {"precision": "16-mixed", **setting}) as session:
            session.reset_training()
            responses.append([session.step(micro_batches, 0.1) for micro_batches in groups])
            # Fails if the parameters of the ranks differ.
            session.predict("test", [0])
    one, several = responses
    assert [step["loss"] for step in several] == pytest.approx([step["loss"] for step in one], rel=2e-3)
    assert all(step["scales"] == [65536, 65536] and not step["skipped"] for step in one + several)


def resnet_with_overflow(folder, devices):
    """Loads a ResNet in 16-mixed. The pixels of example 5 overflow."""
    torch.manual_seed(3)
    weights = {name: value.clone() for name, value in models.SmallResNet(8, 2, 10).state_dict().items() if value.dtype == torch.float32}
    images = {"pixels": torch.randn(6, 3, 8, 8), "labels": torch.arange(6, dtype=torch.int32)}
    images["pixels"][5] *= 1e30
    files = {"weights": weights, "train": images, "test": images}
    setting = {"precision": "16-mixed", "devices": devices, "threads": 1}
    return load_cell(folder, {"train": TASK}, setting, files, classes=10)


def test_an_overflow_on_one_rank_skips_the_step_on_all(tmp_path):
    with contextlib.closing(resnet_with_overflow(tmp_path, 2)) as session:
        overflowed = session.step([[0, 1], [4, 5]], 0.1)
        assert overflowed["skipped"] and overflowed["scales"] == [2, 1] and overflowed["loss"] is None
        stepped = session.step([[0, 1], [2, 3]], 0.1)
        assert not stepped["skipped"] and stepped["scales"] == [1, 1]
        session.predict("test", [0])


def test_reset_training_resets_every_rank(tmp_path):
    with distilbert(tmp_path, {"devices": 2}) as session:
        first = [session.step(micro_batches, 0.0)["loss"] for micro_batches in STEPS[:2]]
        session.reset_training()
        assert [session.step(micro_batches, 0.0)["loss"] for micro_batches in STEPS[:2]] == first


def test_ranks_draw_different_dropout_masks(tmp_path):
    size = {"dropout": 0.3}
    # Rank 1 draws other masks than rank 0 for the same examples. With equal masks, the losses of both would be equal.
    losses = [train(tmp_path, {"devices": 2}, [group], size=size)[0][0]["loss"] for group in ([[0, 1]], [[0, 1], [0, 1]])]
    assert losses[0] != losses[1]
    assert train(tmp_path, {"devices": 2}, [[[0, 1], [0, 1]]], size=size)[0][0]["loss"] == losses[1]


def reduce_on_rank(rank, size, rendezvous, folder):
    """Reduces gradients of several formats, and writes the sums."""
    setting = Setting(SETTING | {"devices": size, "threads": 1})
    group = collectives.Group(rank, size, rendezvous, setting)
    sums = {}
    for name, format in (("f64", torch.float64), ("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
        parameters = [torch.nn.Parameter(torch.zeros(gradient.shape)) for gradient in gradients(0)]
        # Each rank has a gradient of the first parameter, and only rank 1 has one of the second. None has one of the third.
        for index, gradient in enumerate(gradients(rank)):
            if index == 0 or (index == 1 and rank == 1):
                parameters[index].grad = gradient
        group.reduce_gradients(parameters, format)
        assert parameters[2].grad is None
        sums |= {f"{name}.{index}": parameters[index].grad for index in (0, 1)}
    save_file(sums, f"{folder}/{rank}.safetensors")
    group.close()


def gradients(rank):
    torch.manual_seed(rank)
    return [torch.randn(300, 7), torch.tensor([-0.0, 1.5]), torch.zeros(1)]


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_summed_in_a_ring_in_the_requested_format(tmp_path, size):
    torch.multiprocessing.spawn(reduce_on_rank, (size, str(tmp_path / "rendezvous"), str(tmp_path)), nprocs=size)
    first, *others = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(size))
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)
    for name, format in (("f64", torch.float64), ("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
        own = [gradients(rank)[0].to(format) for rank in range(size)]
        sums = [sum_in_order(own, order).float() for order in itertools.permutations(range(size))]
        # Each value is the sum of one order, with a rounding after each addition.
        matches = torch.stack([first[f"{name}.0"] == each for each in sums])
        assert matches.any(0).all(), name
        # The gradient of one rank is not changed by the others, not even −0.
        alone = first[f"{name}.1"]
        assert torch.equal(alone, torch.tensor([-0.0, 1.5])) and alone[0].signbit(), name
    if size == 3:
        # In a ring, the blocks are summed in different orders, so no order yields all values.
        own = [gradients(rank)[0] for rank in range(size)]
        assert not any(torch.equal(first["f32.0"], sum_in_order(own, order)) for order in itertools.permutations(range(size)))


def sum_in_order(values, order):
    total = values[order[0]]
    for rank in order[1:]:
        total = total + values[rank]
    return total


def children():
    """Returns the ids of the processes that this one started and that still exist."""
    found = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "mantissa_torch" in line]


def test_no_rank_remains_after_the_session(tmp_path):
    with distilbert(tmp_path, {"devices": 3}) as session:
        assert len(children()) == 2
        session.step(STEPS[0], 0.1)
    assert children() == [] and not dist.is_initialized()


@pytest.mark.parametrize("rank", [1, 2])
def test_a_killed_rank_is_named_and_the_others_exit(tmp_path, rank):
    with distilbert(tmp_path, {"devices": 3}) as session:
        session.step(STEPS[0], 0.1)
        os.kill(session.other_ranks.processes[rank - 1].process.pid, signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(RankError, match=f"^rank {rank} was killed by SIGKILL$"):
            session.step(STEPS[1], 0.1)
        assert time.monotonic() - begun < 30
        assert children() == []


def test_a_rank_killed_within_a_step_is_named(tmp_path):
    with distilbert(tmp_path, {"devices": 3}) as session:
        session.step(STEPS[0], 0.1)
        stopped = session.other_ranks.processes[1].process.pid
        # The other ranks wait in the all-reduce when the rank is killed.
        os.kill(stopped, signal.SIGSTOP)
        threading.Timer(2, os.kill, (stopped, signal.SIGKILL)).start()
        with pytest.raises(RankError, match="^rank 2 was killed by SIGKILL$"):
            session.step(STEPS[1], 0.1)
        assert children() == []


def test_a_stopped_rank_is_named_at_the_time_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("MANTISSA_TORCH_RANK_TIMEOUT", "20")
    monkeypatch.setattr(collectives, "TIMEOUT", 20)
    monkeypatch.setattr(ranks, "FAILURE_GRACE", 3)
    with distilbert(tmp_path, {"devices": 3}) as session:
        session.step(STEPS[0], 0.1)
        os.kill(session.other_ranks.processes[0].process.pid, signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(RankError, match="^rank 1 did not respond in time$"):
            session.step(STEPS[1], 0.1)
        assert 10 < time.monotonic() - begun < 60
        assert children() == []


@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_a_rank_is_reported_with_the_rank(tmp_path, rank):
    # Micro-batch 0 of two ranks belongs to rank 1. Example 9 does not exist.
    steps = [[[0, 1], [9]], [[9], [0, 1]]]
    with distilbert(tmp_path, {"devices": 2}) as session:
        session.label_count = lambda part, examples: len(examples)
        with pytest.raises(RankError, match=f"^rank {rank}: "):
            session.step(steps[rank], 0.1)
        assert children() == []


def test_different_parameters_are_an_error(tmp_path):
    with distilbert(tmp_path, {"devices": 2}) as session:
        session.step(STEPS[0], 0.1)
        with torch.no_grad():
            next(session.model.parameters())[0, 0] += 1
        with pytest.raises(RankError, match="^the parameters of rank 1 differ from those of rank 0$"):
            session.predict("test", [0])


def test_the_other_ranks_exit_with_rank_0(tmp_path):
    script = (
        "import os, signal, sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from test_ranks import distilbert\n"
        "with distilbert(Path(sys.argv[2]), {'devices': 3}) as session:\n"
        "    pids = [each.process.pid for each in session.other_ranks.processes]\n"
        "    os.kill(pids[0], signal.SIGSTOP)\n"
        "    print(*pids, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    tests = str(Path(__file__).parent)
    process = subprocess.run([sys.executable, "-c", script, tests, str(tmp_path)], capture_output=True, text=True, timeout=300)
    pids = [int(pid) for pid in process.stdout.split()]
    assert len(pids) == 2, process.stderr
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a rank did not exit"
        time.sleep(0.1)


def is_running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # A zombie has exited. Its new parent may not read its status.
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(("unsupported", "reason"), [
    ({"reduce": "parameter-server"}, "the PyTorch peer does not support `reduce=parameter-server`"),
    ({"reduce_algorithm": "linear"}, "the PyTorch peer does not support `reduce_algorithm=linear`: it sums gradients with gloo"),
    ({"reduce_algorithm": "tree"}, "the PyTorch peer does not support `reduce_algorithm=tree`: it sums gradients with gloo"),
])
def test_unsupported_reductions_are_unavailable(unsupported, reason):
    with pytest.raises(UnsupportedSetting, match=reason):
        Setting(SETTING | {"devices": 2} | unsupported)


def test_an_unsupported_cell_ends_its_ranks(tmp_path):
    with pytest.raises(UnsupportedSetting, match="checkpointing"):
        resnet(tmp_path, {"devices": 2, "checkpointing": "on"})
    assert children() == []


@pytest.mark.parametrize(("cores", "devices", "threads"), [("4", 2, 2), ("2", 4, 1)])
def test_cores_are_divided_among_the_ranks(monkeypatch, cores, devices, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", cores)
    before = torch.get_num_threads()
    try:
        Setting(SETTING | {"devices": devices})
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
