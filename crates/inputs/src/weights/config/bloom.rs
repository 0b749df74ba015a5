//! Configuration of BLOOM.

use mantissa_core::BloomSize;
use serde_json::Value;

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &[
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "offset_alibi",
    "seq_length",
    "skip_bias_add",
    "skip_bias_add_qkv",
];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> BloomSize {
    fields.only("apply_residual_connection_post_layernorm", false);
    fields.only("attention_softmax_in_fp32", true);
    fields.only("n_inner", Value::Null);
    fields.only("pretraining_tp", 1);
    fields.only("slow_but_exact", false);
    fields.only("tie_word_embeddings", true);
    // Older files use the names of GPT-2 or other names.
    let size_of = |names: [&str; 2]| match names.map(|name| fields.has(name)) {
        [true, true] => {
            let [size, other] = names.map(|name| fields.whole(name));
            if size != other {
                fields.problem(format!("`{}` is {size}, but `{}` is {other}", names[0], names[1]));
            }
            size
        }
        [false, true] => fields.whole(names[1]),
        _ => fields.whole(names[0]),
    };
    let (width, heads) = (
        size_of(["hidden_size", "n_embed"]),
        size_of(["n_head", "num_attention_heads"]),
    );
    fields.divides((width, "hidden_size"), (heads, "n_head"));
    BloomSize {
        vocab_size: fields.whole("vocab_size"),
        hidden_size: width,
        n_layer: size_of(["n_layer", "num_hidden_layers"]),
        n_head: heads,
        layer_norm_epsilon: fields.number_or("layer_norm_epsilon", 1e-5),
        hidden_dropout: fields.share_or("hidden_dropout", 0.0),
        attention_dropout: fields.share_or("attention_dropout", 0.0),
    }
}
