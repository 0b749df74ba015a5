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
    /// Returns the number of tokens whose keys and values are cached for every layer.
    pub(crate) fn tokens(&self) -> usize {
        let lengths = self.layers.values().map(|[keys, _]| keys.dims()[2]);
        lengths.min().unwrap_or(0)
    }

    /// Appends the keys and values of new tokens to those of a layer, and returns all of them.
    pub(super) fn append(&mut self, layer: &str, added: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
        let all = match self.layers.remove(layer) {
            Some([keys, values]) => {
                let [new_keys, new_values] = added;
                [[keys, new_keys], [values, new_values]].map(|parts| Tensor::cat(parts.to_vec(), 2))
            }
            None => added,
        };
        self.layers.insert(layer.to_owned(), all.clone());
        all
    }
}
