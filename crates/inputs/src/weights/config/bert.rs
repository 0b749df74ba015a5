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
    fields.require_value("hidden_act", "gelu");
    fields.require_value("type_vocab_size", 2);
    fields.require_value("pooler_type", "first_token_transform");
    fields.require_value("position_embedding_type", "absolute");
    fields.require_value("tie_word_embeddings", true);
    let dropout = fields.fraction_or("hidden_dropout_prob", 0.1);
    fields.require_value("classifier_dropout", dropout);
    let (width, heads) = (
        fields.positive_integer("hidden_size"),
        fields.positive_integer("num_attention_heads"),
    );
    fields.require_multiple((width, "hidden_size"), (heads, "num_attention_heads"));
    BertSize {
        hidden_size: width,
        num_hidden_layers: fields.positive_integer("num_hidden_layers"),
        num_attention_heads: heads,
        intermediate_size: fields.positive_integer("intermediate_size"),
        max_position_embeddings: fields.positive_integer_or("max_position_embeddings", 512),
        hidden_dropout_prob: dropout,
        attention_probs_dropout_prob: fields.fraction_or("attention_probs_dropout_prob", 0.1),
        layer_norm_eps: fields.number_or("layer_norm_eps", NORM_EPSILON),
    }
}
