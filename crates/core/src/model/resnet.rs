//! Sizes of ResNets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of a ResNet for small images, with three stages of equal depth. The second and the third stage halve height and
/// width and double the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResNetSize {
    /// Layers with weights: `6 n + 2` for `n` blocks per stage.
    pub depth: u32,
    /// Channels of the first stage.
    pub width: u32,
}

impl ResNetSize {
    /// Height and width of the input images.
    pub const IMAGE: u32 = 32;

    /// ResNet-20: 270 thousand parameters.
    pub const RESNET20: Self = Self { depth: 20, width: 16 };

    /// Returns the number of blocks per stage.
    pub fn blocks(&self) -> u32 {
        self.depth.saturating_sub(2) / 6
    }
}

/// Size of a ResNet for large images, with four stages. Each stage after the first halves height and width and doubles
/// the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageNetResNetSize {
    /// Layers with weights: 18, or 50 with bottlenecks.
    pub depth: u32,
    /// Channels of the first stage.
    pub width: u32,
    /// Rows and columns of an image.
    pub image_size: u32,
}

impl ImageNetResNetSize {
    /// ResNet-50: 26 million parameters with 1,000 classes.
    pub const RESNET50: Self = Self {
        depth: 50,
        width: 64,
        image_size: 224,
    };
}
