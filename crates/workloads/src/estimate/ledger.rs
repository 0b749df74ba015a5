//! What each operation of a forward pass keeps for its backward pass: the states of the operations in `mantissa_precision`, and in burn's
//! autodiff the tensors that an operation checkpoints. An operation that is not here keeps nothing but shapes.

use mantissa_core::{Attention, Format, Precision, Setting};

use super::{bytes, of_products, wide};
use crate::models::Kept;

/// Bytes of an index on a device.
const INDEX: u64 = 4;
/// Bytes of a flag of a mask.
const FLAG: u64 = 1;

/// A tensor that a forward pass makes; copies of it are the same tensor, since clones and views share a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    number: usize,
    values: u64,
    format: Format,
}

impl Made {
    /// Bytes of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.values * bytes(self.format)
    }
}

/// A forward pass without its values.
pub(super) struct Ledger {
    precision: Precision,
    kept: Kept,
    attention: Attention,
    /// Whether each tensor that was made is kept.
    made: Vec<bool>,
    bytes: u64,
    /// Of the moments of batch norms, which are kept with checkpointing, too.
    moments: u64,
}

impl Ledger {
    pub(super) fn new(setting: &Setting, kept: Kept) -> Self {
        Self {
            precision: setting.precision(),
            kept,
            attention: setting.attention(),
            made: vec![],
            bytes: 0,
            moments: 0,
        }
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.moments
    }

    /// Bytes that checkpointing keeps beside hidden states.
    pub(super) fn moments(&self) -> u64 {
        self.moments
    }

    /// A new tensor.
    pub(super) fn tensor(&mut self, values: u64, format: Format) -> Made {
        self.made.push(false);
        Made {
            number: self.made.len() - 1,
            values,
            format,
        }
    }

    /// A new tensor in the parameters' format.
    pub(super) fn full(&mut self, values: u64) -> Made {
        self.tensor(values, self.precision.parameters())
    }

    /// A new tensor like another.
    fn like(&mut self, other: Made) -> Made {
        self.tensor(other.values, other.format)
    }

    /// Values of a tensor, gathered into a new one.
    pub(super) fn part(&mut self, of: Made, values: u64) -> Made {
        self.tensor(values, of.format)
    }

    /// A tensor in a format: a new one, unless it has it.
    fn cast(&mut self, input: Made, format: Format) -> Made {
        match input.format == format {
            true => input,
            false => self.tensor(input.values, format),
        }
    }

    /// Keeps a buffer, which is counted once.
    fn keep(&mut self, tensor: Made) {
        if !std::mem::replace(&mut self.made[tensor.number], true) {
            self.bytes += tensor.bytes();
        }
    }

    fn products(&self, layer: &str) -> Format {
        of_products(self.precision, self.kept.contains(layer))
    }

    /// The numbers of rows that are looked up.
    pub(super) fn indices(&mut self, count: u64) {
        self.bytes += count * INDEX;
    }

    /// A mask of so many flags.
    pub(super) fn mask(&mut self, flags: u64) {
        self.bytes += flags * FLAG;
    }

    /// Constants, f32 at least.
    pub(super) fn constants(&mut self, values: u64) {
        self.bytes += values * bytes(wide(self.precision.parameters()));
    }

    /// A layer with weights. The gradient of these needs its input, in the format of the products: a copy for each layer, where that is
    /// another one. The weights themselves are parameters or their copies.
    pub(super) fn layer(&mut self, input: Made, name: &str, values: u64) -> Made {
        let format = self.products(name);
        let input = self.cast(input, format);
        self.keep(input);
        self.tensor(values, format)
    }

    /// A layer whose weights are the table of words, of so many values: not copied with the others, since it is looked up as it is.
    pub(super) fn tied(&mut self, input: Made, name: &str, (values, table): (u64, u64)) -> Made {
        let format = self.products(name);
        if format != self.precision.parameters() {
            self.bytes += table * bytes(format);
        }
        self.layer(input, name, values)
    }

