//! Vision transformer for image classification (arXiv 2010.11929), the architecture of
//! `google/vit-base-patch16-224`.
//!
//! Pre-norm encoder blocks over a class token and the patches of the image, with learned positions and exact GELU. The head reads the class token.
//! Dropout is applied as in transformers: after the embeddings, to the attention weights, and after the last layer of attention and feed-forward
//! part.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use mantissa_core::VitSize;

use super::{Batch, F32Layers, Init, Network, ParameterSpec, Pass, Specs};
use crate::{data::Images, weights::Naming};

/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;
/// Colour channels of an image.
const COLOURS: usize = 3;

/// Name of the class token.
const CLASS_TOKEN: &str = "vit.embeddings.cls_token";
/// Name of the position embeddings.
const POSITIONS: &str = "vit.embeddings.position_embeddings";
/// Name of the layer that projects patches to tokens.
const PROJECTION: &str = "vit.embeddings.patch_embeddings.projection";

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct Vit {
    size: VitSize,
    classes: usize,
    f32_layers: F32Layers,
}

impl Vit {
    pub(crate) fn new(size: VitSize, classes: u32) -> Self {
        Self {
            size,
            classes: classes as usize,
            f32_layers: F32Layers::default(),
        }
    }

    /// Returns the edge (height and width) of a patch, in pixels.
    fn patch(&self) -> usize {
        self.size.patch_size as usize
    }

    /// Returns the number of patches along an edge of an image.
    fn side(&self) -> usize {
        self.size.image_size as usize / self.patch()
    }

    /// Returns the number of tokens of an image: its patches and the class token.
    fn tokens(&self) -> usize {
        1 + self.side() * self.side()
    }

    /// Returns the width of the residual stream.
    fn width(&self) -> usize {
        self.size.hidden_size as usize
    }
}

