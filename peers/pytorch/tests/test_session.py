"""Tests of a session with hand-written cells."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

from mantissa_torch import models
from mantissa_torch.session import Session, target_slices
from mantissa_torch.setting import AXES_APPLIED_BY_MANTISSA, IMPLEMENTED_AXES, Setting, UnsupportedSetting

SETTING = {
    "precision": "32-true", "matmul": "highest", "accumulate": 2, "batch": 2, "accumulator": "f32", "attention": "math",
    "optimizer": "sgd", "adam_eps": 1e-8, "checkpointing": "off", "fusion": "off", "keep_f32": [], "devices": 1, "backend": "flex",
}
TASK = {"model": {"resnet": {"depth": 8, "width": 2}}, "learning_rate": 0.1, "weight_decay": 0.0, "momentum": 0.9}


def load_cell(folder, task, setting, files, **fields):
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors", metadata={"format": "pt"})
        fields[name] = f"{name}.safetensors"
    cell = {"workload": {"name": "w", "task": task}, "setting": SETTING | setting, "seed": 1}
    (folder / "cell.json").write_text(json.dumps({"cell": cell, **fields}))
    return Session(str(folder), "cell.json")


def resnet(folder, setting):
    torch.manual_seed(3)
    weights = {n: v.clone() for n, v in models.SmallResNet(8, 2, 10).state_dict().items() if v.dtype == torch.float32}
    images = {"pixels": torch.randn(6, 3, 8, 8), "labels": torch.arange(6, dtype=torch.int32)}
    files = {"weights": weights, "train": images, "test": images}
    return load_cell(folder, {"train": TASK}, setting, files, classes=10), weights, images


def test_a_step_over_micro_batches_equals_one_over_the_whole_batch(tmp_path):
    # In evaluation mode, batch norms do not use the statistics of the batch, so two micro-batches equal one batch.
    session, weights, images = resnet(tmp_path, {})
    session.model.train(False)
    session.model.train = lambda mode=True: session.model
    stepped = session.step([[4, 1], [0]], 0.1)
    model = models.load_weights(models.SmallResNet(8, 2, 10), weights).eval()
    chosen = torch.tensor([4, 1, 0])
    loss = F.cross_entropy(model(images["pixels"][chosen]), images["labels"][chosen].long())
    loss.backward()
    assert stepped["loss"] == pytest.approx(loss.item(), rel=1e-6)
    for (name, updated), initial in zip(session.model.named_parameters(), model.parameters()):
        assert torch.allclose(updated, initial - 0.1 * initial.grad, atol=1e-6), name
    assert stepped["scales"] is None and not stepped["skipped"]
    assert stepped["window"]["ended"] > stepped["window"]["begun"]


def test_reset_training_resets_running_statistics_and_momentum(tmp_path):
    session, weights, _ = resnet(tmp_path, {})
    first = session.step([[0, 1, 2]], 0.0)
    session.reset_training()
    for name, value in session.model.state_dict().items():
        assert name.endswith("num_batches_tracked") or torch.equal(value, weights[name]), name
    assert session.step([[0, 1, 2]], 0.0)["loss"] == first["loss"]


def test_an_overflow_is_skipped_and_halves_the_scale(tmp_path):
    session, _, images = resnet(tmp_path, {"precision": "16-mixed"})
    session.parts["train"]["pixels"] = images["pixels"] * 1e30
    stepped = session.step([[0, 1]], 0.1)
    assert stepped["loss"] is None and stepped["skipped"]
    # The warm-up has a small loss scale. After `reset_training`, it is the default of `GradScaler`.
    assert stepped["scales"] == [2, 1]
    session.reset_training()
    assert session.step([[0, 1]], 0.1)["scales"] == [65536, 32768]


def test_targets_are_in_the_order_of_examples(tmp_path):
    session, _, _ = resnet(tmp_path, {})
    session.parts["train"] = {
        "ids": torch.arange(12).reshape(3, 4), "lengths": torch.tensor([4, 2, 3]),
        "rows": torch.tensor([0, 3, 4, 10]), "labels": torch.tensor([7, 8, 9, 5]),
    }
    session.target_slices["train"] = target_slices(session.parts["train"])
    given, labels = session.batch("train", [2, 0])
    assert labels.tolist() == [5, 7, 8] and given["rows"].tolist() == [2, 4, 7]
    assert given["ids"].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert given["mask"].tolist() == [[True, True, True, False], [True] * 4]


def test_interleaved_rotary_pairs_become_two_halves():
    # Two heads of four rows. Before the reordering, rows (0, 1) and (2, 3) of a head rotate together.
    rows = torch.arange(8.0)[:, None].repeat(1, 2)
    weights = {"model.layers.0.self_attn.q_proj.weight": rows, "model.layers.0.mlp.up_proj.weight": rows.clone()}
    models.deinterleave_rotary(weights, {"num_attention_heads": 2, "num_key_value_heads": 2})
    moved, other = weights.values()
    assert moved[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert torch.equal(other, rows)


def llama(folder, task, setting, **files):
    size = {
        "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }
    config = transformers.LlamaConfig(**size)
    torch.manual_seed(5)
    weights = {name: value.clone() for name, value in transformers.LlamaForCausalLM(config).state_dict().items()}
    model = {"llama": size | {"rope_theta": 10000.0}}
    [(kind, task)] = task.items()
    files = {"weights": weights} | files
    return load_cell(folder, {kind: task | {"model": model}}, setting, files, words=40), config, weights


def test_rotary_frequencies_stay_in_f32(tmp_path):
    prompts = {"ids": torch.zeros(1, 4, dtype=torch.int32)}
    session, _, _ = llama(tmp_path, {"generate": {}}, {"precision": "bf16-true"}, prompts=prompts)
    assert {value.dtype for value in session.model.parameters()} == {torch.bfloat16}
    assert {value.dtype for name, value in session.model.named_buffers() if "inv_freq" in name} == {torch.float32}


def test_tokens_are_predicted_at_selected_positions_and_weights_are_cast_once(tmp_path):
    rows = torch.tensor([0, 2, 5], dtype=torch.int32)
    test = {
        "ids": torch.arange(8, dtype=torch.int32).reshape(2, 4), "lengths": torch.tensor([4, 4], dtype=torch.int32),
        "rows": rows, "labels": torch.tensor([1, 2, 3], dtype=torch.int32),
    }
    session, config, weights = llama(tmp_path, {"evaluate": {}}, {"precision": "bf16-mixed"}, test=test)
    with contextlib.closing(session):
        session.predict("test", [0, 1])
        with torch.profiler.profile(record_shapes=True) as profile:
            found = session.predict("test", [0, 1])
    cast = [event.input_shapes[0] for event in profile.events() if event.name == "aten::_to_copy"]
    assert cast and [16, 16] not in cast, "weights of projections were cast again"
    assert not torch.is_autocast_enabled("cpu")
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(weights)
    with torch.no_grad():
        logits = model(test["ids"].long()).logits.flatten(0, 1)[rows.long()]
    assert found["losses"] == pytest.approx(F.cross_entropy(logits, test["labels"].long(), reduction="none").tolist(), rel=2e-2)


# If MANTISSA_REQUIRE contains `pytorch`, the compiler is required as well: the tests fail without it.
needs_a_compiler = pytest.mark.skipif(
    not shutil.which("g++") and "pytorch" not in os.environ.get("MANTISSA_REQUIRE", "").split(","),
    reason="`torch.compile` needs a C++ compiler on the CPU",
)


@pytest.fixture
def compiled_graphs(tmp_path, monkeypatch):
    """Returns a function that counts the graphs compiled since the test began: 0 if a model falls back to eager mode."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return lambda: torch._dynamo.utils.counters["stats"]["unique_graphs"]


