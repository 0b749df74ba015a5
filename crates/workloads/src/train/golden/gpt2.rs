//! Compares GPT-2 with PyTorch and transformers. `peers/pytorch/golden/gpt2.py` computed the expected numbers and documents their meaning.

use super::{
    language::{ALL, Asked, Golden, number, size},
    *,
};
use crate::models::Gpt2;

fn golden() -> Golden<Gpt2> {
    dropping(0.0)
}

/// Returns the golden model with a dropout probability of `share`.
fn dropping(share: f64) -> Golden<Gpt2> {
    Golden::new("gpt2", Asked::Next, |config| {
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
fn logits_are_those_of_transformers() {
    golden().assert_logits();
}

#[test]
fn the_loss_and_every_gradient_are_those_of_transformers() {
    golden().assert_loss_and_gradients();
}

#[test]
fn greedy_decoding_is_that_of_transformers_with_a_cache_and_without() {
    golden().assert_writing();
}

#[test]
fn what_padding_holds_does_not_matter() {
    golden().assert_padding_is_not_read();
}

#[test]
fn every_layer_that_multiplies_follows_the_setting_and_can_be_kept_out_of_it() {
    golden().assert_every_layer_follows_the_setting("transformer+lm_head");
}

#[test]
fn a_mixed_setting_stays_near_f32_and_is_not_f32() {
    golden().assert_mixed_is_near_f32();
}

#[test]
fn checkpointing_changes_no_bit_and_drops_the_same_elements_again() {
    golden().assert_checkpointing_changes_no_bit(&ALL);
    dropping(0.3).assert_checkpointing_changes_no_bit(&ALL);
    let [plain, dropped] = [golden(), dropping(0.3)].map(|golden| golden.losses(&[], &ALL));
    assert_ne!(plain, dropped, "nothing was dropped");
}
