//! ResNet for ImageNet (arXiv 1512.03385, table 1): four stages of basic blocks, or of bottlenecks with the stride in the 3 × 3 convolution
//! ("v1.5"). Each stage but the first halves the image size and doubles the channels. Shortcuts are projections if the shape changes (option B).
//! Parameter names are those of torchvision.

use std::iter;

use burn::tensor::{Device, Tensor};
use mantissa_core::ImageNetResNetSize;

use super::{Batch, F32Layers, Init, Network, ParameterSpec, Pass, ResNet, Specs, resnet::as_rows};
use crate::{data::Images, weights::Naming};

/// Epsilon of every batch norm, as in PyTorch.
const NORM_EPSILON: f64 = 1e-5;
/// Colour channels of an image.
const COLOURS: usize = 3;
/// Output channels of a bottleneck per inner channel.
const EXPANSION: usize = 4;

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct ImageNetResNet {
    size: ImageNetResNetSize,
    /// Edge (height and width) of an image, in pixels.
    edge: usize,
    classes: usize,
    f32_layers: F32Layers,
}

/// Convolution without a bias, followed by a batch norm.
struct Layer {
    /// Names of convolution and norm.
    names: [String; 2],
    /// Input and output channels.
    channels: [usize; 2],
    /// Edge of the filters. The padding is half of it, rounded down.
    filter: usize,
    stride: usize,
}

impl Layer {
    /// Returns the shape of the filters.
    fn shape(&self) -> [usize; 4] {
        let [from, to] = self.channels;
        [to, from, self.filter, self.filter]
    }

    fn forward(&self, pass: &Pass<'_>, images: Tensor<4>) -> Tensor<4> {
        let [convolution, norm] = &self.names;
        let images = pass.convolution(images, convolution, self.shape(), self.stride, self.filter / 2);
        pass.batch_norm(images, norm, NORM_EPSILON)
    }
}

impl ImageNetResNet {
    pub(crate) fn new(size: ImageNetResNetSize, edge: usize, classes: u32) -> Self {
        Self {
            size,
            edge,
            classes: classes as usize,
            f32_layers: F32Layers::default(),
        }
    }

    /// Returns the number of blocks in each stage.
    fn blocks(&self) -> [u32; 4] {
        match self.size.depth {
            18 => [2, 2, 2, 2],
            50 => [3, 4, 6, 3],
            depth => unreachable!("suites reject ResNets of {depth} layers"),
        }
    }

    fn has_bottlenecks(&self) -> bool {
        self.size.depth == 50
    }

    /// Returns the channels inside the blocks of a stage.
    fn planes(&self, stage: u32) -> usize {
        (self.size.width as usize) << stage
    }

    /// Returns the output channels of a stage.
    fn channels(&self, stage: u32) -> usize {
        let expansion = if self.has_bottlenecks() { EXPANSION } else { 1 };
        self.planes(stage) * expansion
    }

    /// Returns the output edge of a stage: halved twice by the stem and once by each stage but the first, rounded up.
    fn edge(&self, stage: u32) -> usize {
        (0..stage + 2).fold(self.edge, |edge, _| edge.div_ceil(2))
    }

    /// Returns the output channels and edge of a segment.
    fn shape(&self, segment: u32) -> (usize, usize) {
        match segment.checked_sub(1) {
            None => (self.planes(0), self.edge(0)),
            Some(block) => {
                let (stage, _) = self.stage_and_index(block);
                (self.channels(stage), self.edge(stage))
            }
        }
    }

    /// Returns the stage of a block and its index in the stage.
    fn stage_and_index(&self, block: u32) -> (u32, u32) {
        let mut number = block;
        for (stage, blocks) in (0..).zip(self.blocks()) {
            if number < blocks {
                return (stage, number);
            }
            number -= blocks;
        }
        unreachable!("block {block} does not exist")
    }

    fn name(&self, block: u32) -> String {
        let (stage, number) = self.stage_and_index(block);
        format!("layer{}.{number}", stage + 1)
    }

    fn stem(&self) -> Layer {
        Layer {
            names: ["conv1", "bn1"].map(str::to_owned),
            channels: [COLOURS, self.planes(0)],
            filter: 7,
            stride: 2,
        }
    }

    /// Returns the layers of a block in order, and the layer of its shortcut if the shape changes.
    fn layers_of(&self, block: u32) -> (Vec<Layer>, Option<Layer>) {
        let ((stage, number), name) = (self.stage_and_index(block), self.name(block));
        // Output channels of the previous segment. Segment 0 is the stem, so block `b` is segment `b + 1`.
        let (from, _) = self.shape(block);
        let (planes, to) = (self.planes(stage), self.channels(stage));
        let stride = if stage > 0 && number == 0 { 2 } else { 1 };
        let layer = |number: u32, channels, filter, stride| Layer {
            names: ["conv", "bn"].map(|kind| format!("{name}.{kind}{number}")),
            channels,
            filter,
            stride,
        };
        let layers = if self.has_bottlenecks() {
            vec![
                layer(1, [from, planes], 1, 1),
                layer(2, [planes, planes], 3, stride),
                layer(3, [planes, to], 1, 1),
            ]
        } else {
            vec![layer(1, [from, to], 3, stride), layer(2, [to, to], 3, 1)]
        };
        let shortcut = (stride > 1 || from != to).then(|| Layer {
            names: [0, 1].map(|part| format!("{name}.downsample.{part}")),
            channels: [from, to],
            filter: 1,
            stride,
        });
        (layers, shortcut)
    }

