//! The precision settings and what each of them means for every kind of tensor.
//!
//! Names are those of Lightning Fabric and of `torch.set_float32_matmul_precision`.

use crate::{format::Format, name::named};

named! {
    /// What the parameters are stored in and what the operations compute in.
    pub enum Precision ("precision") {
        /// Everything in f64.
        True64 = "64-true",
        /// Everything in f32; matmuls subject to [`MatmulPrecision`].
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
    /// Format of parameters, gradients at the update, optimizer state, softmax, norms and losses.
    pub const fn parameters(self) -> Format {
        match self {
            Self::True64 => Format::F64,
            Self::True32 | Self::Mixed16 | Self::MixedBf16 => Format::F32,
            Self::True16 => Format::F16,
            Self::TrueBf16 => Format::Bf16,
        }
    }

    /// Format of the operands and results of matmul-class operations (linear, attention products, convolution).
    pub const fn compute(self) -> Format {
        match self {
            Self::True64 => Format::F64,
            Self::True32 => Format::F32,
            Self::Mixed16 | Self::True16 => Format::F16,
            Self::MixedBf16 | Self::TrueBf16 => Format::Bf16,
        }
    }

    /// Whether matmul-class operations run in another format than the parameters have.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::Mixed16 | Self::MixedBf16)
    }

    /// Whether the loss is scaled dynamically, so that small f16 gradients do not flush to zero.
    pub const fn scales_loss(self) -> bool {
        matches!(self, Self::Mixed16)
    }

    /// Whether `matmul` is defined beside this precision: it concerns f32 operands only.
    pub const fn allows(self, matmul: MatmulPrecision) -> bool {
        matches!(matmul, MatmulPrecision::Highest)
            || matches!(self, Self::True32 | Self::Mixed16 | Self::MixedBf16)
    }

    /// Whether products may be summed in f16: only those of 16-bit operands.
    pub const fn allows_f16_sums(self) -> bool {
        self.compute().bits() == 16
    }
}

named! {
    /// What the multiplier sees of an f32 operand; the accumulator stays f32. Forward and backward alike.
    pub enum MatmulPrecision ("matmul precision") {
        /// f32 operands, 24 bits of significand.
        Highest = "highest",
        /// TF32 operands, 11 bits of significand, round to nearest.
        High = "high",
        /// bf16 operands, 8 bits of significand.
        Medium = "medium",
    }
}

impl MatmulPrecision {
    /// The format into which f32 operands are rounded.
    pub const fn operand(self) -> Format {
        match self {
            Self::Highest => Format::F32,
            Self::High => Format::Tf32,
            Self::Medium => Format::Bf16,
        }
    }
}

named! {
    /// The width in which a matmul sums its products, where the hardware offers the choice.
    pub enum Accumulator ("accumulator") {
        /// Sum in f32.
        F32 = "f32",
        /// Sum in f16.
        F16 = "f16",
    }
}
