//! Compares LLaMA with PyTorch and transformers. `peers/pytorch/golden/llama.py` computed the expected numbers and documents their meaning.

use mantissa_precision::ParameterSet;

use super::{
    language::{ALL, Asked, Golden, PIECES, number, size},
    *,
};
use crate::models::Llama;

/// Grouped-query attention with a separate head matrix; and heads of unusual width with scaled frequencies and a tied head.
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
    Golden::new(name, Asked::Next, |config| {
        let size = of_model(config);
        (Model::Llama(size.clone()), Llama::new(size))
    })
}

#[test]
fn logits_are_those_of_transformers() {
    for name in NAMES {
        golden(name).assert_logits();
    }
}

#[test]
fn the_loss_and_every_gradient_are_those_of_transformers() {
    for name in NAMES {
        golden(name).assert_loss_and_gradients();
    }
}

#[test]
fn greedy_decoding_is_that_of_transformers_with_a_cache_and_without() {
    for name in NAMES {
        golden(name).assert_writing();
    }
}

#[test]
fn what_padding_holds_does_not_matter() {
    for name in NAMES {
        golden(name).assert_padding_is_not_read();
    }
}

/// Reorders the rows of queries or keys, with heads of this width, so that rows that are rotated together are adjacent.
fn in_pairs(values: &[f64], width: usize, columns: usize) -> Vec<f32> {
    let rows: Vec<&[f64]> = values.chunks(columns).collect();
    let heads = rows.chunks(width).flat_map(|head| {
        let (first, second) = head.split_at(width / 2);
        first.iter().zip(second).flat_map(|(a, b)| [*a, *b])
    });
    heads.flatten().map(|value| *value as f32).collect()
}

#[test]
fn weights_in_metas_order_give_the_same_logits_where_neighbours_turn_together() {
    for name in NAMES {
        let golden = golden(name);
        let turned = |permuted, interleaved| {
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
                    let turns = name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight");
                    let values = match turns && permuted {
                        true => in_pairs(&values, width, columns),
                        false => values.iter().map(|value| *value as f32).collect(),
                    };
                    (spec.name, spec.shape, values)
                });
                // The weights are f32 numbers, so nothing is lost.
                let parts: Vec<_> = parts.collect();
                trainer.parameters = ParameterSet::new(parts, Format::F64, trainer.device);
                let parameters = trainer.working().freeze();
                let (logits, _) = trainer.predict(&parameters, &golden.everything());
                logits.into_data().iter::<f64>().collect::<Vec<_>>()
            })
        };
        let wanted = golden.wanted("float64");
        assert_close(&turned(true, true), &wanted, 1e-10, name);
        assert_close(&turned(false, false), &wanted, 1e-10, name);
        // One without the other is a different model.
        for (permuted, interleaved) in [(true, false), (false, true)] {
            let got = turned(permuted, interleaved);
            assert!(
                got.iter().zip(&wanted).any(|(a, b)| (a - b).abs() > 1e-3),
                "{name}"
            );
        }
    }
}

#[test]
fn every_layer_that_multiplies_follows_the_setting_and_can_be_kept_out_of_it() {
    for name in NAMES {
        golden(name).assert_every_layer_follows_the_setting("model+lm_head");
    }
}

#[test]
fn a_mixed_setting_stays_near_f32_and_is_not_f32() {
    for name in NAMES {
        golden(name).assert_mixed_is_near_f32();
    }
}

#[test]
fn checkpointing_changes_no_bit() {
    golden("llama-grouped").assert_checkpointing_changes_no_bit(&PIECES);
    golden("llama-tied").assert_checkpointing_changes_no_bit(&ALL);
}
