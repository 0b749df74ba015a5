//! Compares BLOOM with PyTorch and transformers. `peers/pytorch/golden/bloom.py` computes and documents the expected numbers.

use super::{
    language::{ALL, Golden, PIECES, Target, number, size},
    *,
};
use crate::models::{Bloom, TextHead};

fn golden(name: &str, target: Target, share: f64) -> Golden<Bloom> {
    Golden::new(name, target, |config| {
        let of_model = BloomSize {
            vocab_size: size(config, "vocab_size"),
            hidden_size: size(config, "hidden_size"),
            n_layer: size(config, "n_layer"),
            n_head: size(config, "n_head"),
            layer_norm_epsilon: number(config, "layer_norm_epsilon"),
            hidden_dropout: share,
            attention_dropout: share,
        };
        let head = match target {
            Target::Class => TextHead::Classes(size(config, "num_labels")),
            Target::NextToken | Target::MaskedToken => TextHead::Tokens,
        };
        (Model::Bloom(of_model.clone()), Bloom::new(of_model, head))
    })
}

fn language_model() -> Golden<Bloom> {
    golden("bloom-lm", Target::NextToken, 0.0)
}

fn classifier() -> Golden<Bloom> {
    golden("bloom-classes", Target::Class, 0.0)
}

#[test]
fn logits_match_transformers() {
    language_model().assert_logits();
    classifier().assert_logits();
}

#[test]
fn loss_and_gradients_match_transformers() {
    language_model().assert_loss_and_gradients();
    classifier().assert_loss_and_gradients();
}

#[test]
fn greedy_decoding_matches_transformers_with_and_without_a_cache() {
    language_model().assert_greedy_decoding();
}

#[test]
fn padding_is_not_read() {
    language_model().assert_padding_is_not_read();
    classifier().assert_padding_is_not_read();
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    language_model().assert_every_layer_follows_the_setting("transformer+lm_head");
    classifier().assert_every_layer_follows_the_setting("transformer+score");
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    language_model().assert_mixed_is_near_f32();
    classifier().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_does_not_change_any_bit_with_and_without_dropout() {
    classifier().assert_checkpointing_does_not_change_any_bit(&PIECES);
    let (plain, dropping) = (language_model(), golden("bloom-lm", Target::NextToken, 0.3));
    plain.assert_checkpointing_does_not_change_any_bit(&ALL);
    dropping.assert_checkpointing_does_not_change_any_bit(&ALL);
    let [plain, dropped] = [plain, dropping].map(|golden| golden.losses(&[], &ALL));
    assert_ne!(plain, dropped, "dropout does not change the losses");
}
