//! Configuration of Llama models.

use mantissa_core::{LlamaSize, RopeScaling};
use serde_json::{Map, Value};

use crate::weights::Fields;

/// Reads the size, and reports unsupported values.
pub(super) fn size(fields: &Fields<'_>) -> LlamaSize {
    fields.require_value("hidden_act", "silu");
    fields.require_value("attention_bias", false);
    fields.require_value("attention_dropout", 0.0);
    fields.require_value("mlp_bias", false);
    fields.require_value("pretraining_tp", 1);
    let (width, heads) = (
        fields.positive_integer("hidden_size"),
        fields.positive_integer("num_attention_heads"),
    );
    // transformers 5 writes `rope_theta` and the scaling into `rope_parameters`.
    let [new, old] = ["rope_parameters", "rope_scaling"].map(|name| {
        let value = fields.get(name)?;
        let table = value.as_object();
        if table.is_none() {
            fields.report(format!("`{name}` is {value}; expected a JSON object"));
        }
        table
    });
    if new.is_some() && old.is_some() && new != old {
        fields.report("`rope_parameters` and `rope_scaling` differ".to_owned());
    }
    let rope = new.or(old);
    let field = match new {
        Some(_) => "rope_parameters",
        None => "rope_scaling",
    };
    let top_level_theta = fields.number_or("rope_theta", 10_000.0);
    let theta = match rope.and_then(|rope| rope.get("rope_theta")) {
        None => top_level_theta,
        Some(theta) => theta.as_f64().unwrap_or_else(|| {
            fields.report(format!("`rope_theta` of `{field}` is {theta}; expected a number"));
            top_level_theta
        }),
    };
    if !(theta > 0.0 && theta.is_finite()) {
        fields.report(format!("`rope_theta` is {theta}; expected a number above 0"));
    }
    let kv_heads = fields.positive_integer_or("num_key_value_heads", heads);
    fields.require_multiple((heads, "num_attention_heads"), (kv_heads, "num_key_value_heads"));
    let head_dim = match fields.get("head_dim") {
        Some(_) => fields.positive_integer("head_dim"),
        None => {
            fields.require_multiple((width, "hidden_size"), (heads, "num_attention_heads"));
            width / heads
        }
    };
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        fields.report(format!(
            "the head dimension is {head_dim}; rotary embedding needs an even number above 0"
        ));
    }
    LlamaSize {
        vocab_size: fields.positive_integer("vocab_size"),
        hidden_size: width,
        intermediate_size: fields.positive_integer("intermediate_size"),
        num_hidden_layers: fields.positive_integer("num_hidden_layers"),
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim,
        max_position_embeddings: fields.positive_integer_or("max_position_embeddings", 2048),
        rms_norm_eps: fields.number_or("rms_norm_eps", 1e-6),
        rope_theta: theta,
        rope_scaling: rope.and_then(|rope| scaling(fields, field, rope)),
        rope_interleaved: false,
        tie_word_embeddings: fields.flag_or("tie_word_embeddings", false),
    }
}

/// Reads the scaling of rotary embedding from `rope`, the value of the field `field`.
fn scaling(fields: &Fields<'_>, field: &str, rope: &Map<String, Value>) -> Option<RopeScaling> {
    let report_unknown = |known: &[&str]| {
        for name in rope.keys().filter(|name| !known.contains(&name.as_str())) {
            fields.report(format!(
                "`{field}` contains the unknown field `{name}`, which may change results"
            ));
        }
    };
    let kind = match rope.get("rope_type").or_else(|| rope.get("type")) {
        None => None,
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(other) => {
            fields.report(format!("the type of `{field}` is {other}; expected a string"));
            return None;
        }
    };
    match kind {
        None | Some("default") => {
            report_unknown(&["rope_type", "type", "rope_theta"]);
            None
        }
        Some("llama3") => {
            let number = |name: &str| {
                let value = rope.get(name);
                let number = value
                    .and_then(Value::as_f64)
                    .filter(|x| x.is_finite() && *x > 0.0);
                number.unwrap_or_else(|| {
                    fields.report(match value {
                        Some(value) => {
                            format!("`{name}` of `{field}` is {value}; expected a number above 0")
                        }
                        None => format!("`{name}` of `{field}` is missing"),
                    });
                    1.0
                })
            };
            report_unknown(&[
                "rope_type",
                "type",
                "rope_theta",
                "factor",
                "low_freq_factor",
                "high_freq_factor",
                "original_max_position_embeddings",
            ]);
            let original = rope
                .get("original_max_position_embeddings")
                .and_then(Value::as_f64);
            if original.is_some_and(|original| original.fract() != 0.0) {
                fields.report(format!(
                    "`original_max_position_embeddings` of `{field}` is not an integer"
                ));
            }
            let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
            if low >= high {
                fields.report(format!(
                    "`low_freq_factor` {low} is not below `high_freq_factor` {high}"
                ));
            }
            Some(RopeScaling {
                factor: number("factor"),
                low_freq_factor: low,
                high_freq_factor: high,
                original_max_position_embeddings: number("original_max_position_embeddings") as u32,
            })
        }
        Some(other) => {
            fields.report(format!(
                "`{field}` has the type `{other}`; only `default` and `llama3` are supported"
            ));
            None
        }
    }
}