impl Network for Vit {
    type Part = Images;
    type Input = Tensor<4>;
    const CONVOLVES: bool = false;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (width, inner) = (self.width(), self.size.intermediate_size as usize);
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        specs.add(CLASS_TOKEN, &[1, 1, width], normal);
        specs.add(POSITIONS, &[1, self.tokens(), width], normal);
        specs.linear(PROJECTION, &[width, COLOURS, self.patch(), self.patch()], normal);
        for layer in (0..self.size.num_hidden_layers).map(layer_name) {
            let linear = [
                ("attention.attention.query", [width, width]),
                ("attention.attention.key", [width, width]),
                ("attention.attention.value", [width, width]),
                ("attention.output.dense", [width, width]),
                ("intermediate.dense", [inner, width]),
                ("output.dense", [width, inner]),
            ];
            for (part, shape) in linear {
                specs.linear(&format!("{layer}.{part}"), &shape, normal);
            }
            specs.norm(&format!("{layer}.layernorm_before"), width);
            specs.norm(&format!("{layer}.layernorm_after"), width);
        }
        specs.norm("vit.layernorm", width);
        specs.linear("classifier", &[self.classes, width], normal);
        specs.0
    }

    fn naming(&self) -> Naming {
        Naming {
            prefix: "vit.",
            head: &["classifier."],
            classes: Some("classifier."),
            ignored: &["pooler."],
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        ![CLASS_TOKEN, POSITIONS].contains(&name) && !name.contains("layernorm")
    }

    fn attention_layers(&self) -> Vec<String> {
        (0..self.size.num_hidden_layers)
            .map(|layer| attention_name(&layer_name(layer)))
            .collect()
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    fn upload(batch: &Batch<Self>, device: &Device) -> Tensor<4> {
        let shape = [batch.labels.len(), COLOURS, batch.edge, batch.edge];
        let data = TensorData::new(batch.values.clone(), shape);
        Tensor::from_data(data, (device, DType::F32))
    }

    fn block_count(&self) -> u32 {
        self.size.num_hidden_layers
    }

    /// Projects patches to tokens and prepends the class token. A convolution with filters that do not overlap is a linear layer.
    fn embed(&self, pass: &Pass<'_>, images: &Tensor<4>) -> Tensor<2> {
        let n = images.dims()[0];
        let (side, patch, width) = (self.side(), self.patch(), self.width());
        let values = COLOURS * patch * patch;
        let patches = images
            .clone()
            .reshape([n, COLOURS, side, patch, side, patch])
            .permute([0, 2, 4, 1, 3, 5])
            .reshape([n * side * side, values]);
        let filters = pass.parameters.vector(&format!("{PROJECTION}.weight"));
        let bias = pass.parameters.vector(&format!("{PROJECTION}.bias"));
        let products = pass.matmul_compute(PROJECTION);
        let projected = products.linear(patches, filters.reshape([width, values]), bias);
        let projected = pass.record(PROJECTION, projected);
        // transformers concatenates the tokens in the format of the class token, which is the wider one.
        let projected = pass.compute.full(projected).reshape([n, side * side, width]);
        let class = pass.parameters.vector(CLASS_TOKEN).reshape([1, width]);
        let rows = Tensor::cat(vec![pass.compute.repeated(class, n), projected], 1);
        let positions = pass.parameters.vector(POSITIONS);
        let positions = positions.reshape([self.tokens(), width]);
        let positions = pass.compute.repeated(positions, n);
        let embedded = pass.compute.add(rows, positions).flatten(0, 1);
        pass.dropout(embedded, self.size.hidden_dropout_prob)
    }

    fn block(&self, pass: &Pass<'_>, block: u32, _: &Tensor<4>, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let (compute, dropout) = (pass.compute, self.size.hidden_dropout_prob);
        let name = format!("{layer}.layernorm_before");
        let normal = pass.layer_norm(hidden.clone(), &name, self.size.layer_norm_eps);
        let name = attention_name(&layer);
        let projections = ["query", "key", "value"].map(|part| format!("{name}.{part}"));
        let heads = self.size.num_attention_heads as usize;
        let options = (name.as_str(), heads, self.size.attention_probs_dropout_prob);
        // Images do not have padding.
        let shape = [hidden.dims()[0] / self.tokens(), self.tokens()];
        let padding = Tensor::<2, Bool>::full(shape, false, &hidden.device());
        let mixed = pass.attention(&normal, projections, options, &padding);
        let attended = pass.linear(mixed, &format!("{layer}.attention.output.dense"));
        let hidden = compute.add(pass.dropout(attended, dropout), hidden);
        let name = format!("{layer}.layernorm_after");
        let normal = pass.layer_norm(hidden.clone(), &name, self.size.layer_norm_eps);
        let [first, activation, second] = [
            "intermediate.dense",
            "intermediate.intermediate_act_fn",
            "output.dense",
        ]
        .map(|part| format!("{layer}.{part}"));
        let output = pass.feed_forward(normal, &first, &activation, &second);
        compute.add(pass.dropout(output, dropout), hidden)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &Tensor<4>) -> Tensor<2> {
        let n = input.dims()[0];
        let normal = pass.layer_norm(hidden, "vit.layernorm", self.size.layer_norm_eps);
        let first = normal
            .reshape([n, self.tokens(), self.width()])
            .narrow(1, 0, 1)
            .squeeze_dim(1);
        pass.linear(first, "classifier")
    }
}

fn layer_name(layer: u32) -> String {
    format!("vit.encoder.layer.{layer}")
}

/// Returns the name of the attention matmuls.
fn attention_name(layer: &str) -> String {
    format!("{layer}.attention.attention")
}

#[cfg(test)]
mod tests {
    use mantissa_precision::Operation;

    use super::*;

    /// Returns the model published for ImageNet.
    fn base() -> Vit {
        Vit::new(VitSize::BASE, 1000)
    }

    #[test]
    fn base_model_has_the_published_parameter_count() {
        let specs = base().parameters();
        let counts = specs.iter().map(|spec| spec.shape.iter().product::<usize>());
        // Number of parameters as reported by Hugging Face.
        assert_eq!(counts.sum::<usize>(), 86_567_656);
    }

    #[test]
    fn embeddings_and_norms_are_not_listed_as_layers() {
        let layers = base().layers();
        // Six layers with weights and the attention in each block, the projection and the classifier.
        assert_eq!(layers.len(), 12 * 7 + 2);
        assert_eq!(layers[0], PROJECTION);
        assert!(!layers.iter().any(|layer| layer.contains("layernorm")));
        assert!(!base().multiplies(CLASS_TOKEN) && !base().multiplies(POSITIONS));
    }

    #[test]
    fn f32_operations_are_those_of_the_f32_layers() {
        let kept = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let model = base().keep_in_f32(&patterns).unwrap();
            model.f32_operations(Operation::FusedAttention)
        };
        assert_eq!(kept(&[]), []);
        assert_eq!(kept(&["classifier"]), [Operation::Matmul]);
        assert_eq!(
            kept(&["vit.encoder.layer.0.attention"]),
            [Operation::Matmul, Operation::FusedAttention]
        );
    }
}
