//! Transformer block in which every head has separate keys and values.

use super::Forward;
use crate::estimate::ledger::SavedTensor;

/// Transformer block in which every head has separate keys and values, unlike grouped-query attention.
pub(super) struct Block {
    /// Layers that project to queries, keys and values: three layers, or one fused layer.
    pub(super) projections: Vec<String>,
    /// Name of the attention matmuls in `keep_f32`.
    pub(super) attention: String,
    /// Output projection, and the two layers of the feed-forward part.
    pub(super) layers: [String; 3],
    pub(super) heads: u64,
    pub(super) width: u64,
    /// Width between the two feed-forward layers.
    pub(super) inner: u64,
    /// Dropout probabilities: of attention weights, and of the outputs of attention and feed-forward part.
    pub(super) dropout: [f64; 3],
}

impl Forward {
    /// Adds attention and its output projection.
    fn attend(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let values = tokens * block.width;
        let parts = match block.projections.as_slice() {
            [query, key, value] => [query, key, value].map(|layer| self.ledger.layer(hidden, layer, values)),
            // A view of the fused projection would keep the whole buffer in memory, so each part is a copy.
            layers => {
                let fused = self.ledger.layer(hidden, &layers[0], 3 * values);
                [(); 3].map(|()| self.ledger.part(fused, values))
            }
        };
        let scores = (tokens * block.heads * self.sequence, 1);
        let mixed = self
            .ledger
            .attention(parts, &block.attention, scores, block.dropout[0]);
        let attended = self.ledger.layer(mixed, &block.layers[0], values);
        self.ledger.dropout(attended, block.dropout[1])
    }

    /// Adds the feed-forward part: two layers with an activation between them.
    fn feed_forward(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let [_, first, second] = &block.layers;
        let wide = self.ledger.layer(hidden, first, tokens * block.inner);
        let wide = self.ledger.activation(wide);
        let narrow = self.ledger.layer(wide, second, tokens * block.width);
        self.ledger.dropout(narrow, block.dropout[2])
    }

    /// Adds a block with a norm after attention and after the feed-forward part.
    pub(super) fn post_norm(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let attended = self.attend(block, hidden);
        let sum = self.ledger.sum([attended, hidden]);
        let hidden = self.ledger.layer_norm(sum, tokens);
        let narrow = self.feed_forward(block, hidden);
        let sum = self.ledger.sum([narrow, hidden]);
        self.ledger.layer_norm(sum, tokens)
    }

    /// Adds a block with a norm before attention and before the feed-forward part.
    pub(super) fn pre_norm(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let normal = self.ledger.layer_norm(hidden, tokens);
        let attended = self.attend(block, normal);
        let hidden = self.ledger.sum([attended, hidden]);
        let normal = self.ledger.layer_norm(hidden, tokens);
        let narrow = self.feed_forward(block, normal);
        self.ledger.sum([narrow, hidden])
    }
}
