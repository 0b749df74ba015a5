//! Compares BERT with PyTorch and transformers. `peers/pytorch/golden/bert.py` computed the expected numbers and documents their meaning.

use super::{
    language::{ALL, Asked, Golden, PIECES, size},
    *,
};
use crate::models::{Bert, TextHead};

fn golden(name: &str, asked: Asked) -> Golden<Bert> {
    Golden::new(name, asked, |config| {
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
        let head = match asked {
            Asked::Class => TextHead::Classes(size(config, "num_labels")),
            Asked::Next | Asked::Masked => TextHead::Words,
        };
        let model = Bert::new(of_model.clone(), size(config, "vocab_size"), head);
        (Model::Bert(of_model), model)
    })
}

fn words() -> Golden<Bert> {
    golden("bert-mlm", Asked::Masked)
}

fn classes() -> Golden<Bert> {
    golden("bert-classes", Asked::Class)
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
fn what_padding_holds_does_not_matter() {
    words().assert_padding_is_not_read();
    classes().assert_padding_is_not_read();
}

#[test]
fn every_layer_that_multiplies_follows_the_setting_and_can_be_kept_out_of_it() {
    words().assert_every_layer_follows_the_setting("bert+cls");
    classes().assert_every_layer_follows_the_setting("bert+classifier");
}

#[test]
fn a_mixed_setting_stays_near_f32_and_is_not_f32() {
    words().assert_mixed_is_near_f32();
    classes().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_changes_no_bit() {
    words().assert_checkpointing_changes_no_bit(&ALL);
    classes().assert_checkpointing_changes_no_bit(&PIECES);
}
