"""Models of transformers and torchvision, with the sizes and weights of the request."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.cache_utils import DynamicCache

from mantissa_torch.setting import UnsupportedSetting

# Names of the classes in transformers for classification and for language modelling; `None` if Mantissa does not have the task.
HEADS = {
    "distilbert": ("DistilBertForSequenceClassification", None),
    "bert": ("BertForSequenceClassification", "BertForMaskedLM"),
    "bloom": ("BloomForSequenceClassification", "BloomForCausalLM"),
    "llama": (None, "LlamaForCausalLM"),
    "gpt2": (None, "GPT2LMHeadModel"),
    "vit": ("ViTForImageClassification", None),
}


def build(kind, size, cell_file, folder, setting):
    """Returns a model of this kind and size on the device, in the setting's format, with the weights of the request.

    The momentum of batch norms applies to one micro-batch.
    """
    file = folder / cell_file["weights"]
    if kind == "resnet":
        model = small_resnet(size, cell_file["classes"], load_file(file))
    elif kind == "resnet-imagenet":
        model = large_resnet(size, cell_file["classes"], load_file(file))
    else:
        # Load the model in its format with `from_pretrained`, as users do, so that rotary frequencies stay in f32.
        return transformer(kind, size, cell_file, file, setting).to(setting.device)
    momentum = 0.1
    if setting.batchnorm_momentum == "scaled":
        momentum = 1 - (1 - momentum) ** (1 / setting.accumulate)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum
    if setting.checkpointing:
        raise UnsupportedSetting("the PyTorch peer does not support `checkpointing=on` for ResNets")
    return model.to(setting.device, setting.param_dtype)


def transformer(kind, size, cell_file, file, setting):
    classifier, language_model = HEADS[kind]
    name = classifier if cell_file.get("classes") else language_model
    size = dict(size)
    interleaved = size.pop("rope_interleaved", False)
    scaling = size.pop("rope_scaling", None)
    if kind == "llama":
        theta = size.pop("rope_theta")
        size["rope_parameters"] = {"rope_theta": theta, "rope_type": "llama3", **scaling} if scaling else {
            "rope_theta": theta, "rope_type": "default"
        }
    if cell_file.get("classes"):
        size["num_labels"] = cell_file["classes"]
    if cell_file.get("words") and "vocab_size" not in size:
        size["vocab_size"] = cell_file["words"]
    model_class = getattr(transformers, name)
    # Load the weights like a published checkpoint, so that transformers maps the names to its modules.
    with tempfile.TemporaryDirectory() as pretrained:
        config = model_class.config_class(**size, architectures=[name], bos_token_id=None, eos_token_id=None)
        config.save_pretrained(pretrained)
        checkpoint = Path(pretrained) / "model.safetensors"
        if interleaved:
            weights = load_file(file)
            deinterleave_rotary(weights, size)
            save_file(weights, checkpoint, metadata={"format": "pt"})
            del weights
        else:
            checkpoint.symlink_to(file.resolve())
        model, info = model_class.from_pretrained(
            pretrained, dtype=setting.param_dtype, attn_implementation=setting.attention, output_loading_info=True
        )
    mismatches = {key: info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]}
    if mismatches:
        raise ValueError(f"the weights do not match the model in transformers: {mismatches}")
    if setting.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


class SelectedPositions(nn.Module):
    """Model whose head computes logits only at selected positions, `[positions, classes or tokens]`.

    Logits at every position would take most of the time and memory. Positions are selected by `index_select`, because its gradient is a
    single `index_add`, whereas the gradient of `hidden[rows]` sorts the rows first.
    """

    def __init__(self, model, kind, by_classes):
        super().__init__()
        self.body, self.causal = model.base_model, kind in ("llama", "gpt2", "bloom")
        self.head = model.score if by_classes else model.lm_head if self.causal else model.cls

    def forward(self, ids, mask, rows):
        cache = {"use_cache": False} if self.causal else {}
        hidden = self.body(input_ids=ids, attention_mask=mask, **cache).last_hidden_state
        return self.head(hidden.flatten(0, 1).index_select(0, rows))


def deinterleave_rotary(weights, size):
    """Reorders query and key weights of each head from rotary pairs of adjacent rows to pairs (i, i + half), as in transformers."""
    for name, weight in weights.items():
        heads = size["num_attention_heads"] if "q_proj" in name else size["num_key_value_heads"]
        if "q_proj" in name or "k_proj" in name:
            rows, columns = weight.shape
            weights[name] = weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()


class Block(nn.Module):
    """Residual block with a shortcut without parameters (option A of arXiv 1512.03385): subsampling and channels of zeros."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsamples, self.extra_channels = stride == 2, outer - inner

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsamples:
            before = self.extra_channels // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, self.extra_channels - before))
        return F.relu(y + x)


class SmallResNet(nn.Module):
    """ResNet for CIFAR-10 (arXiv 1512.03385, section 4.2), with the parameter names of akamaster/pytorch_resnet_cifar10."""

    def __init__(self, depth, width, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        inner = width
        for stage in range(3):
            outer = width << stage
            strides = [2 if stage else 1] + [1] * ((depth - 2) // 6 - 1)
            blocks = [Block(inner if not at else outer, outer, stride) for at, stride in enumerate(strides)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inner = outer
        self.linear = nn.Linear(inner, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def small_resnet(size, classes, weights):
    return load_weights(SmallResNet(size["depth"], size["width"], classes), weights)


def large_resnet(size, classes, weights):
    depth = size["depth"]
    if size.get("width", 64) != 64 or not hasattr(torchvision.models, f"resnet{depth}"):
        raise UnsupportedSetting(f"torchvision does not have a ResNet of depth {depth} and width {size.get('width', 64)}")
    return load_weights(getattr(torchvision.models, f"resnet{depth}")(num_classes=classes), weights)


def load_weights(model, weights):
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise ValueError(f"the weights do not match the model: missing {missing}, unexpected {unexpected}")
    return model


def load_parts(folder, cell_file):
    """Loads the tensors of each part of the data set."""
    return {part: load_file(folder / cell_file[part]) for part in ("train", "validation", "test") if cell_file.get(part)}
