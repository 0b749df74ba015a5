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
    fields.require_value("apply_residual_connection_post_layernorm", false);
    fields.require_value("attention_softmax_in_fp32", true);
    fields.require_value("n_inner", Value::Null);
    fields.require_value("pretraining_tp", 1);
    fields.require_value("slow_but_exact", false);
    fields.require_value("tie_word_embeddings", true);
    // Some sizes have two field names. If a file contains both fields, their values must be equal.
    let integer_by_either_name = |names: [&str; 2]| match names.map(|name| fields.has(name)) {
        [true, true] => {
            let [size, other] = names.map(|name| fields.positive_integer(name));
            if size != other {
                fields.report(format!("`{}` is {size}, but `{}` is {other}", names[0], names[1]));
            }
            size
        }
        [false, true] => fields.positive_integer(names[1]),
        _ => fields.positive_integer(names[0]),
    };
    let (width, heads) = (
        integer_by_either_name(["hidden_size", "n_embed"]),
        integer_by_either_name(["n_head", "num_attention_heads"]),
    );
    fields.require_multiple((width, "hidden_size"), (heads, "n_head"));
    BloomSize {
        vocab_size: fields.positive_integer("vocab_size"),
        hidden_size: width,
        n_layer: integer_by_either_name(["n_layer", "num_hidden_layers"]),
        n_head: heads,
        layer_norm_epsilon: fields.number_or("layer_norm_epsilon", 1e-5),
        hidden_dropout: fields.fraction_or("hidden_dropout", 0.0),
        attention_dropout: fields.fraction_or("attention_dropout", 0.0),
    }
}