    /// Returns all convolutions with their norms, in the order of checkpoints.
    fn convolutions_with_norms(&self) -> impl Iterator<Item = Layer> {
        let blocks = (0..self.segments() - 1).flat_map(move |block| {
            let (layers, shortcut) = self.layers_of(block);
            layers.into_iter().chain(shortcut)
        });
        iter::once(self.stem()).chain(blocks)
    }

    fn residual(&self, pass: &Pass<'_>, block: u32, images: Tensor<4>) -> Tensor<4> {
        let (layers, shortcut) = self.layers_of(block);
        let mut inner = images.clone();
        for (number, layer) in layers.iter().enumerate() {
            if number > 0 {
                inner = pass.relu(inner);
            }
            inner = layer.forward(pass, inner);
        }
        let shortcut = match shortcut {
            Some(layer) => layer.forward(pass, images),
            None => images,
        };
        let sum = pass.add_images(inner, shortcut);
        pass.record(&self.name(block), pass.relu(sum))
    }
}

impl Network for ImageNetResNet {
    type Part = Images;
    type Input = Tensor<4>;

    /// Uses torchvision's initialization, except for `fc`. Its values are normal, with the same standard deviation as torchvision's uniform values.
    fn parameters(&self) -> Vec<ParameterSpec> {
        let mut specs = Specs::default();
        for layer in self.convolutions_with_norms() {
            let ([_, to], [convolution, norm]) = (layer.channels, &layer.names);
            // He initialization (`fan_out`), which preserves the variance in the backward pass.
            let init = Init::Normal((2.0 / (to * layer.filter * layer.filter) as f64).sqrt());
            specs.add(format!("{convolution}.weight"), &layer.shape(), init);
            specs.norm(norm, to);
        }
        let features = self.channels(3);
        // Standard deviation of a uniform distribution on ±1/√features.
        let init = Init::Normal((3.0 * features as f64).sqrt().recip());
        specs.add("fc.weight", &[self.classes, features], init);
        specs.add("fc.bias", &[self.classes], init);
        specs.0
    }

    fn naming(&self) -> Naming {
        Naming {
            head: &["fc."],
            classes: Some("fc."),
            ..Naming::default()
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        name.contains("conv") || name.contains("downsample.0.") || name.starts_with("fc.")
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    fn norms(&self) -> Vec<(String, usize)> {
        let norm = |layer: Layer| {
            let ([_, norm], [_, channels]) = (layer.names, layer.channels);
            (norm, channels)
        };
        self.convolutions_with_norms().map(norm).collect()
    }

    fn upload(batch: &Batch<Self>, device: &Device) -> Tensor<4> {
        ResNet::upload(batch, device)
    }

    fn block_count(&self) -> u32 {
        self.blocks().iter().sum()
    }

    fn embed(&self, pass: &Pass<'_>, images: &Tensor<4>) -> Tensor<2> {
        let images = pass.relu(self.stem().forward(pass, images.clone()));
        as_rows(pass.compute.max_pool(images, 3, 2, 1))
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &Tensor<4>, hidden: Tensor<2>) -> Tensor<2> {
        let (n, (channels, edge)) = (input.dims()[0], self.shape(block));
        let images = hidden.reshape([n, edge, edge, channels]);
        as_rows(self.residual(pass, block, images.permute([0, 3, 1, 2])))
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, _: &Tensor<4>) -> Tensor<2> {
        let n = hidden.dims()[0];
        let (channels, edge) = self.shape(self.segments() - 1);
        // Pooling sums values, so a mixed setting computes it in f32.
        let hidden = pass.compute.full(hidden);
        let pooled = hidden.reshape([n, edge * edge, channels]).mean_dim(1);
        pass.linear(pooled.reshape([n, channels]), "fc")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_depths_have_the_published_parameter_counts() {
        for (depth, parameters, layers) in [(18, 11_689_512, 21), (50, 25_557_032, 54)] {
            let size = ImageNetResNetSize {
                depth,
                ..ImageNetResNetSize::RESNET50
            };
            let model = ImageNetResNet::new(size, 224, 1000);
            let specs = model.parameters().into_iter();
            let count: usize = specs.map(|spec| spec.shape.iter().product::<usize>()).sum();
            assert_eq!(count, parameters, "{depth}");
            // `layers` includes the projections of shortcuts. A norm follows each layer but the last.
            assert_eq!(model.layers().len(), layers, "{depth}");
            assert_eq!(model.norms().len(), layers - 1, "{depth}");
            assert_eq!(model.shape(model.segments() - 1).1, 7, "{depth}");
        }
    }
}
