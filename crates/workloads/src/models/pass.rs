//! One forward pass over a model: the layers that models share, each in the precision that its name has.

use std::cell::{OnceCell, RefCell};

use burn::tensor::{Bool, Int, Tensor};
use mantissa_precision::{Compute, Moments, Rotation, Sight, Tracked, swap_middle};

use super::{Kept, KvCache};

/// Outputs of layers by name, in the order in which they were made.
pub(crate) type Seen = RefCell<Vec<(String, Tensor<1>)>>;

/// Moments of batch norms by name.
pub(crate) type Norms = Vec<(String, Moments)>;

/// What training does otherwise than testing.
pub(crate) enum Stage<'a> {
    /// Elements are dropped. Batches are normalised by their own moments, which are noted.
    Training(&'a RefCell<Norms>),
    /// Nothing is dropped. Batches are normalised by their own moments.
    Observing,
    /// Nothing is dropped. Batches are normalised by running statistics.
    Testing(&'a Norms),
}

/// A forward pass: parameters, and how to compute with them.
pub(crate) struct Pass<'a> {
    pub parameters: &'a Tracked,
    pub compute: &'a Compute,
    kept: &'a Kept,
    stage: Stage<'a>,
    seen: Option<&'a Seen>,
    /// What came before, and how many tokens that were.
    cache: Option<(&'a RefCell<KvCache>, usize)>,
    /// The table of words as the head multiplies it, where that was made beforehand.
    head: Option<&'a Tensor<2>>,
    /// What every layer makes of the places of the tokens.
    rotation: OnceCell<Rotation>,
    sight: OnceCell<Sight>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        parameters: &'a Tracked,
        compute: &'a Compute,
        kept: &'a Kept,
        stage: Stage<'a>,
    ) -> Self {
        Self {
            parameters,
            compute,
            kept,
            stage,
            seen: None,
            cache: None,
            head: None,
            rotation: OnceCell::new(),
            sight: OnceCell::new(),
        }
    }

    /// The same over tokens that follow those in a cache, which remembers them too.
    pub(crate) fn remembering(self, cache: &'a RefCell<KvCache>) -> Self {
        let place = cache.borrow().tokens();
        Self {
            cache: Some((cache, place)),
            ..self
        }
    }

    /// How queries and keys of this pass turn, which is the same in every layer.
    pub(super) fn rotation(&self, make: impl FnOnce() -> Rotation) -> &Rotation {
        self.rotation.get_or_init(make)
    }

    /// The same with the table of words in the format in which a tied head multiplies it: it is not rounded for every token anew.
    pub(crate) fn with_head(self, head: Option<&'a Tensor<2>>) -> Self {
        Self { head, ..self }
    }

    /// Tokens before the first of this pass.
    pub(super) fn place(&self) -> usize {
        self.cache.map_or(0, |(_, place)| place)
    }

    /// The same, with the outputs of layers shown.
    pub(crate) fn seen_by(self, seen: &'a Seen) -> Self {
        Self {
            seen: Some(seen),
            ..self
        }
    }

    pub(crate) fn show<const D: usize>(&self, name: &str, output: Tensor<D>) -> Tensor<D> {
        if let Some(seen) = self.seen {
            let count = output.shape().num_elements();
            seen.borrow_mut()
                .push((name.to_owned(), output.clone().reshape([count])));
        }
        output
    }

    /// How a layer multiplies.
    pub(super) fn products(&self, layer: &str) -> Compute {
        if self.kept.contains(layer) {
            self.compute.in_f32()
        } else {
            *self.compute
        }
    }

    /// Whether layers do what they do in training alone.
    pub(crate) fn trains(&self) -> bool {
        matches!(self.stage, Stage::Training(_))
    }

    /// A share of elements to drop, which is 0 outside of training.
    pub(super) fn dropped(&self, share: f64) -> f64 {
        match self.stage {
            Stage::Training(_) => share,
            Stage::Observing | Stage::Testing(_) => 0.0,
        }
    }

    pub(super) fn dropout<const D: usize>(&self, input: Tensor<D>, share: f64) -> Tensor<D> {
        self.compute.dropout(input, self.dropped(share))
    }

    /// A linear layer with its bias.
    pub(super) fn linear(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.show(name, self.products(name).linear(input, weight, bias))
    }

    /// A linear layer without a bias.
    pub(super) fn unbiased(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        self.show(name, self.products(name).matmul_by_columns(input, weight))
    }

    /// A head whose weights `[out, in]` are the table of words.
    pub(super) fn tied(&self, input: Tensor<2>, table: &str, name: &str) -> Tensor<2> {
        let weight = self
            .head
            .cloned()
            .unwrap_or_else(|| self.parameters.matrix(table));
        self.show(name, self.products(name).matmul_by_columns(input, weight))
    }

    /// A linear layer whose weights are `[in, out]`, with its bias.
    pub(super) fn transposed(&self, input: Tensor<2>, name: &str) -> Tensor<2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.show(name, self.products(name).linear_by_inputs(input, weight, bias))
    }

    /// Attention of hidden states `[n · sequence, width]`, by layers that project them to queries, keys and values, over the
    /// positions that are no `padding` `[n, sequence]`: what the heads see, side by side.
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
            swap_middle(projected.reshape([n, sequence, heads, width]))
        });
        let mixed = self
            .products(name)
            .attention(parts, &Sight::padded(padding), self.dropped(dropout));
        rows_of(self.show(name, mixed))
    }

    /// Attention of queries `[n, heads, queries, width]` to keys and values `[n, heads / group, queries, width]`, of which none
    /// comes after a query, and to those in the cache; with a bias `[heads, keys]` of the scores, which is the same in every layer: what
    /// the heads see, side by side, `[n · queries, heads · width]`.
    pub(super) fn causal_attention(
        &self,
        [query, key, value]: [Tensor<4>; 3],
        (name, dropout): (&str, f64),
        bias: Option<&dyn Fn(usize) -> Tensor<2>>,
    ) -> Tensor<2> {
        let [key, value] = match self.cache {
            Some((cache, _)) => cache.borrow_mut().extended(name, [key, value]),
            None => [key, value],
        };
        let sight = self.sight.get_or_init(|| {
            let keys = key.dims()[2];
            let sight = Sight::causal(query.dims()[2], keys, &query.device());
            match bias {
                Some(bias) => sight.biased(bias(keys)),
                None => sight,
            }
        });
        let parts = [query, key, value];
        let mixed = self.products(name).attention(parts, sight, self.dropped(dropout));
        rows_of(self.show(name, mixed))
    }

    /// Some rows of hidden states.
    pub(super) fn rows(&self, hidden: Tensor<2>, rows: &Tensor<1, Int>) -> Tensor<2> {
        self.compute.embedding(hidden, rows.clone())
    }

    /// Two linear layers with a GELU between them.
    pub(super) fn feed_forward(
        &self,
        hidden: Tensor<2>,
        first: &str,
        activation: &str,
        second: &str,
    ) -> Tensor<2> {
        let wide = self.products(first).gelu(self.linear(hidden, first));
        self.linear(self.show(activation, wide), second)
    }

    pub(super) fn layer_norm(&self, input: Tensor<2>, name: &str, epsilon: f64) -> Tensor<2> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = self.compute.layer_norm(input, scale, shift, epsilon);
        self.show(name, normal)
    }

    /// Root-mean-square norm.
    pub(super) fn rms_norm(&self, input: Tensor<2>, name: &str, epsilon: f64) -> Tensor<2> {
        let scale = self.parameters.vector(&format!("{name}.weight"));
        let normal = self.compute.rms_norm(input, scale, epsilon);
        self.show(name, normal)
    }

    /// A convolution without a bias; its filters are `shape`.
    pub(super) fn convolution(
        &self,
        images: Tensor<4>,
        name: &str,
        shape: [usize; 4],
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let filters = self.parameters.vector(&format!("{name}.weight")).reshape(shape);
        let output = self.products(name).convolution(images, filters, stride, padding);
        self.show(name, output)
    }

    pub(super) fn batch_norm(&self, images: Tensor<4>, name: &str, epsilon: f64) -> Tensor<4> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = match &self.stage {
            Stage::Testing(running) => {
                let mut norms = running.iter();
                let (_, running) = norms
                    .find(|(norm, _)| norm == name)
                    .unwrap_or_else(|| panic!("no running statistics of `{name}`"));
                self.compute.batch_norm(images, scale, shift, running, epsilon)
            }
            Stage::Training(noted) => {
                let (normal, moments) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                noted.borrow_mut().push((name.to_owned(), moments));
                normal
            }
            Stage::Observing => {
                let (normal, _) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                normal
            }
        };
        self.show(name, normal)
    }

    /// Sum of images. Products leave them channels-last in memory, and there they stay.
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

/// What heads see, `[n, heads, sequence, width]`, side by side: `[n · sequence, heads · width]`.
fn rows_of(mixed: Tensor<4>) -> Tensor<2> {
    let [n, heads, sequence, width] = mixed.dims();
    swap_middle(mixed).reshape([n * sequence, heads * width])
}
