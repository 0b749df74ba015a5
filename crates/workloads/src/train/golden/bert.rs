//! Compares BERT with PyTorch and transformers. `peers/pytorch/golden/bert.py` computes and documents the expected numbers.

use super::{
    language::{ALL, Golden, PIECES, Target, size},
    *,
};
use crate::models::{Bert, TextHead};

fn golden(name: &str, target: Target) -> Golden<Bert> {
    Golden::new(name, target, |config| {
        let of_model = BertSize {
            hidden_size: size(config, "hidden_size"),
            num_hidden_layers: size(config, "num_hidden_layers"),
            num_attention_heads: size(config, "num_attention_heads"),
            intermediate_size: size(config, "intermediate_size"),
            max_position_embeddings: size(config, "max_position_embeddings"),
            hidden_dropout_prob: 0.0,
            attention_probs_dropout_prob: 0.0,
            layer_norm_eps: NORM_EPSILON,
        };
        let head = match target {
            Target::Class => TextHead::Classes(size(config, "num_labels")),
            Target::NextToken | Target::MaskedToken => TextHead::Tokens,
        };
        let model = Bert::new(of_model.clone(), size(config, "vocab_size"), head);
        (Model::Bert(of_model), model)
    })
}

fn language_model() -> Golden<Bert> {
    golden("bert-mlm", Target::MaskedToken)
}

fn classifier() -> Golden<Bert> {
    golden("bert-classes", Target::Class)
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
fn padding_is_not_read() {
    language_model().assert_padding_is_not_read();
    classifier().assert_padding_is_not_read();
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    language_model().assert_every_layer_follows_the_setting("bert+cls");
    classifier().assert_every_layer_follows_the_setting("bert+classifier");
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    language_model().assert_mixed_is_near_f32();
    classifier().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_does_not_change_any_bit() {
    language_model().assert_checkpointing_does_not_change_any_bit(&ALL);
    classifier().assert_checkpointing_does_not_change_any_bit(&PIECES);
}
