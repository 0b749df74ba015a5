//! Counts the tensors that each operation of a forward pass saves for the backward pass. The saved tensors are the states of the operations in
//! `mantissa_precision`, and the tensors that burn's autodiff checkpoints for an operation. Operations without a method here save only shapes.

use mantissa_core::{Attention, Format, Precision, Setting};

use super::formats::{bytes, matmul_format, wide};
use crate::models::F32Layers;

/// Bytes of an index on a device.
const INDEX: u64 = 4;
/// Bytes of a mask element.
const FLAG: u64 = 1;

/// Tensor that a forward pass computes. Clones and views share its buffer, so they count as the same tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedTensor {
    number: usize,
    values: u64,
    format: Format,
}

impl SavedTensor {
    /// Returns the bytes of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.values * bytes(self.format)
    }
}

/// Counter of the bytes that a forward pass saves. It computes shapes, but no values.
pub(super) struct SavedTensors {
    precision: Precision,
    f32_layers: F32Layers,
    attention: Attention,
    /// For each computed tensor, true if it is saved.
    is_saved: Vec<bool>,
    bytes: u64,
    /// Bytes of the batch-norm moments, which are saved even with checkpointing.
    moments: u64,
}

impl SavedTensors {
    pub(super) fn new(setting: &Setting, f32_layers: F32Layers) -> Self {
        Self {
            precision: setting.precision(),
            f32_layers,
            attention: setting.attention(),
            is_saved: vec![],
            bytes: 0,
            moments: 0,
        }
    }

