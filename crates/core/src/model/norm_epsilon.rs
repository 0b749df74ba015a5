//! Default epsilon of layer norms. Most checkpoints do not set the epsilon.

/// Default epsilon of the layer norms of BERT, DistilBERT and ViT.
pub const NORM_EPSILON: f64 = 1e-12;

pub(super) const fn norm_epsilon() -> f64 {
    NORM_EPSILON
}

pub(super) fn is_norm_epsilon(epsilon: &f64) -> bool {
    *epsilon == NORM_EPSILON
}
