//! Compares BLOOM with PyTorch and transformers. `peers/pytorch/golden/bloom.py` computed the expected numbers and documents their meaning.

use super::{
    language::{ALL, Asked, Golden, PIECES, number, size},
    *,
};
use crate::models::{Bloom, TextHead};

fn golden(name: &str, asked: Asked, share: f64) -> Golden<Bloom> {
    Golden::new(name, asked, |config| {
        let of_model = BloomSize {
            vocab_size: size(config, "vocab_size"),
            hidden_size: size(config, "hidden_size"),
            n_layer: size(config, "n_layer"),
            n_head: size(config, "n_head"),
            layer_norm_epsilon: number(config, "layer_norm_epsilon"),
            hidden_dropout: share,
            attention_dropout: share,
        };
        let head = match asked {
            Asked::Class => TextHead::Classes(size(config, "num_labels")),
            Asked::Next | Asked::Masked => TextHead::Words,
        };
        (Model::Bloom(of_model.clone()), Bloom::new(of_model, head))
    })
}

fn words() -> Golden<Bloom> {
    golden("bloom-lm", Asked::Next, 0.0)
}

fn classes() -> Golden<Bloom> {
    golden("bloom-classes", Asked::Class, 0.0)
}

#[test]
fn logits_are_those_of_transformers() {
    words().assert_logits();
    classes().assert_logits();
}

#[test]
fn the_loss_and_every_gradient_are_those_of_transformers() {
    words().assert_loss_and_gradients();
    classes().assert_loss_and_gradients();
}

#[test]
fn greedy_decoding_is_that_of_transformers_with_a_cache_and_without() {
    words().assert_writing();
}

#[test]
fn what_padding_holds_does_not_matter() {
    words().assert_padding_is_not_read();
    classes().assert_padding_is_not_read();
}

#[test]
fn every_layer_that_multiplies_follows_the_setting_and_can_be_kept_out_of_it() {
    words().assert_every_layer_follows_the_setting("transformer+lm_head");
    classes().assert_every_layer_follows_the_setting("transformer+score");
}

#[test]
fn a_mixed_setting_stays_near_f32_and_is_not_f32() {
    words().assert_mixed_is_near_f32();
    classes().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_changes_no_bit_and_drops_the_same_elements_again() {
    classes().assert_checkpointing_changes_no_bit(&PIECES);
    let (plain, dropping) = (words(), golden("bloom-lm", Asked::Next, 0.3));
    plain.assert_checkpointing_changes_no_bit(&ALL);
    dropping.assert_checkpointing_changes_no_bit(&ALL);
    let [plain, dropped] = [plain, dropping].map(|golden| golden.losses(&[], &ALL));
    assert_ne!(plain, dropped, "nothing was dropped");
}
