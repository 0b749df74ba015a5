//! Forward pass and the layers that models share. The setting and the name of a layer determine the precision of the layer.

use std::cell::{OnceCell, RefCell};

use burn::tensor::{Bool, Int, Tensor};
use mantissa_precision::{
    AttentionMask, Compute, Dropout, DropoutMasks, Moments, Rotation, Tracked, transpose_heads,
};

use super::{F32Layers, KvCache};

/// Outputs of layers by name, in the order of computation.
pub(crate) type LayerOutputs = RefCell<Vec<(String, Tensor<1>)>>;

/// Moments of batch norms by name.
pub(crate) type Norms = Vec<(String, Moments)>;

/// Stage of a pass, which determines dropout and the statistics of batch norms.
pub(crate) enum Stage<'a> {
    /// Dropout is active. Batches are normalized by their own moments, which are recorded.
    Training(&'a RefCell<Norms>, &'a DropoutMasks),
    /// No dropout. Batches are normalized by their own moments.
    Observing,
    /// No dropout. Batches are normalized by running statistics.
    Testing(&'a Norms),
}

/// Forward pass: parameters, and the precision of its computations.
pub(crate) struct Pass<'a> {
    pub parameters: &'a Tracked,
    pub compute: &'a Compute,
    f32_layers: &'a F32Layers,
    stage: Stage<'a>,
    outputs: Option<&'a LayerOutputs>,
    /// Key-value cache, and the number of tokens in it before this pass.
    cache: Option<(&'a RefCell<KvCache>, usize)>,
    /// Embedding table in the format of the tied head's matmul, if it was cast before the pass.
    head: Option<&'a Tensor<2>>,
    /// Rotary embedding of the tokens' positions, shared by all layers.
    rotation: OnceCell<Rotation>,
    mask: OnceCell<AttentionMask>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        parameters: &'a Tracked,
        compute: &'a Compute,
        f32_layers: &'a F32Layers,
        stage: Stage<'a>,
    ) -> Self {
        Self {
            parameters,
            compute,
            f32_layers,
            stage,
            outputs: None,
            cache: None,
            head: None,
            rotation: OnceCell::new(),
            mask: OnceCell::new(),
        }
    }

    /// Returns the pass with a key-value cache. The tokens of the pass follow the cached tokens, and their keys and values are added to the
    /// cache.
    pub(crate) fn with_cache(self, cache: &'a RefCell<KvCache>) -> Self {
        let past_tokens = cache.borrow().tokens();
        Self {
            cache: Some((cache, past_tokens)),
            ..self
        }
    }

    /// Returns the rotary embedding of this pass, which is the same in every layer.
    pub(super) fn rotation(&self, make: impl FnOnce() -> Rotation) -> &Rotation {
        self.rotation.get_or_init(make)
    }

    /// Returns the pass with the embedding table already cast to the format of a tied head, to avoid a cast per token.
    pub(crate) fn with_head(self, head: Option<&'a Tensor<2>>) -> Self {
        Self { head, ..self }
    }

    /// Returns the number of tokens before the first token of this pass.
    pub(super) fn past_tokens(&self) -> usize {
        self.cache.map_or(0, |(_, past_tokens)| past_tokens)
    }

    /// Returns the pass with the outputs of layers recorded in `outputs`.
    pub(crate) fn with_recorded_outputs(self, outputs: &'a LayerOutputs) -> Self {
        Self {
            outputs: Some(outputs),
            ..self
        }
    }

    pub(crate) fn record<const D: usize>(&self, name: &str, output: Tensor<D>) -> Tensor<D> {
        if let Some(outputs) = self.outputs {
            let count = output.shape().num_elements();
            outputs
                .borrow_mut()
                .push((name.to_owned(), output.clone().reshape([count])));
        }
        output
    }

    /// Returns the precision of a layer's matmuls.
    pub(super) fn matmul_compute(&self, layer: &str) -> Compute {
        if self.f32_layers.contains(layer) {
            self.compute.in_f32()
        } else {
            *self.compute
        }
    }

    /// Returns the dropout masks in training, otherwise `None`.
    pub(crate) fn dropout_masks(&self) -> Option<&'a DropoutMasks> {
        match self.stage {
            Stage::Training(_, masks) => Some(masks),
            Stage::Observing | Stage::Testing(_) => None,
        }
    }

    /// Starts a segment of the model; the head counts as the segment after the last one. Each segment has its own dropout masks, so that the
    /// recomputation of a checkpointed segment has the same masks.
    pub(crate) fn start_segment(&self, segment: u32) {
        if let Some(masks) = self.dropout_masks() {
            masks.start_segment(segment);
        }
    }

    /// Returns the dropout of a layer, or `None` if it does not drop elements in this stage.
    fn active_dropout(&self, share: f64) -> Option<Dropout<'a>> {
        let masks = self.dropout_masks().filter(|_| share > 0.0);
        masks.map(|masks| Dropout {
            share,
            masks: Some(masks),
        })
    }

    pub(super) fn dropout<const D: usize>(&self, input: Tensor<D>, share: f64) -> Tensor<D> {
        match self.active_dropout(share) {
            Some(dropout) => self.compute.dropout(input, dropout),
            None => input,
        }
    }

    /// Applies a linear layer with a bias.
    pub(super) fn linear(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.record(name, self.matmul_compute(name).linear(input, weight, bias))
    }

    /// Applies a linear layer without a bias.
    pub(super) fn linear_without_bias(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        self.record(name, self.matmul_compute(name).matmul_by_columns(input, weight))
    }

    /// Applies a head whose weights `[out, in]` are the embedding table.
    pub(super) fn tied_linear(&self, input: Tensor<2>, table: &str, name: &str) -> Tensor<2> {
        let weight = self
            .head
            .cloned()
            .unwrap_or_else(|| self.parameters.matrix(table));
        self.record(name, self.matmul_compute(name).matmul_by_columns(input, weight))
    }

    /// Applies a linear layer with weights `[in, out]` and a bias.
    pub(super) fn transposed_linear(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.record(
            name,
            self.matmul_compute(name).linear_by_inputs(input, weight, bias),
        )
    }

    /// Computes attention of hidden states `[n · sequence, width]`, masked by `padding` `[n, sequence]`. The layers `projections` compute
    /// queries, keys and values. Returns the concatenated outputs of the heads.
    pub(super) fn attention(
        &self,
        hidden: &Tensor<2>,
        projections: [String; 3],
        (name, heads, dropout): (&str, usize, f64),
        padding: &Tensor<2, Bool>,
    ) -> Tensor<2> {
        let [n, sequence] = padding.dims();
        let parts = projections.map(|layer| {
            let projected = self.linear(hidden.clone(), &layer);
            let width = projected.dims()[1] / heads;
            transpose_heads(projected.reshape([n, sequence, heads, width]))
        });
        let mixed = self.matmul_compute(name).attention(
            parts,
            &AttentionMask::padded(padding),
            self.active_dropout(dropout),
        );
        concat_heads(self.record(name, mixed))
    }

    /// Computes causal attention of queries `[n, heads, queries, width]` to keys and values `[n, heads / group, queries, width]` and to those in
    /// the cache. An optional bias `[heads, keys]`, equal in every layer, is added to the scores. Returns the concatenated outputs of the heads,
    /// `[n · queries, heads · width]`.
    pub(super) fn causal_attention(
        &self,
        [query, key, value]: [Tensor<4>; 3],
        (name, dropout): (&str, f64),
        bias: Option<&dyn Fn(usize) -> Tensor<2>>,
    ) -> Tensor<2> {
        let [key, value] = match self.cache {
            Some((cache, _)) => cache.borrow_mut().append(name, [key, value]),
            None => [key, value],
        };
        let mask = self.mask.get_or_init(|| {
            let keys = key.dims()[2];
            let mask = AttentionMask::causal(query.dims()[2], keys, &query.device());
            match bias {
                Some(bias) => mask.biased(bias(keys)),
                None => mask,
            }
        });
        let parts = [query, key, value];
        let mixed = self
            .matmul_compute(name)
            .attention(parts, mask, self.active_dropout(dropout));
        concat_heads(self.record(name, mixed))
    }

    /// Gathers rows of hidden states.
    pub(super) fn gather_rows(&self, hidden: Tensor<2>, rows: &Tensor<1, Int>) -> Tensor<2> {
        self.compute.embedding(hidden, rows.clone())
    }

    /// Applies two linear layers with a GELU between them.
    pub(super) fn feed_forward(
        &self,
        hidden: Tensor<2>,
        first: &str,
        activation: &str,
        second: &str,
    ) -> Tensor<2> {
        let wide = self.matmul_compute(first).gelu(self.linear(hidden, first));
        self.linear(self.record(activation, wide), second)
    }

    pub(super) fn layer_norm(&self, input: Tensor<2>, name: &str, epsilon: f64) -> Tensor<2> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = self.compute.layer_norm(input, scale, shift, epsilon);
        self.record(name, normal)
    }

    /// Applies a root-mean-square norm.
    pub(super) fn rms_norm(&self, input: Tensor<2>, name: &str, epsilon: f64) -> Tensor<2> {
        let scale = self.parameters.vector(&format!("{name}.weight"));
        let normal = self.compute.rms_norm(input, scale, epsilon);
        self.record(name, normal)
    }

    /// Applies a convolution without a bias. `shape` is the shape of the filters.
    pub(super) fn convolution(
        &self,
        images: Tensor<4>,
        name: &str,
        shape: [usize; 4],
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let filters = self.parameters.vector(&format!("{name}.weight")).reshape(shape);
        let output = self
            .matmul_compute(name)
            .convolution(images, filters, stride, padding);
        self.record(name, output)
    }

    pub(super) fn batch_norm(&self, images: Tensor<4>, name: &str, epsilon: f64) -> Tensor<4> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = match &self.stage {
            Stage::Testing(running) => {
                let mut norms = running.iter();
                let (_, running) = norms
                    .find(|(norm, _)| norm == name)
                    .unwrap_or_else(|| panic!("missing running statistics of `{name}`"));
                self.compute.batch_norm(images, scale, shift, running, epsilon)
            }
            Stage::Training(recorded, _) => {
                let (normal, moments) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                recorded.borrow_mut().push((name.to_owned(), moments));
                normal
            }
            Stage::Observing => {
                let (normal, _) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                normal
            }
        };
        self.record(name, normal)
    }

    /// Adds images. Convolutions return images in channels-last layout, and the sum keeps this layout.
    pub(super) fn add_images(&self, one: Tensor<4>, other: Tensor<4>) -> Tensor<4> {
        let [one, other] = [one, other].map(|images| images.permute([0, 2, 3, 1]));
        self.compute.add(one, other).permute([0, 3, 1, 2])
    }

    pub(super) fn relu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.compute.relu(input)
    }

    fn scale_and_shift(&self, name: &str) -> [Tensor<1>; 2] {
        ["weight", "bias"].map(|part| self.parameters.vector(&format!("{name}.{part}")))
    }
}

/// Concatenates the outputs of the heads `[n, heads, sequence, width]` to `[n · sequence, heads · width]`.
fn concat_heads(mixed: Tensor<4>) -> Tensor<2> {
    let [n, heads, sequence, width] = mixed.dims();
    transpose_heads(mixed).reshape([n * sequence, heads * width])
}
