"""Tests of features that need a GPU. Without one, every test is skipped."""

import pytest
import torch

from mantissa_torch.setting import Setting
from test_session import SETTING, handed, resnet

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

CUDA = {"backend": "cuda"}


def product(folder, setting, size=512):
    torch.manual_seed(1)
    operands = {name: torch.randn(size, size, dtype=torch.float64) for name in ("lhs", "rhs")}
    task = {"kernel": {"kernel": {"matmul": {}}}}
    session = handed(folder, task, CUDA | setting, {"operands": operands})
    return session, operands["lhs"].float().double() @ operands["rhs"].float().double()


def test_a_step_is_that_of_the_cpu(tmp_path):
    losses = []
    for setting in ({}, CUDA, CUDA | {"fusion": "on"}):
        session, _, _ = resnet(tmp_path, setting)
        losses.append([session.step([[4, 1], [0, 2]], 0.1)["loss"] for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[1], rel=1e-4)


def test_a_launch_is_timed_by_the_gpu_within_the_hosts_window(tmp_path):
    session, _ = product(tmp_path, {}, size=2048)
    for _ in range(3):
        launched = session.launch("kernel")
    window = launched["window"]["ended"] - launched["window"]["begun"]
    nothing = session.launch("nothing")["device"]
    assert 0 <= nothing < launched["device"] < window


@pytest.mark.parametrize("matmul, least, most", [("highest", 0, 3e-6), ("high", 1e-5, 3e-3)])
def test_products_are_those_that_are_asked_for(tmp_path, matmul, least, most):
    session, exact = product(tmp_path, {"matmul": matmul})
    session.launch("kernel")
    apart = (session.first.double().cpu() - exact).norm() / exact.norm()
    assert least <= apart <= most


def test_peaks_count_what_was_given_back_between_answers(tmp_path):
    session, _ = product(tmp_path, {})
    before = session.allocator()["in_use"]
    torch.empty(1 << 26, dtype=torch.uint8, device="cuda")
    assert session.allocator()["in_use"] >= before + (1 << 26)
    assert session.allocator()["reserved"] >= session.allocator()["in_use"]


def test_halves_are_summed_in_f16_where_that_is_asked_for():
    for accumulator in ("f32", "f16"):
        Setting(SETTING | CUDA | {"precision": "16-true", "accumulator": accumulator})
        assert torch.backends.cuda.matmul.allow_fp16_accumulation == (accumulator == "f16")