@needs_a_compiler
def test_a_compiled_model_learns_the_same(tmp_path, compiled_graphs):
    losses = []
    for fusion in ("off", "on"):
        session, _, _ = resnet(tmp_path, {"fusion": fusion})
        steps = [session.step([[4, 1], [0, 2]], 0.1)["loss"] for _ in range(3)]
        # Predict batches of different sizes.
        losses.append(steps + session.predict("test", [0, 1, 2])["losses"] + session.predict("test", [3])["losses"])
        assert (compiled_graphs() > 0) == (fusion == "on")
    assert isinstance(session.compiled_model, torch._dynamo.OptimizedModule)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@needs_a_compiler
def test_the_number_of_targets_does_not_cause_a_recompilation(tmp_path, compiled_graphs):
    rows = torch.tensor([0, 1, 2, 4, 5, 8, 9, 10, 11], dtype=torch.int32)
    train = {
        "ids": torch.arange(12, dtype=torch.int32).reshape(3, 4), "lengths": torch.tensor([4, 4, 4], dtype=torch.int32),
        "rows": rows, "labels": rows + 1,
    }
    session, _, _ = llama(tmp_path, {"train": {"learning_rate": 0.1, "momentum": 0.9}}, {"fusion": "on"}, train=train)
    session.step([[0]], 0.0)
    compiled = compiled_graphs()
    assert compiled > 0
    for example in (1, 2):
        session.step([[example]], 0.0)
    assert compiled_graphs() == compiled


@needs_a_compiler
def test_exceeding_the_recompilation_limit_is_an_error(tmp_path, compiled_graphs):
    session, _, _ = resnet(tmp_path, {"fusion": "on"})
    session.step([[0, 1]], 0.0)
    assert compiled_graphs() > 0
    with torch._dynamo.config.patch(recompile_limit=1), pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        session.predict("test", [0])


