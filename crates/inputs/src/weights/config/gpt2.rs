//! Configuration of GPT-2.

use mantissa_core::Gpt2Size;

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &[
    "n_ctx",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> Gpt2Size {
    fields.require_value("activation_function", "gelu_new");
    fields.require_value("scale_attn_weights", true);
    fields.require_value("scale_attn_by_inverse_layer_idx", false);
    fields.require_value("reorder_and_upcast_attn", false);
    fields.require_value("tie_word_embeddings", true);
    let (n_embd, n_head) = (
        fields.positive_integer("n_embd"),
        fields.positive_integer("n_head"),
    );
    fields.require_multiple((n_embd, "n_embd"), (n_head, "n_head"));
    Gpt2Size {
        vocab_size: fields.positive_integer("vocab_size"),
        n_positions: fields.positive_integer_or("n_positions", 1024),
        n_embd,
        n_layer: fields.positive_integer("n_layer"),
        n_head,
        n_inner: fields.positive_integer_or("n_inner", n_embd.saturating_mul(4)),
        layer_norm_epsilon: fields.number_or("layer_norm_epsilon", 1e-5),
        embd_pdrop: fields.fraction_or("embd_pdrop", 0.1),
        attn_pdrop: fields.fraction_or("attn_pdrop", 0.1),
        resid_pdrop: fields.fraction_or("resid_pdrop", 0.1),
    }
}
