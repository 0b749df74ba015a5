//! ResNets for CIFAR and ImageNet.

use mantissa_core::{Format, ImageNetResNetSize, ResNetSize};

use super::{COLOURS, Forward};
use crate::estimate::ledger::SavedTensor;

impl Forward {
    /// Adds images of three colour channels, `edge` pixels high and wide.
    fn images(&mut self, edge: u64) -> SavedTensor {
        self.ledger.tensor(self.n * COLOURS * edge * edge, Format::F32)
    }

    /// Adds a convolution and its batch norm. The output has `channels` channels and is `edge` pixels high and wide.
    fn convolve(&mut self, images: SavedTensor, name: &str, [channels, edge]: [u64; 2]) -> SavedTensor {
        let values = self.n * channels * edge * edge;
        let images = self.ledger.layer(images, name, values);
        self.ledger.batch_norm(images, channels)
    }

    /// Adds average pooling of each channel, and the classification layer.
    fn pool_and_classify(&mut self, channels: u64, name: &str) {
        let pooled = self.ledger.full(self.n * channels);
        self.classify(pooled, name);
    }

    pub(super) fn resnet(&mut self, size: &ResNetSize) -> Vec<SavedTensor> {
        let (mut edge, width) = (u64::from(ResNetSize::IMAGE), u64::from(size.width));
        let images = self.images(edge);
        let stem = self.convolve(images, "conv1", [width, edge]);
        let mut hidden = vec![self.ledger.activation(stem)];
        let mut before = hidden[0];
        for stage in 0..3 {
            let channels = width << stage;
            for number in 0..size.blocks() {
                let narrows = stage > 0 && number == 0;
                edge = if narrows { edge.div_ceil(2) } else { edge };
                let name = format!("layer{}.{number}", stage + 1);
                let inner = self.convolve(before, &format!("{name}.conv1"), [channels, edge]);
                let inner = self.ledger.activation(inner);
                let inner = self.convolve(inner, &format!("{name}.conv2"), [channels, edge]);
                let shortcut = match narrows {
                    true => self.ledger.part(before, self.n * channels * edge * edge),
                    false => before,
                };
                let sum = self.ledger.sum([inner, shortcut]);
                before = self.ledger.activation(sum);
                hidden.push(before);
            }
        }
        self.pool_and_classify(width << 2, "linear");
        hidden
    }

    pub(super) fn resnet_imagenet(&mut self, size: &ImageNetResNetSize) -> Vec<SavedTensor> {
        let (blocks, has_bottlenecks) = match size.depth {
            18 => ([2, 2, 2, 2], false),
            _ => ([3, 4, 6, 3], true),
        };
        let expansion = if has_bottlenecks { 4 } else { 1 };
        let width = u64::from(size.width);
        let images = self.images(size.image_size.into());
        let mut edge = u64::from(size.image_size).div_ceil(2);
        let stem = self.convolve(images, "conv1", [width, edge]);
        let stem = self.ledger.activation(stem);
        edge = edge.div_ceil(2);
        let mut before = self.ledger.max_pool(stem, self.n * width * edge * edge);
        let mut hidden = vec![before];
        let mut from = width;
        for (stage, blocks) in (0..).zip(blocks) {
            let (planes, to) = (width << stage, (width << stage) * expansion);
            for number in 0..blocks {
                let stride = if stage > 0 && number == 0 { 2 } else { 1 };
                let (wide, narrow) = (edge, edge.div_ceil(stride));
                edge = narrow;
                let layers = match has_bottlenecks {
                    true => vec![[planes, wide], [planes, narrow], [to, narrow]],
                    false => vec![[to, narrow]; 2],
                };
                let name = format!("layer{}.{number}", stage + 1);
                let mut inner = before;
                for (number, shape) in (1..).zip(layers) {
                    if number > 1 {
                        inner = self.ledger.activation(inner);
                    }
                    inner = self.convolve(inner, &format!("{name}.conv{number}"), shape);
                }
                let shortcut = match stride > 1 || from != to {
                    true => self.convolve(before, &format!("{name}.downsample.0"), [to, edge]),
                    false => before,
                };
                let sum = self.ledger.sum([inner, shortcut]);
                before = self.ledger.activation(sum);
                hidden.push(before);
                from = to;
            }
        }
        self.pool_and_classify(from, "fc");
        hidden
    }
}
