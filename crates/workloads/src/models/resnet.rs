//! ResNet for CIFAR-10 (arXiv 1512.03385, section 4.2): 6n + 2 layers in three stages. Each stage but the first halves the image size and doubles
//! the channels. Shortcuts do not have parameters (option A). Parameter names are those of `akamaster/pytorch_resnet_cifar10`.

use burn::tensor::{Device, Tensor, TensorData, s};
use mantissa_core::ResNetSize;

use super::{Batch, F32Layers, Init, Network, ParameterSpec, Pass, Specs};
use crate::data::Images;

/// Epsilon of every batch norm, as in PyTorch.
const NORM_EPSILON: f64 = 1e-5;
/// Colour channels of an image.
const COLOURS: usize = 3;
/// Number of stages. The blocks of a stage have the same size.
const STAGES: u32 = 3;
/// Edge of every filter.
const FILTER: usize = 3;

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct ResNet {
    size: ResNetSize,
    /// Edge (height and width) of an image, in pixels.
    edge: usize,
    classes: usize,
    f32_layers: F32Layers,
}

impl ResNet {
    pub(crate) fn new(size: ResNetSize, edge: usize, classes: u32) -> Self {
        Self {
            size,
            edge,
            classes: classes as usize,
            f32_layers: F32Layers::default(),
        }
    }

    /// Returns the output channels of a stage.
    fn channels(&self, stage: u32) -> usize {
        (self.size.width as usize) << stage
    }

    /// Returns the output edge of a stage: halved by each stage but the first, rounded up.
    fn edge(&self, stage: u32) -> usize {
        (0..stage).fold(self.edge, |edge, _| edge.div_ceil(2))
    }

    fn blocks(&self) -> u32 {
        self.size.blocks()
    }

    /// Returns the stage of a block and its index in the stage.
    fn stage_and_index(&self, block: u32) -> (u32, u32) {
        (block / self.blocks(), block % self.blocks())
    }

    fn residual(&self, pass: &Pass<'_>, block: u32, images: Tensor<4>) -> Tensor<4> {
        let (stage, number) = self.stage_and_index(block);
        let name = format!("layer{}.{number}", stage + 1);
        let narrows = stage > 0 && number == 0;
        let (to, stride) = (self.channels(stage), if narrows { 2 } else { 1 });
        let from = images.dims()[1];
        let first = format!("{name}.conv1");
        let inner = pass.convolution(images.clone(), &first, [to, from, FILTER, FILTER], stride, 1);
        let inner = pass.relu(pass.batch_norm(inner, &format!("{name}.bn1"), NORM_EPSILON));
        let second = format!("{name}.conv2");
        let inner = pass.convolution(inner, &second, [to, to, FILTER, FILTER], 1, 1);
        let inner = pass.batch_norm(inner, &format!("{name}.bn2"), NORM_EPSILON);
        let shortcut = if narrows { subsampled(images, to) } else { images };
        pass.record(&name, pass.relu(pass.add_images(inner, shortcut)))
    }
}

/// Applies a shortcut without parameters: selects every other row and column, and pads the channels to `to` with zeros on both sides.
fn subsampled(images: Tensor<4>, to: usize) -> Tensor<4> {
    let images = images.permute([0, 2, 3, 1]);
    let images = images.slice([s![..], s![..;2], s![..;2], s![..]]);
    let [n, h, w, from] = images.dims();
    let (before, after) = ((to - from) / 2, (to - from).div_ceil(2));
    let options = (&images.device(), images.dtype());
    let zeros = |channels| Tensor::<4>::zeros([n, h, w, channels], options);
    Tensor::cat(vec![zeros(before), images, zeros(after)], 3).permute([0, 3, 1, 2])
}

impl Network for ResNet {
    type Part = Images;
    type Input = Tensor<4>;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let mut specs = Specs::default();
        let layer = |specs: &mut Specs, convolution: &str, norm: &str, from: usize, to: usize| {
            // He initialization (`fan_in`), which preserves the variance in the forward pass.
            let init = Init::Normal((2.0 / (from * FILTER * FILTER) as f64).sqrt());
            specs.add(format!("{convolution}.weight"), &[to, from, FILTER, FILTER], init);
            specs.norm(norm, to);
        };
        layer(&mut specs, "conv1", "bn1", COLOURS, self.channels(0));
        for block in 0..STAGES * self.blocks() {
            let (stage, number) = self.stage_and_index(block);
            let name = format!("layer{}.{number}", stage + 1);
            let to = self.channels(stage);
            let from = if number == 0 {
                self.channels(stage.saturating_sub(1))
            } else {
                to
            };
            layer(
                &mut specs,
                &format!("{name}.conv1"),
                &format!("{name}.bn1"),
                from,
                to,
            );
            layer(
                &mut specs,
                &format!("{name}.conv2"),
                &format!("{name}.bn2"),
                to,
                to,
            );
        }
        let features = self.channels(STAGES - 1);
        let init = Init::Normal((2.0 / features as f64).sqrt());
        specs.linear("linear", &[self.classes, features], init);
        specs.0
    }

    fn is_matmul_weight(name: &str) -> bool {
        name.contains("conv") || name.starts_with("linear")
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    fn norms(&self) -> Vec<(String, usize)> {
        let norm = |spec: ParameterSpec| {
            let name = spec.name.strip_suffix(".weight")?;
            let is_norm = name.rsplit('.').next()?.starts_with("bn");
            is_norm.then(|| (name.to_owned(), spec.shape[0]))
        };
        self.parameters().into_iter().filter_map(norm).collect()
    }

    fn upload(batch: &Batch<Self>, device: &Device) -> Tensor<4> {
        let shape = [batch.labels.len(), COLOURS, batch.edge, batch.edge];
        let data = TensorData::new(batch.values.clone(), shape);
        Tensor::from_data(data, (device, burn::tensor::DType::F32))
    }

    fn block_count(&self) -> u32 {
        STAGES * self.blocks()
    }

    fn embed(&self, pass: &Pass<'_>, images: &Tensor<4>) -> Tensor<2> {
        let shape = [self.channels(0), COLOURS, FILTER, FILTER];
        let images = pass.convolution(images.clone(), "conv1", shape, 1, 1);
        as_rows(pass.relu(pass.batch_norm(images, "bn1", NORM_EPSILON)))
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &Tensor<4>, hidden: Tensor<2>) -> Tensor<2> {
        // Stage of the previous segment.
        let stage = block
            .checked_sub(1)
            .map_or(0, |block| self.stage_and_index(block).0);
        let (n, edge) = (input.dims()[0], self.edge(stage));
        let images = hidden.reshape([n, edge, edge, self.channels(stage)]);
        as_rows(self.residual(pass, block, images.permute([0, 3, 1, 2])))
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, _: &Tensor<4>) -> Tensor<2> {
        let n = hidden.dims()[0];
        let (channels, edge) = (self.channels(STAGES - 1), self.edge(STAGES - 1));
        // Pooling sums values, so a mixed setting computes it in f32.
        let hidden = pass.compute.full(hidden);
        let pooled = hidden.reshape([n, edge * edge, channels]).mean_dim(1);
        pass.linear(pooled.reshape([n, channels]), "linear")
    }
}

/// Converts images to rows of hidden states in channels-last order, which is their memory layout.
pub(super) fn as_rows(images: Tensor<4>) -> Tensor<2> {
    images.permute([0, 2, 3, 1]).flatten(1, 3)
}
