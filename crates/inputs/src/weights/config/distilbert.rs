//! Configuration of DistilBERT.

use mantissa_core::DistilBertSize;

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &["qa_dropout", "tie_weights_"];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> DistilBertSize {
    fields.only("activation", "gelu");
    fields.only("tie_word_embeddings", true);
    fields.only("sinusoidal_pos_embds", false);
    let (dim, n_heads) = (fields.whole("dim"), fields.whole("n_heads"));
    fields.divides((dim, "dim"), (n_heads, "n_heads"));
    DistilBertSize {
        n_layers: fields.whole("n_layers"),
        dim,
        n_heads,
        hidden_dim: fields.whole("hidden_dim"),
        max_position_embeddings: fields.whole_or("max_position_embeddings", 512),
        dropout: fields.share_or("dropout", 0.1),
        attention_dropout: fields.share_or("attention_dropout", 0.1),
        seq_classif_dropout: fields.share_or("seq_classif_dropout", 0.2),
    }
}
