//! Compares LLaMA with PyTorch and transformers. `peers/pytorch/golden/llama.py` computes and documents the expected numbers.

use mantissa_precision::ParameterSet;

use super::{
    language::{ALL, Golden, PIECES, Target, number, size},
    *,
};
use crate::models::Llama;

/// Names of the golden files. The first model has grouped-query attention and a separate head. The second model has an unusual head width, scaled
/// frequencies and a tied head.
const NAMES: [&str; 2] = ["llama-grouped", "llama-tied"];

fn of_model(config: &Value) -> LlamaSize {
    let heads = size(config, "num_attention_heads");
    let head_dim = config["head_dim"].as_u64().map(|width| width as u32);
    LlamaSize {
        vocab_size: size(config, "vocab_size"),
        hidden_size: size(config, "hidden_size"),
        intermediate_size: size(config, "intermediate_size"),
        num_hidden_layers: size(config, "num_hidden_layers"),
        num_attention_heads: heads,
        num_key_value_heads: size(config, "num_key_value_heads"),
        head_dim: head_dim.unwrap_or(size(config, "hidden_size") / heads),
        max_position_embeddings: size(config, "max_position_embeddings"),
        rms_norm_eps: number(config, "rms_norm_eps"),
        rope_theta: number(config, "rope_theta"),
        rope_scaling: serde_json::from_value(config["rope_scaling"].clone()).unwrap(),
        rope_interleaved: false,
        tie_word_embeddings: config["tie_word_embeddings"].as_bool().unwrap(),
    }
}

fn golden(name: &str) -> Golden<Llama> {
    Golden::new(name, Target::NextToken, |config| {
        let size = of_model(config);
        (Model::Llama(size.clone()), Llama::new(size))
    })
}

#[test]
fn logits_match_transformers() {
    for name in NAMES {
        golden(name).assert_logits();
    }
}

#[test]
fn loss_and_gradients_match_transformers() {
    for name in NAMES {
        golden(name).assert_loss_and_gradients();
    }
}

#[test]
fn greedy_decoding_matches_transformers_with_and_without_a_cache() {
    for name in NAMES {
        golden(name).assert_greedy_decoding();
    }
}

#[test]
fn padding_is_not_read() {
    for name in NAMES {
        golden(name).assert_padding_is_not_read();
    }
}

/// Reorders the rows of a query or key projection with heads of `width` rows, so that rows that are rotated together are adjacent.
fn interleaved_rows(values: &[f64], width: usize, columns: usize) -> Vec<f32> {
    let rows: Vec<&[f64]> = values.chunks(columns).collect();
    let heads = rows.chunks(width).flat_map(|head| {
        let (first, second) = head.split_at(width / 2);
        first.iter().zip(second).flat_map(|(a, b)| [*a, *b])
    });
    heads.flatten().map(|value| *value as f32).collect()
}

#[test]
fn interleaved_rope_reads_weights_in_metas_order() {
    for name in NAMES {
        let golden = golden(name);
        let logits_with = |permuted, interleaved| {
            golden.with(&[(Axis::Precision, "64-true")], |trainer| {
                let size = LlamaSize {
                    rope_interleaved: interleaved,
                    ..of_model(&golden.numbers["config"])
                };
                let (width, columns) = (size.head_dim as usize, size.hidden_size as usize);
                trainer.model = Llama::new(size);
                let specs = trainer.model.parameters();
                assert_eq!(specs.len(), trainer.parameters.len());
                let parts = specs.into_iter().zip(trainer.parameters.iter());
                let parts = parts.map(|(spec, (name, value))| {
                    assert_eq!(spec.name, name);
                    let values: Vec<f64> = value.clone().into_data().iter::<f64>().collect();
                    let is_rotated = name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight");
                    let values = match is_rotated && permuted {
                        true => interleaved_rows(&values, width, columns),
                        false => values.iter().map(|value| *value as f32).collect(),
                    };
                    (spec.name, spec.shape, values)
                });
                // The weights are f32 numbers, so the conversion is exact.
                let parts: Vec<_> = parts.collect();
                trainer.parameters = ParameterSet::new(parts, Format::F64, trainer.device);
                let parameters = trainer.working().freeze();
                let (logits, _) = trainer.predict(&parameters, &golden.everything());
                logits.into_data().iter::<f64>().collect::<Vec<_>>()
            })
        };
        let wanted = golden.wanted("float64");
        assert_close(&logits_with(true, true), &wanted, 1e-10, name);
        assert_close(&logits_with(false, false), &wanted, 1e-10, name);
        // Only permuting the weights, or only interleaving the rotation, results in a different model.
        for (permuted, interleaved) in [(true, false), (false, true)] {
            let got = logits_with(permuted, interleaved);
            assert!(
                got.iter().zip(&wanted).any(|(a, b)| (a - b).abs() > 1e-3),
                "{name}: permuted {permuted}, interleaved {interleaved}"
            );
        }
    }
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    for name in NAMES {
        golden(name).assert_every_layer_follows_the_setting("model+lm_head");
    }
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    for name in NAMES {
        golden(name).assert_mixed_is_near_f32();
    }
}

#[test]
fn checkpointing_does_not_change_any_bit() {
    golden("llama-grouped").assert_checkpointing_does_not_change_any_bit(&PIECES);
    golden("llama-tied").assert_checkpointing_does_not_change_any_bit(&ALL);
}