@needs_a_compiler
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_compiled_model_generates_the_same_tokens(tmp_path, compiled_graphs, precision):
    prompts = {"ids": torch.arange(4, dtype=torch.int32)[None]}
    task = {"generate": {"new_tokens": 12, "temperature": 0}}
    written = []
    for fusion in ("off", "on"):
        session, _, _ = llama(tmp_path, task, {"precision": precision, "fusion": fusion}, prompts=prompts)
        with contextlib.closing(session):
            assert isinstance(session.compiled_model, torch._dynamo.OptimizedModule) == (fusion == "on")
            written.append(session.generate()["tokens"])
            assert (compiled_graphs() > 0) == (fusion == "on")
    assert written[0] == written[1] and len(written[0]) == 12


def test_a_matmul_rotates_operands_and_keeps_its_first_result(tmp_path):
    lhs, rhs = torch.randn(4, 3, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    task = {"kernel": {"kernel": {"matmul": {}}}}
    session = load_cell(tmp_path, task, {}, {"operands": {"lhs": lhs, "rhs": rhs}})
    assert session.launch("nothing")["device"] is None
    session.launch("kernel")
    session.write_result(tmp_path / "result")
    result = numpy.frombuffer((tmp_path / "result").read_bytes()).reshape(4, 5)
    assert numpy.allclose(result, (lhs.float() @ rhs.float()).double().numpy(), rtol=0, atol=0)
    session.replicate_operands(3)
    assert len(session.rotating_operands) == 3 and session.launches == 1


@pytest.mark.parametrize("unsupported", [
    {"keep_f32": ["classifier"]}, {"backend": "vulkan"}, {"accumulator": "f16"},
    {"accumulator": "f16", "precision": "16-true"}, {"stochastic_rounding": "on"},
    *([] if torch.cuda.is_available() else [{"backend": "cuda"}]),
])
def test_unsupported_settings_are_unavailable(unsupported):
    with pytest.raises(UnsupportedSetting):
        Setting(SETTING | unsupported)


def test_every_axis_of_mantissa_is_known():
    table = (Path(__file__).resolve().parents[3] / "crates/core/src/axes.rs").read_text()
    axes = set(re.findall(r'^    [A-Z]\w* = "(\w+)" => ', table, re.MULTILINE))
    assert axes == IMPLEMENTED_AXES | AXES_APPLIED_BY_MANTISSA


def test_the_program_writes_one_response_per_request():
    requests = '"about"\n"clock"\n{"step": {"micro_batches": [], "learning_rate": 0}}\n"nonsense"\n'
    process = subprocess.run([sys.executable, "-m", "mantissa_torch"], input=requests, capture_output=True, text=True, timeout=300)
    about, clock, step, nonsense = (json.loads(line) for line in process.stdout.splitlines())
    assert about["answer"]["name"].startswith("PyTorch 2.") and about["answer"]["pid"] > 0 and clock["answer"] > 0
    assert "failed" in step and "unknown request" in nonsense["failed"]
    assert process.returncode == 0


def test_out_of_memory_on_the_cpu_is_reported_as_such():
    script = (
        "import torch; from mantissa_torch.__main__ import responses, error_reason\n"
        "try: torch.empty(1 << 55)\n"
        "except RuntimeError as error: responses.write(error_reason(error))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert process.stdout.startswith("out of memory: "), process.stderr


@pytest.mark.parametrize(
    "message",
    [
        "[Errno 12] Cannot allocate memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_out_of_memory_errors_of_libraries_are_reported_as_such(message):
    script = f"from mantissa_torch.__main__ import error_reason, responses; responses.write(error_reason(RuntimeError({message!r})))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert process.stdout == f"out of memory: {message}", process.stderr


@pytest.mark.parametrize("matmul", ["highest", "high", "medium"])
def test_pytorch_options_follow_the_setting(matmul):
    Setting(SETTING | {"matmul": matmul})
    products = torch.backends.cuda.matmul
    assert torch.get_float32_matmul_precision() == matmul
    # TF32 of cuDNN is on by default in PyTorch.
    assert torch.backends.cudnn.allow_tf32 == (matmul != "highest")
    assert not products.allow_fp16_reduced_precision_reduction
    assert not products.allow_bf16_reduced_precision_reduction
    assert not products.allow_fp16_accumulation


@pytest.mark.parametrize(("precision", "fused"), [("32-true", True), ("16-mixed", True), ("16-true", False), ("bf16-true", False)])
def test_adam_is_fused_unless_parameters_have_16_bits(tmp_path, precision, fused):
    session, _, _ = resnet(tmp_path, {"precision": precision, "optimizer": "adamw"})
    assert session.optimizer.defaults["fused"] == fused
    assert session.step([[0, 1]], 0.01)["loss"] is not None
