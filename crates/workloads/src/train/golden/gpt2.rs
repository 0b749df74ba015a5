//! Compares GPT-2 with PyTorch and transformers. `peers/pytorch/golden/gpt2.py` computes and documents the expected numbers.

use super::{
    language::{ALL, Golden, Target, number, size},
    *,
};
use crate::models::Gpt2;

fn golden() -> Golden<Gpt2> {
    with_dropout(0.0)
}

/// Returns the model in the golden file, with a dropout probability of `share`.
fn with_dropout(share: f64) -> Golden<Gpt2> {
    Golden::new("gpt2", Target::NextToken, |config| {
        let size = Gpt2Size {
            vocab_size: size(config, "vocab_size"),
            n_positions: size(config, "n_positions"),
            n_embd: size(config, "n_embd"),
            n_layer: size(config, "n_layer"),
            n_head: size(config, "n_head"),
            // The configuration omits the inner width if it is four times the width.
            n_inner: 4 * size(config, "n_embd"),
            layer_norm_epsilon: number(config, "layer_norm_epsilon"),
            embd_pdrop: share,
            attn_pdrop: share,
            resid_pdrop: share,
        };
        (Model::Gpt2(size.clone()), Gpt2::new(size))
    })
}

#[test]
fn logits_match_transformers() {
    golden().assert_logits();
}

#[test]
fn loss_and_gradients_match_transformers() {
    golden().assert_loss_and_gradients();
}

#[test]
fn greedy_decoding_matches_transformers_with_and_without_a_cache() {
    golden().assert_greedy_decoding();
}

#[test]
fn padding_is_not_read() {
    golden().assert_padding_is_not_read();
}

#[test]
fn every_layer_follows_the_setting_unless_it_is_kept_in_f32() {
    golden().assert_every_layer_follows_the_setting("transformer+lm_head");
}

#[test]
fn mixed_precision_losses_are_close_to_f32() {
    golden().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_does_not_change_any_bit_with_and_without_dropout() {
    golden().assert_checkpointing_does_not_change_any_bit(&ALL);
    with_dropout(0.3).assert_checkpointing_does_not_change_any_bit(&ALL);
    let [plain, dropped] = [golden(), with_dropout(0.3)].map(|golden| golden.losses(&[], &ALL));
    assert_ne!(plain, dropped, "dropout does not change the losses");
}