    /// Returns the number of saved bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.moments
    }

    /// Returns the bytes of the batch-norm moments, which checkpointing saves in addition to hidden states.
    pub(super) fn moments(&self) -> u64 {
        self.moments
    }

    /// Returns a new tensor.
    pub(super) fn tensor(&mut self, values: u64, format: Format) -> SavedTensor {
        self.is_saved.push(false);
        SavedTensor {
            number: self.is_saved.len() - 1,
            values,
            format,
        }
    }

    /// Returns a new tensor in the format of the parameters.
    pub(super) fn full(&mut self, values: u64) -> SavedTensor {
        self.tensor(values, self.precision.parameters())
    }

    /// Returns a new tensor with the size and format of another.
    fn like(&mut self, other: SavedTensor) -> SavedTensor {
        self.tensor(other.values, other.format)
    }

    /// Returns a new tensor of `values` values gathered from another tensor.
    pub(super) fn part(&mut self, of: SavedTensor, values: u64) -> SavedTensor {
        self.tensor(values, of.format)
    }

    /// Casts a tensor. Returns a new tensor if the format differs.
    fn cast(&mut self, input: SavedTensor, format: Format) -> SavedTensor {
        match input.format == format {
            true => input,
            false => self.tensor(input.values, format),
        }
    }

    /// Saves a buffer. Each buffer is counted once.
    fn save(&mut self, tensor: SavedTensor) {
        if !std::mem::replace(&mut self.is_saved[tensor.number], true) {
            self.bytes += tensor.bytes();
        }
    }

    fn matmul_format(&self, layer: &str) -> Format {
        matmul_format(self.precision, self.f32_layers.contains(layer))
    }

    /// Saves the indices of an embedding lookup.
    pub(super) fn indices(&mut self, count: u64) {
        self.bytes += count * INDEX;
    }

    /// Saves a mask.
    pub(super) fn mask(&mut self, flags: u64) {
        self.bytes += flags * FLAG;
    }

    /// Saves constants, in at least f32.
    pub(super) fn constants(&mut self, values: u64) {
        self.bytes += values * bytes(wide(self.precision.parameters()));
    }

    /// Adds a layer with weights. The weight gradient needs the input in the matmul format. If the input has another format, each layer saves its
    /// own cast copy. The weights are already counted as parameters or low-precision copies.
    pub(super) fn layer(&mut self, input: SavedTensor, name: &str, values: u64) -> SavedTensor {
        let format = self.matmul_format(name);
        let input = self.cast(input, format);
        self.save(input);
        self.tensor(values, format)
    }

    /// Adds a layer whose weights are the embedding table, which has `table` values. Lookups read the original table, so the cached low-precision
    /// copies do not contain it. A cast of the table is therefore counted here.
    pub(super) fn tied_layer(
        &mut self,
        input: SavedTensor,
        name: &str,
        (values, table): (u64, u64),
    ) -> SavedTensor {
        let format = self.matmul_format(name);
        if format != self.precision.parameters() {
            self.bytes += table * bytes(format);
        }
        self.layer(input, name, values)
    }

    /// Adds attention with `scores` attention scores. The fused kernel repeats each key and value for each of the `group` query heads that share
    /// it.
    pub(super) fn attention(
        &mut self,
        [query, key, value]: [SavedTensor; 3],
        name: &str,
        (scores, group): (u64, u64),
        dropout: f64,
    ) -> SavedTensor {
        let format = self.matmul_format(name);
        // The first matmul saves queries and keys, the second one values. The fused kernel saves all three.
        let inputs = match self.attention {
            Attention::Fused if group > 1 => {
                let repeated = [key, value].map(|part| self.tensor(part.values * group, part.format));
                [query, repeated[0], repeated[1]]
            }
            _ => [query, key, value],
        };
        for input in inputs {
            let input = self.cast(input, format);
            self.save(input);
        }
        if self.attention == Attention::Math {
            // The softmax saves its output in the format of the parameters, and the second matmul saves its operand in the matmul format.
            let weights = self.full(scores);
            self.save(weights);
            let weights = self.dropout(weights, dropout);
            let weights = self.cast(weights, format);
            self.save(weights);
        }
        self.tensor(query.values, format)
    }

    /// Adds dropout. The backward pass computes the mask again.
    pub(super) fn dropout(&mut self, input: SavedTensor, share: f64) -> SavedTensor {
        if share == 0.0 {
            return input;
        }
        self.like(input)
    }

    /// Adds a layer norm over `rows` rows, which saves its input, means and inverse standard deviations.
    pub(super) fn layer_norm(&mut self, input: SavedTensor, rows: u64) -> SavedTensor {
        self.norm(input, 2 * rows)
    }

    /// Adds an RMS norm over `rows` rows, which saves its input and the inverse root mean squares.
    pub(super) fn rms_norm(&mut self, input: SavedTensor, rows: u64) -> SavedTensor {
        self.norm(input, rows)
    }

    fn norm(&mut self, input: SavedTensor, statistics: u64) -> SavedTensor {
        let input = self.cast(input, self.precision.parameters());
        self.save(input);
        self.constants(statistics);
        self.like(input)
    }

    /// Adds a GELU, tanh or ReLU, which saves its input.
    pub(super) fn activation(&mut self, input: SavedTensor) -> SavedTensor {
        self.save(input);
        self.like(input)
    }

    /// Adds a SiLU: the product of the input and the sigmoid of the input, in at least f32. Input and sigmoid are saved. In f64, the
    /// sigmoid is computed as a quotient, which also saves the exponential.
    pub(super) fn silu(&mut self, input: SavedTensor) -> SavedTensor {
        let wide = self.cast(input, wide(input.format));
        self.save(wide);
        let others = if input.format == Format::F64 { 2 } else { 1 };
        for _ in 0..others {
            let other = self.like(wide);
            self.save(other);
        }
        self.like(input)
    }

    /// Adds an element-wise product, which saves both factors.
    pub(super) fn product(&mut self, factors: [SavedTensor; 2]) -> SavedTensor {
        let format = widest(factors);
        let [a, b] = factors.map(|factor| self.cast(factor, format));
        self.save(a);
        self.save(b);
        self.like(a)
    }

    /// Adds an element-wise sum, which does not save a tensor.
    pub(super) fn sum(&mut self, terms: [SavedTensor; 2]) -> SavedTensor {
        self.tensor(terms[0].values, widest(terms))
    }

    /// Adds an operation that does not save a tensor and does not change size or format, such as a rotary embedding.
    pub(super) fn unsaved(&mut self, input: SavedTensor) -> SavedTensor {
        self.like(input)
    }

    /// Adds a batch norm of `channels` channels, composed of burn operations in at least f32. The division saves the centred values, and
    /// the multiplication by the scale saves the normalized values. Per channel, the norm also saves the variance, the standard deviation,
    /// and the moments for the running statistics.
    pub(super) fn batch_norm(&mut self, images: SavedTensor, channels: u64) -> SavedTensor {
        let wide = wide(images.format);
        for _ in 0..2 {
            let rows = self.tensor(images.values, wide);
            self.save(rows);
        }
        self.bytes += 2 * channels * bytes(wide);
        self.moments += 2 * channels * bytes(wide);
        self.like(images)
    }

    /// Adds a max pooling over `windows` windows, which saves its input in at least f32 and the indices of the maxima.
    pub(super) fn max_pool(&mut self, images: SavedTensor, windows: u64) -> SavedTensor {
        let wide = self.cast(images, wide(images.format));
        self.save(wide);
        self.indices(windows);
        self.part(images, windows)
    }

    /// Adds the cross-entropy of `rows` rows, in at least f32: the exponential saves the logits minus the row's maximum, the logarithm saves
    /// their sum, and the gather saves the labels.
    pub(super) fn cross_entropy(&mut self, logits: SavedTensor, rows: u64) {
        self.constants(logits.values + rows);
        self.indices(rows);
    }
}

/// Returns the wider of two formats.
fn widest([a, b]: [SavedTensor; 2]) -> Format {
    match a.format.storage_bytes() >= b.format.storage_bytes() {
        true => a.format,
        false => b.format,
    }
}
