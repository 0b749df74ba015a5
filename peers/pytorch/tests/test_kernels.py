"""Tests of kernels against their formulas in NumPy."""

import functools
import gc
import math
import subprocess
import sys

import numpy
import pytest
import torch

from mantissa_torch.kernels import EPSILON, RMS_EPSILON, kernel
from mantissa_torch.setting import Setting, UnsupportedSetting
from test_session import SETTING, load_cell

VALUES = numpy.random.default_rng(2).standard_normal((6, 40))
SCALE, SHIFT = numpy.random.default_rng(3).standard_normal((2, 40))


def run_kernel(kind, operands, shape={}, **setting):
    built = kernel({kind: shape}, Setting(SETTING | {"precision": "64-true"} | setting))
    named = {name: torch.from_numpy(values) for name, values in operands.items()}
    return built.compute(*built.select_operands(named)).numpy()


def softmax(scores):
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_rows_match_the_formulas():
    gelu = VALUES * 0.5 * (1 + numpy.vectorize(math.erf)(VALUES / math.sqrt(2)))
    tanh = VALUES * 0.5 * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (VALUES + 0.044715 * VALUES**3)))
    centred = VALUES - VALUES.mean(1, keepdims=True)
    normal = centred / numpy.sqrt((centred**2).mean(1, keepdims=True) + EPSILON)
    root = numpy.sqrt((VALUES**2).mean(1, keepdims=True) + RMS_EPSILON)
    for kind, setting, expected in [
        ("gelu", {"gelu": "exact"}, gelu),
        ("gelu", {"gelu": "tanh"}, tanh),
        ("softmax", {}, softmax(VALUES)),
        ("layer-norm", {}, normal * SCALE + SHIFT),
        ("rms-norm", {}, VALUES / root * SCALE),
    ]:
        operands = {"values": VALUES, "scale": SCALE, "shift": SHIFT}
        numpy.testing.assert_allclose(run_kernel(kind, operands, **setting), expected, rtol=1e-12, atol=1e-14, err_msg=kind)


def test_attention_and_convolution_match_the_formulas():
    queries, keys, values = numpy.random.default_rng(4).standard_normal((3, 2, 3, 5, 8))
    expected = softmax(queries @ keys.swapaxes(2, 3) / math.sqrt(8)) @ values
    for attention in ("math", "fused"):
        result = run_kernel("attention", {"queries": queries, "keys": keys, "values": values}, attention=attention)
        numpy.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)
    images, filters = numpy.ones((1, 1, 4, 4)), numpy.ones((1, 1, 3, 3))
    result = run_kernel("convolution", {"images": images, "filters": filters}, {"stride": 2, "padding": 1})
    assert result.tolist() == [[[[4.0, 6.0], [6.0, 9.0]]]]


def test_a_cast_returns_the_matmul_format():
    cast = kernel({"cast": {}}, Setting(SETTING | {"precision": "bf16-mixed"}))
    assert cast.compute(*cast.select_operands({"values": torch.tensor([1 + 2.0**-8])})).dtype == torch.bfloat16


def test_adamw_launches_the_second_step_and_copies_have_their_own_state(tmp_path):
    parameters, first, second = numpy.random.default_rng(6).standard_normal((3, 16)).astype("float32")
    expected, mean, square = parameters.astype("float64"), 0.0, 0.0
    for number, gradient in [(1, first), (2, second)]:
        gradient = gradient.astype("float64")
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        expected = expected * (1 - 1e-3 * 0.01)
        expected -= 1e-3 * (mean / (1 - 0.9**number)) / (numpy.sqrt(square / (1 - 0.999**number)) + 1e-8)
    operands = {"parameters": parameters, "first": first, "second": second}
    operands = {name: torch.from_numpy(values) for name, values in operands.items()}
    session = load_cell(tmp_path, {"kernel": {"kernel": {"adamw": {"width": 16}}}}, {}, {"operands": operands})
    session.launch("kernel")
    session.write_result(tmp_path / "result")
    numpy.testing.assert_allclose(numpy.fromfile(tmp_path / "result"), expected, rtol=1e-6)
    session.replicate_operands(2)
    session.launch("kernel")
    session.launch("kernel")
    stepped, other = (parameters.detach().numpy() for _, parameters in session.rotating_operands)
    assert (stepped != other).any(), "the first copy made one more step"
    numpy.testing.assert_allclose(other, expected, rtol=1e-6)


