#!/usr/bin/env python3
"""Times text generation of a LLaMA of 110 million parameters (llama2.c's "110M", tied head) on the CPU, to compare with
Mantissa's `generate`.

Weights and prompt are random, so the text is meaningless, and no token ends it. The prompt is processed in one pass, then
each token in a separate pass, with a KV cache (transformers' DynamicCache). Only the logits of the last position are
computed, and the most likely token is chosen, as in `model.generate(do_sample=False)` but without its bookkeeping.
Attention is the default of transformers (`attention` in the output), or --attention.

`first_token_seconds` is the time from the prompt to the first token. The remaining tokens - 1 are decoded:
`seconds_per_token` is the median of all their passes over all repetitions. `decode_tokens_per_second` is the number of
decoded tokens of a text divided by their time, and `tokens_per_second` is the number of all tokens of a text divided by
the total time; both are medians over texts. One text is generated first without timing. With --batch, a pass covers all
prompts, and the tokens of all prompts count.

Progress goes to stderr, one JSON object to stdout.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache

CONFIG = {
    "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
    "num_attention_heads": 12, "num_key_value_heads": 12, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", type=int, default=64, help="number of tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=64, help="number of generated tokens, at least 2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["float64", "float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--attention", choices=["eager", "sdpa"], help="attention implementation (default: that of transformers)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if min(args.prompt, args.batch, args.repeats, args.tokens - 1) < 1:
        parser.error("--prompt, --batch and --repeats must be at least 1, --tokens at least 2")
    if args.prompt + args.tokens > CONFIG["max_position_embeddings"]:
        parser.error(f"--prompt plus --tokens exceeds the model's {CONFIG['max_position_embeddings']} positions")
    return args


def generate(model, prompt, tokens):
    """Returns the seconds of every pass, of which the first processes the prompt, and the generated tokens, [batch, tokens]."""
    cache = DynamicCache(config=model.config)
    input_ids, seconds, generated = prompt, [], []
    for _ in range(tokens):
        began = time.perf_counter()
        logits = model(input_ids=input_ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        input_ids = logits[:, -1].argmax(-1, keepdim=True)
        seconds.append(time.perf_counter() - began)
        generated.append(input_ids)
    return seconds, torch.cat(generated, 1)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(args.seed)
    options = {"attn_implementation": args.attention} if args.attention else {}
    model = LlamaForCausalLM._from_config(LlamaConfig(**CONFIG), dtype=getattr(torch, args.dtype), **options).eval()
    prompt = torch.randint(CONFIG["vocab_size"], (args.batch, args.prompt))

    _, expected = generate(model, prompt, args.tokens)
    texts = []
    for repeat in range(args.repeats):
        seconds, generated = generate(model, prompt, args.tokens)
        assert torch.equal(generated, expected), "the same prompt was continued differently"
        texts.append(seconds)
        print(f"text {repeat + 1}: first token after {seconds[0]:.3f} s, all in {sum(seconds):.3f} s", file=sys.stderr)

    decoded = args.batch * (args.tokens - 1)
    print(json.dumps({
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "config": CONFIG,
        "parameters": sum(p.numel() for p in model.parameters()),
        "dtype": args.dtype,
        "attention": model.config._attn_implementation,
        "threads": torch.get_num_threads(),
        "batch": args.batch,
        "prompt_tokens": args.prompt,
        "new_tokens": args.tokens,
        "repetitions": args.repeats,
        "first_token_seconds": statistics.median(text[0] for text in texts),
        "seconds_per_token": statistics.median(seconds for text in texts for seconds in text[1:]),
        "decode_tokens_per_second": statistics.median(decoded / sum(text[1:]) for text in texts),
        "tokens_per_second": statistics.median(args.batch * args.tokens / sum(text) for text in texts),
    }))


if __name__ == "__main__":
    main()
