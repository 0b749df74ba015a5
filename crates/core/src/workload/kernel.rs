//! Kernel task: one operation and its shape.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Operation of a kernel workload.
    pub enum KernelKind ("kernel") {
        /// Matrix multiplication.
        Matmul = "matmul",
        /// Convolution of images.
        Convolution = "convolution",
        /// Attention: two matmuls and the softmax between them.
        Attention = "attention",
        /// Gaussian error linear unit.
        Gelu = "gelu",
        /// Softmax of every row.
        Softmax = "softmax",
        /// Layer norm of every row.
        LayerNorm = "layer-norm",
        /// Root-mean-square norm of every row (arXiv 1910.07467).
        RmsNorm = "rms-norm",
        /// Cast to the format of matmul-class operations in a mixed setting.
        Cast = "cast",
        /// AdamW optimizer step.
        AdamW = "adamw",
    }
}

impl KernelKind {
    /// Returns true if the operation consists of dot products. The other operations are limited by memory bandwidth.
    pub fn multiplies(self) -> bool {
        matches!(self, Self::Matmul | Self::Convolution | Self::Attention)
    }
}

named! {
    /// State of the last-level cache when a kernel is launched.
    pub enum CacheState ("cache") {
        /// The cache does not contain the inputs. Launches rotate through copies of the inputs that together exceed the
        /// cache.
        Cold = "cold",
        /// The cache contains data of the previous launch, which had the same inputs.
        Warm = "warm",
    }
}

/// Timing of one operation, with its error compared with float64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTask {
    /// Operation and its shape.
    pub kernel: Kernel,
    /// Minimum number of timed launches.
    pub min_samples: u32,
    /// Maximum number of timed launches.
    pub max_samples: u32,
    /// Maximum total time of the timed launches, in seconds. Sampling stops after this time if there are at least
    /// `min_samples` samples.
    pub max_seconds: f64,
    /// Target precision: sampling stops when half the width of the 95 % confidence interval of the median is within
    /// this share of the median.
    pub max_noise: f64,
    /// State of the last-level cache when a launch begins. Records without this field were measured with a warm cache.
    #[serde(default = "warm")]
    pub cache: CacheState,
}

fn warm() -> CacheState {
    CacheState::Warm
}

/// Operation with the part of its shape that the axis `size` does not determine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// `[batch, m, k] × [batch, k, n]`.
    Matmul(MatmulShape),
    /// Images `[batch, channels, size, size]` and filters `[filters, channels, edge, edge]`.
    Convolution(ConvolutionShape),
    /// Queries, keys and values `[batch, heads, size, width]`.
    Attention(AttentionShape),
    /// Values `[rows, width]`.
    Gelu(RowsShape),
    /// Rows of `width` values.
    Softmax(RowsShape),
    /// Rows of `width` values, each value with a scale and a shift.
    LayerNorm(RowsShape),
    /// Rows of `width` values, each value with a scale.
    RmsNorm(RowsShape),
    /// Values `[rows, width]`.
    Cast(RowsShape),
    /// Parameters `[rows, width]`.
    #[serde(rename = "adamw")]
    AdamW(RowsShape),
}

impl Kernel {
    /// Returns the kind of operation.
    pub fn kind(&self) -> KernelKind {
        match self {
            Self::Matmul(_) => KernelKind::Matmul,
            Self::Convolution(_) => KernelKind::Convolution,
            Self::Attention(_) => KernelKind::Attention,
            Self::Gelu(_) => KernelKind::Gelu,
            Self::Softmax(_) => KernelKind::Softmax,
            Self::LayerNorm(_) => KernelKind::LayerNorm,
            Self::RmsNorm(_) => KernelKind::RmsNorm,
            Self::Cast(_) => KernelKind::Cast,
            Self::AdamW(_) => KernelKind::AdamW,
        }
    }

    /// Returns the shape of an operation without dot products.
    pub fn rows(&self) -> Option<RowsShape> {
        match *self {
            Self::Matmul(_) | Self::Convolution(_) | Self::Attention(_) => None,
            Self::Gelu(rows)
            | Self::Softmax(rows)
            | Self::LayerNorm(rows)
            | Self::RmsNorm(rows)
            | Self::Cast(rows)
            | Self::AdamW(rows) => Some(rows),
        }
    }

    /// Returns true if the shape depends on the axis `size`.
    pub fn uses_size(&self) -> bool {
        match self {
            Self::Matmul(shape) => [shape.m, shape.n, shape.k].contains(&None),
            Self::Convolution(_) | Self::Attention(_) => true,
            _ => self.rows().is_some_and(|shape| shape.rows.is_none()),
        }
    }
}

/// Shape of a batched matmul. Absent dimensions are set by the axis `size`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatmulShape {
    /// Batch size.
    pub batch: u32,
    /// Rows of the result.
    pub m: Option<u32>,
    /// Columns of the result.
    pub n: Option<u32>,
    /// Length of the inner dimension.
    pub k: Option<u32>,
}

impl MatmulShape {
    /// One square matmul.
    pub const SQUARE: Self = Self {
        batch: 1,
        m: None,
        n: None,
        k: None,
    };

    /// Returns `[batch, m, n, k]` for a value of the axis `size`.
    pub fn of(&self, size: u32) -> [usize; 4] {
        let edge = |edge: Option<u32>| edge.unwrap_or(size) as usize;
        [self.batch as usize, edge(self.m), edge(self.n), edge(self.k)]
    }
}

/// Shape of a convolution of square images with square filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConvolutionShape {
    /// Number of images.
    pub batch: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Number of filters, which is the number of output channels.
    pub filters: u32,
    /// Rows and columns of a filter.
    pub edge: u32,
    /// Stride in rows and columns.
    pub stride: u32,
    /// Zero padding around an image, in rows and columns.
    pub padding: u32,
}

/// Shape of an attention operation without its sequence length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionShape {
    /// Number of sequences.
    pub batch: u32,
    /// Number of heads.
    pub heads: u32,
    /// Width of a head.
    pub width: u32,
}

/// Shape of the input of a kernel without dot products.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowsShape {
    /// Number of rows; absent: the axis `size`.
    pub rows: Option<u32>,
    /// Values per row.
    pub width: u32,
}

impl RowsShape {
    /// Returns `[rows, width]` for a value of the axis `size`.
    pub fn of(&self, size: u32) -> [usize; 2] {
        [self.rows.unwrap_or(size) as usize, self.width as usize]
    }
}
