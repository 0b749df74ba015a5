//! Configuration of vision transformers (ViT).

use mantissa_core::{NORM_EPSILON, VitSize};

use crate::weights::Fields;

/// Fields that do not affect results.
pub(super) const IGNORED: &[&str] = &["encoder_stride", "pooler_act", "pooler_output_size"];

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> VitSize {
    fields.require_value("hidden_act", "gelu");
    fields.require_value("num_channels", 3);
    fields.require_value("qkv_bias", true);
    let (width, heads) = (
        fields.positive_integer("hidden_size"),
        fields.positive_integer("num_attention_heads"),
    );
    fields.require_multiple((width, "hidden_size"), (heads, "num_attention_heads"));
    let (image_size, patch_size) = (
        fields.positive_integer("image_size"),
        fields.positive_integer("patch_size"),
    );
    fields.require_multiple((image_size, "image_size"), (patch_size, "patch_size"));
    VitSize {
        image_size,
        patch_size,
        hidden_size: width,
        num_hidden_layers: fields.positive_integer("num_hidden_layers"),
        num_attention_heads: heads,
        intermediate_size: fields.positive_integer("intermediate_size"),
        hidden_dropout_prob: fields.fraction_or("hidden_dropout_prob", 0.0),
        attention_probs_dropout_prob: fields.fraction_or("attention_probs_dropout_prob", 0.0),
        layer_norm_eps: fields.number_or("layer_norm_eps", NORM_EPSILON),
    }
}