    /// Attention with so many `scores`, of queries, keys and values that are repeated for `group` heads each in the fused kernel.
    pub(super) fn attention(
        &mut self,
        [query, key, value]: [Made; 3],
        name: &str,
        (scores, group): (u64, u64),
        dropout: f64,
    ) -> Made {
        let format = self.products(name);
        // The first product keeps queries and keys, the second one values; the one kernel keeps all three.
        let inputs = match self.attention {
            Attention::Fused if group > 1 => {
                let repeated = [key, value].map(|part| self.tensor(part.values * group, part.format));
                [query, repeated[0], repeated[1]]
            }
            _ => [query, key, value],
        };
        for input in inputs {
            let input = self.cast(input, format);
            self.keep(input);
        }
        if self.attention == Attention::Math {
            // A softmax keeps its output, in the parameters' format, and the second product its operand.
            let weights = self.full(scores);
            self.keep(weights);
            let weights = self.dropout(weights, dropout);
            let weights = self.cast(weights, format);
            self.keep(weights);
        }
        self.tensor(query.values, format)
    }

    /// Dropout keeps what it dropped.
    pub(super) fn dropout(&mut self, input: Made, share: f64) -> Made {
        if share == 0.0 {
            return input;
        }
        self.mask(input.values);
        self.like(input)
    }

    /// A layer norm of some rows keeps its input, means and inverse deviations.
    pub(super) fn layer_norm(&mut self, input: Made, rows: u64) -> Made {
        self.norm(input, 2 * rows)
    }

    /// A root-mean-square norm of some rows keeps its input and inverse roots.
    pub(super) fn rms_norm(&mut self, input: Made, rows: u64) -> Made {
        self.norm(input, rows)
    }

    fn norm(&mut self, input: Made, statistics: u64) -> Made {
        let input = self.cast(input, self.precision.parameters());
        self.keep(input);
        self.constants(statistics);
        self.like(input)
    }

    /// GELU, a hyperbolic tangent and a rectifier keep their input.
    pub(super) fn activation(&mut self, input: Made) -> Made {
        self.keep(input);
        self.like(input)
    }

    /// A sigmoid linear unit is a product of its input with a sigmoid, in f32 at least: both are kept. In f64 it is a quotient, which keeps
    /// what is exponentiated, too.
    pub(super) fn silu(&mut self, input: Made) -> Made {
        let wide = self.cast(input, wide(input.format));
        self.keep(wide);
        let others = if input.format == Format::F64 { 2 } else { 1 };
        for _ in 0..others {
            let other = self.like(wide);
            self.keep(other);
        }
        self.like(input)
    }

    /// A product of elements keeps both factors.
    pub(super) fn product(&mut self, factors: [Made; 2]) -> Made {
        let format = widest(factors);
        let [a, b] = factors.map(|factor| self.cast(factor, format));
        self.keep(a);
        self.keep(b);
        self.like(a)
    }

    /// A sum keeps nothing.
    pub(super) fn sum(&mut self, terms: [Made; 2]) -> Made {
        self.tensor(terms[0].values, widest(terms))
    }

    /// What makes a tensor of another one in the same format and keeps nothing of it, as rotary embeddings do.
    pub(super) fn moved(&mut self, input: Made) -> Made {
        self.like(input)
    }

    /// A batch norm of so many channels is burn's own operations, in f32 at least: a quotient keeps what is centred, the product with
    /// the scale what is normalised; per channel there are a variance and its root, and the moments for running statistics.
    pub(super) fn batch_norm(&mut self, images: Made, channels: u64) -> Made {
        let wide = wide(images.format);
        for _ in 0..2 {
            let rows = self.tensor(images.values, wide);
            self.keep(rows);
        }
        self.bytes += 2 * channels * bytes(wide);
        self.moments += 2 * channels * bytes(wide);
        self.like(images)
    }

    /// The largest of each window, of which there are so many: its input, in f32 at least, and where they were.
    pub(super) fn max_pool(&mut self, images: Made, windows: u64) -> Made {
        let wide = self.cast(images, wide(images.format));
        self.keep(wide);
        self.indices(windows);
        self.part(images, windows)
    }

    /// Cross-entropy of some rows: an exponential keeps all logits less the largest of a row, in f32 at least, a logarithm their sum, a
    /// gathering the labels.
    pub(super) fn cross_entropy(&mut self, logits: Made, rows: u64) {
        self.constants(logits.values + rows);
        self.indices(rows);
    }
}

/// The wider one of two formats.
fn widest([a, b]: [Made; 2]) -> Format {
    match a.format.storage_bytes() >= b.format.storage_bytes() {
        true => a.format,
        false => b.format,
    }
}
