//! Configuration of DistilBERT.

use mantissa_core::DistilBertSize;

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &["qa_dropout", "tie_weights_"];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> DistilBertSize {
    fields.require_value("activation", "gelu");
    fields.require_value("tie_word_embeddings", true);
    fields.require_value("sinusoidal_pos_embds", false);
    let (dim, n_heads) = (fields.positive_integer("dim"), fields.positive_integer("n_heads"));
    fields.require_multiple((dim, "dim"), (n_heads, "n_heads"));
    DistilBertSize {
        n_layers: fields.positive_integer("n_layers"),
        dim,
        n_heads,
        hidden_dim: fields.positive_integer("hidden_dim"),
        max_position_embeddings: fields.positive_integer_or("max_position_embeddings", 512),
        dropout: fields.fraction_or("dropout", 0.1),
        attention_dropout: fields.fraction_or("attention_dropout", 0.1),
        seq_classif_dropout: fields.fraction_or("seq_classif_dropout", 0.2),
    }
}