def test_memory_that_an_optimizer_no_longer_needs_is_freed(tmp_path):
    operands = {name: torch.randn(12345) for name in ("parameters", "first", "second")}
    session = load_cell(tmp_path, {"kernel": {"kernel": {"adamw": {"width": 12345}}}}, {}, {"operands": operands})
    session.launch("kernel")
    session.write_result(tmp_path / "result")
    del operands
    gc.collect()
    live = {x.data_ptr() for x in gc.get_objects() if isinstance(x, torch.Tensor) and x.numel() == 12345}
    assert len(live) == 4, "expected parameters, a gradient and two moments"


@pytest.mark.parametrize("kind, operands", [
    ("matmul", {"lhs": (4, 3), "rhs": (3, 5)}), ("softmax", {"values": (6, 40)}), ("adamw", dict.fromkeys(("parameters", "first", "second"), (16,))),
    ("attention", dict.fromkeys(("queries", "keys", "values"), (1, 2, 3, 4))),
])
def test_compiled_kernels_return_the_same_result(tmp_path, kind, operands, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    operands = {name: torch.rand(shape) for name, shape in operands.items()}
    results = []
    for fusion in ("off", "on"):
        session = load_cell(tmp_path, {"kernel": {"kernel": {kind: {}}}}, {"fusion": fusion}, {"operands": operands})
        session.launch("kernel")
        session.write_result(tmp_path / "result")
        results.append(numpy.fromfile(tmp_path / "result"))
        session.replicate_operands(12)
        for _ in range(12):
            session.launch("kernel")
    numpy.testing.assert_allclose(*results, rtol=1e-6)


def test_autocast_is_entered_once_and_casts_at_each_launch(tmp_path):
    operands = {"lhs": torch.full((2, 2), 1 + 2.0**-8), "rhs": torch.eye(2)}
    setting = {"precision": "bf16-mixed"}
    session = load_cell(tmp_path, {"kernel": {"kernel": {"matmul": {}}}}, setting, {"operands": operands})
    session.launch("kernel")
    assert session.first_result.dtype == torch.bfloat16
    session.rotating_operands[0][0].fill_(3.0)
    assert session.compiled_kernel(*session.rotating_operands[0]).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    session.close()
    assert not torch.is_autocast_enabled("cpu")


def test_copied_values_are_not_zeros(tmp_path):
    operands = {"values": torch.ones(2, 3)}
    session = load_cell(tmp_path, {"kernel": {"kernel": {"softmax": {"width": 3}}}}, {"precision": "bf16-true"}, {"operands": operands})
    session.launch("kernel")
    session.allocate_copy_operands(values=7, copies=2)
    [one, other] = session.rotating_operands
    assert one.dtype == torch.bfloat16 and one.tolist() == [1.5] * 7 and one.data_ptr() != other.data_ptr()
    launched = session.launch("copy")
    assert launched["window"]["ended"] > launched["window"]["begun"]


@pytest.mark.parametrize("kind, setting", [
    ("gelu", {"gelu": "tanh-packed"}), ("adamw", {"precision": "bf16-true"}), ("adamw", {"precision": "64-true"}), ("sort", {}),
])
def test_unsupported_kernels_are_unavailable(kind, setting):
    with pytest.raises(UnsupportedSetting):
        kernel({kind: {}}, Setting(SETTING | setting))


def test_kernels_do_not_import_the_model_libraries(tmp_path):
    load_cell(tmp_path, {"kernel": {"kernel": {"matmul": {}}}}, {}, {"operands": {"lhs": torch.eye(2), "rhs": torch.eye(2)}})
    script = f"""
import sys
from mantissa_torch.__main__ import RequestHandler
handler = RequestHandler()
handler.handle({{"load": {{"folder": {str(tmp_path)!r}, "cell": "cell.json"}}}})
handler.handle({{"launch": {{"what": "kernel"}}}})
sys.stderr.write(str([name for name in ("torchvision", "transformers") if name in sys.modules]))
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "[]")
