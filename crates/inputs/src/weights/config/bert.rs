//! Configuration of BERT.

use mantissa_core::{BertSize, NORM_EPSILON};

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &[
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> BertSize {
    fields.only("hidden_act", "gelu");
    fields.only("type_vocab_size", 2);
    fields.only("pooler_type", "first_token_transform");
    fields.only("position_embedding_type", "absolute");
    fields.only("tie_word_embeddings", true);
    let dropout = fields.share_or("hidden_dropout_prob", 0.1);
    fields.only("classifier_dropout", dropout);
    let (width, heads) = (fields.whole("hidden_size"), fields.whole("num_attention_heads"));
    fields.divides((width, "hidden_size"), (heads, "num_attention_heads"));
    BertSize {
        hidden_size: width,
        num_hidden_layers: fields.whole("num_hidden_layers"),
        num_attention_heads: heads,
        intermediate_size: fields.whole("intermediate_size"),
        max_position_embeddings: fields.whole_or("max_position_embeddings", 512),
        hidden_dropout_prob: dropout,
        attention_probs_dropout_prob: fields.share_or("attention_probs_dropout_prob", 0.1),
        layer_norm_eps: fields.number_or("layer_norm_eps", NORM_EPSILON),
    }
}
