//! Masks and biases of attention.

use burn::tensor::{Bool, Device, Int, Tensor};

/// Mask of attention, and a bias that is added to the scores.
#[derive(Debug, Clone)]
pub struct AttentionMask {
    /// True where a key is hidden from a query; broadcasts to `[n, heads, queries, keys]`.
    hidden: Option<Tensor<4, Bool>>,
    /// Bias added to scaled scores, `[1, heads, 1, keys]`.
    bias: Option<Tensor<4>>,
}

impl AttentionMask {
    /// Returns a mask under which every query attends to every key.
    pub const fn unmasked() -> Self {
        Self {
            hidden: None,
            bias: None,
        }
    }

    /// Returns a mask that hides padding. A key is hidden from all queries of its sequence if its element of `padding`, `[n, keys]`, is true.
    pub fn padded(padding: &Tensor<2, Bool>) -> Self {
        let [n, keys] = padding.dims();
        Self {
            hidden: Some(padding.clone().reshape([n, 1, 1, keys])),
            bias: None,
        }
    }

    /// Returns a causal mask. The queries are at the positions of the last keys, and each query attends to the keys up to its own
    /// position.
    ///
    /// # Panics
    /// If there are more queries than keys.
    pub fn causal(queries: usize, keys: usize, device: &Device) -> Self {
        let first = keys
            .checked_sub(queries)
            .expect("causal attention needs at least as many keys as queries");
        // A single query is at the last position and attends to all keys.
        let hidden = (queries > 1).then(|| {
            let positions = |range: std::ops::Range<usize>| {
                Tensor::<1, Int>::arange(range.start as i64..range.end as i64, device)
            };
            let query_positions = positions(first..keys).reshape([1, 1, queries, 1]);
            let key_positions = positions(0..keys).reshape([1, 1, 1, keys]);
            let shape = [1, 1, queries, keys];
            key_positions.expand(shape).greater(query_positions.expand(shape))
        });
        Self { hidden, bias: None }
    }

    /// Returns the same mask with a `bias` `[heads, keys]` that is added to scaled scores.
    #[must_use]
    pub fn biased(self, bias: Tensor<2>) -> Self {
        let [heads, keys] = bias.dims();
        Self {
            bias: Some(bias.reshape([1, heads, 1, keys])),
            ..self
        }
    }

    /// Returns false if the mask was created without hidden keys. Every query then attends to every key.
    pub(crate) fn hides_keys(&self) -> bool {
        self.hidden.is_some()
    }

    pub(crate) fn bias(&self) -> Option<&Tensor<4>> {
        self.bias.as_ref()
    }

    /// Returns the mask `[n, heads, queries, keys]`, true where a key is hidden from a query.
    pub(crate) fn hidden(&self, shape: [usize; 4], device: &Device) -> Tensor<4, Bool> {
        match &self.hidden {
            Some(hidden) => hidden.clone().expand(shape),
            None => Tensor::<4, Bool>::full(shape, false, device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_causal_mask_hides_later_keys() {
        let device = Device::flex();
        let hidden = |queries, keys| {
            let mask = AttentionMask::causal(queries, keys, &device);
            let hidden = mask.hidden([1, 1, queries, keys], &device);
            hidden.into_data().iter::<bool>().collect::<Vec<_>>()
        };
        let (t, f) = (true, false);
        assert_eq!(hidden(3, 3), [f, t, t, f, f, t, f, f, f]);
        assert_eq!(hidden(2, 4), [f, f, f, t, f, f, f, f]);
        assert_eq!(hidden(1, 4), [f; 4]);
        assert!(!AttentionMask::causal(1, 4, &device).hides_keys());
    }
}
