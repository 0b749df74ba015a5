"""Tests of the matmuls that Mantissa probes."""

import numpy
import pytest
import torch

from mantissa_torch.matmul_passes import EDGE, PASSES, multiply
from mantissa_torch.setting import Setting
from test_session import SETTING


def multiply_files(tmp_path, setting, what, lhs, rhs):
    numpy.stack([lhs, rhs]).tofile(tmp_path / "operands")
    assert multiply(Setting(SETTING | setting), what, tmp_path / "operands", tmp_path / "result") is None
    return numpy.fromfile(tmp_path / "result").reshape(EDGE, EDGE)


@pytest.mark.parametrize("what", PASSES)
@pytest.mark.parametrize("precision", ["64-true", "32-true", "bf16-mixed", "bf16-true"])
def test_every_pass_computes_the_matmul(tmp_path, precision, what):
    # Powers of two times small integers are exact in every format, and the result is not symmetric.
    generator = numpy.random.default_rng(5)
    lhs, rhs = numpy.zeros((2, EDGE, EDGE))
    lhs[numpy.arange(EDGE), generator.permutation(EDGE)] = 2.0 ** generator.integers(-3, 4, EDGE)
    rhs[:] = generator.integers(-8, 9, (EDGE, EDGE))
    assert (multiply_files(tmp_path, {"precision": precision}, what, lhs, rhs) == lhs @ rhs.T).all()


@pytest.mark.parametrize("what", PASSES)
def test_operands_are_rounded_to_the_format_of_the_setting(tmp_path, what):
    # 1 + 2⁻⁸ is halfway between two bf16 numbers, and ties round to 1, the even one.
    lhs, rhs = numpy.zeros((2, EDGE, EDGE))
    lhs[3, 5], rhs[7, 5] = 1 + 2.0**-8, 1.0
    for precision, expected in [("32-true", 1 + 2.0**-8), ("bf16-mixed", 1.0), ("bf16-true", 1.0)]:
        assert multiply_files(tmp_path, {"precision": precision}, what, lhs, rhs)[3, 7] == expected, precision


def test_a_setting_does_not_affect_the_next(tmp_path):
    lhs, rhs = numpy.zeros((2, EDGE, EDGE))
    lhs[0, 0] = rhs[0, 0] = 1 + 2.0**-12
    for _ in range(2):
        multiply_files(tmp_path, {"precision": "bf16-mixed"}, "linear", lhs, rhs)
        assert multiply_files(tmp_path, {}, "linear", lhs, rhs)[0, 0] == numpy.float32((1 + 2.0**-12) ** 2)
    assert not torch.is_autocast_enabled("cpu")
