//! Key-value cache of generation.

use std::collections::BTreeMap;

use burn::tensor::Tensor;

/// Keys and values of the tokens read so far, by layer, in the format in which they were computed.
#[derive(Default)]
pub(crate) struct KvCache {
    /// Keys and values, each `[n, key-value heads, tokens, width]`.
    layers: BTreeMap<String, [Tensor<4>; 2]>,
}

impl KvCache {
    /// Returns the number of tokens that every layer has read.
    pub(crate) fn tokens(&self) -> usize {
        let lengths = self.layers.values().map(|[keys, _]| keys.dims()[2]);
        lengths.min().unwrap_or(0)
    }

    /// Appends the keys and values of new tokens to those of a layer, and returns all of them.
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
