//! Precision settings and the formats that they use for each kind of tensor.
//!
//! The names are those of Lightning Fabric and of `torch.set_float32_matmul_precision`.

use crate::{format::Format, name::named};

named! {
    /// Storage format of the parameters and compute format of the operations.
    pub enum Precision ("precision") {
        /// Everything in f64.
        True64 = "64-true",
        /// Everything in f32; [`MatmulPrecision`] applies to matmuls.
        True32 = "32-true",
        /// f32 parameters, f16 matmuls with dynamic loss scaling, f32 for the rest.
        Mixed16 = "16-mixed",
        /// f32 parameters, bf16 matmuls, f32 for the rest.
        MixedBf16 = "bf16-mixed",
        /// Everything in f16.
        True16 = "16-true",
        /// Everything in bf16.
        TrueBf16 = "bf16-true",
    }
}

impl Precision {
    /// Returns the format of parameters, gradients in the optimizer step, optimizer state, softmax, norms and losses.
    pub const fn parameters(self) -> Format {
        match self {
            Self::True64 => Format::F64,
            Self::True32 | Self::Mixed16 | Self::MixedBf16 => Format::F32,
            Self::True16 => Format::F16,
            Self::TrueBf16 => Format::Bf16,
        }
    }

    /// Returns the format of operands and results of matmul-class operations (linear layers, the matmuls of attention,
    /// convolutions).
    pub const fn compute(self) -> Format {
        match self {
            Self::True64 => Format::F64,
            Self::True32 => Format::F32,
            Self::Mixed16 | Self::True16 => Format::F16,
            Self::MixedBf16 | Self::TrueBf16 => Format::Bf16,
        }
    }

    /// Returns true if matmul-class operations use another format than the parameters.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::Mixed16 | Self::MixedBf16)
    }

    /// Returns true if the loss is scaled dynamically, which keeps small f16 gradients from underflowing.
    pub const fn scales_loss(self) -> bool {
        matches!(self, Self::Mixed16)
    }

    /// Returns true if `matmul` is defined for this precision. Values other than `highest` require f32 operands.
    pub const fn allows(self, matmul: MatmulPrecision) -> bool {
        matches!(matmul, MatmulPrecision::Highest)
            || matches!(self, Self::True32 | Self::Mixed16 | Self::MixedBf16)
    }

    /// Returns true if matmuls may accumulate in f16, which requires 16-bit operands.
    pub const fn allows_f16_accumulator(self) -> bool {
        self.compute().bits() == 16
    }
}

named! {
    /// Format to which f32 operands of matmuls are rounded, in the forward and the backward pass. The accumulator stays
    /// f32.
    pub enum MatmulPrecision ("matmul precision") {
        /// f32 operands with a 24-bit significand.
        Highest = "highest",
        /// TF32 operands with an 11-bit significand, rounded to nearest.
        High = "high",
        /// bf16 operands with an 8-bit significand.
        Medium = "medium",
    }
}

impl MatmulPrecision {
    /// Returns the format to which f32 operands are rounded.
    pub const fn operand(self) -> Format {
        match self {
            Self::Highest => Format::F32,
            Self::High => Format::Tf32,
            Self::Medium => Format::Bf16,
        }
    }
}

named! {
    /// Accumulator format of matmuls, on hardware that supports several.
    pub enum Accumulator ("accumulator") {
        /// Accumulation in f32.
        F32 = "f32",
        /// Accumulation in f16.
        F16 = "f16",
    }
}
