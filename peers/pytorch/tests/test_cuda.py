"""Tests of features that need a GPU. All tests are skipped if no CUDA device is available."""

import contextlib

import pytest
import torch

from mantissa_torch.setting import Setting
from test_session import SETTING, load_cell, resnet

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

CUDA = {"backend": "cuda"}


def product(folder, setting, size=512):
    torch.manual_seed(1)
    operands = {name: torch.randn(size, size, dtype=torch.float64) for name in ("lhs", "rhs")}
    task = {"kernel": {"kernel": {"matmul": {}}}}
    session = load_cell(folder, task, CUDA | setting, {"operands": operands})
    return session, operands["lhs"].float().double() @ operands["rhs"].float().double()


def test_a_step_matches_the_cpu(tmp_path):
    losses = []
    for setting in ({}, CUDA, CUDA | {"fusion": "on"}):
        session, _, _ = resnet(tmp_path, setting)
        losses.append([session.step([[4, 1], [0, 2]], 0.1)["loss"] for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_two_gpus_equal_accumulation_on_one(tmp_path, algorithm):
    losses = []
    for setting in ({"accumulate": 2}, {"accumulate": 1, "devices": 2, "reduce_algorithm": algorithm}):
        session, _, _ = resnet(tmp_path, CUDA | setting)
        with contextlib.closing(session):
            losses.append([session.step([[4, 1], [0, 2]], 0.1)["loss"] for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_launch_is_timed_by_the_gpu_within_the_hosts_window(tmp_path):
    session, _ = product(tmp_path, {}, size=2048)
    for _ in range(3):
        launched = session.launch("kernel")
    window = launched["window"]["ended"] - launched["window"]["begun"]
    nothing = session.launch("nothing")["device"]
    assert 0 <= nothing < launched["device"] < window


@pytest.mark.parametrize("matmul, least, most", [("highest", 0, 3e-6), ("high", 1e-5, 3e-3)])
def test_matmuls_have_the_requested_precision(tmp_path, matmul, least, most):
    session, exact = product(tmp_path, {"matmul": matmul})
    session.launch("kernel")
    error = (session.first_result.double().cpu() - exact).norm() / exact.norm()
    assert least <= error <= most


def test_peaks_include_memory_that_was_freed_between_responses(tmp_path):
    session, _ = product(tmp_path, {})
    before = session.allocator()["in_use"]
    torch.empty(1 << 26, dtype=torch.uint8, device="cuda")
    assert session.allocator()["in_use"] >= before + (1 << 26)
    assert session.allocator()["reserved"] >= session.allocator()["in_use"]


def test_f16_matmuls_accumulate_in_f16_on_request():
    for accumulator in ("f32", "f16"):
        Setting(SETTING | CUDA | {"precision": "16-true", "accumulator": accumulator})
        assert torch.backends.cuda.matmul.allow_fp16_accumulation == (accumulator == "f16")
