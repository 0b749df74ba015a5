//! What attention needs of the tokens that were read already.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

/// Keys and values of the tokens so far, by layer, in the format in which they were computed.
#[derive(Default)]
pub(crate) struct KvCache {
    /// Each `[n, heads of keys, tokens, width]`.
    layers: BTreeMap<String, [Tensor<4>; 2]>,
}

impl KvCache {
    /// Tokens that every layer has seen.
    pub(crate) fn tokens(&self) -> usize {
        let lengths = self.layers.values().map(|[keys, _]| keys.dims()[2]);
        lengths.min().unwrap_or(0)
    }

    /// Keys and values of a layer, those of new tokens at their end.
    pub(super) fn extended(&mut self, layer: &str, new: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        let all = match self.layers.remove(layer) {
            Some([keys, values]) => {
                let [new_keys, new_values] = new;
                [[keys, new_keys], [values, new_values]].map(|parts| Tensor::cat(parts.to_vec(), 2))
            }
            None => new,
        };
        self.layers.insert(layer.to_owned(), all.clone());
        all
    }
}
