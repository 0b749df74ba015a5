//! Table of the autocast class of each operation. The class defines the format of the inputs in [`Compute`](crate::Compute).
//!
//! The classes and the lists are those of `torch.autocast("cuda")` in PyTorch 2.15 (`ATen/autocast_mode.h`; "Autocast Op Reference" in the
//! documentation of `torch.amp`). One test compares the table with lists recorded from this version of PyTorch. Another test compares
//! `docs/autocast.md` with the table.

use burn::tensor::DType;
use mantissa_core::Precision;

use crate::dtypes::dtype;

/// Cast that autocast applies to the inputs of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpClass {
    /// Cast to the format of matmuls, f16 or bf16, for operations that hardware executes fast in these formats, with sums in f32.
    Lower,
    /// Cast to the format of the parameters, f32, for operations that need range or precision.
    Full,
    /// Cast to the widest format of the inputs, for operations that also run in 16-bit formats, but need inputs of one
    /// format.
    Widest,
    /// No cast, for operations that also run in 16-bit formats and have one input.
    Inputs,
}

impl OpClass {
    /// All classes, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Lower, Self::Full, Self::Widest, Self::Inputs];

    /// Returns the dtype to which inputs of these dtypes are cast. In true settings (such as `16-true`), [`OpClass::Lower`] and
    /// [`OpClass::Full`] cast to the same dtype.
    ///
    /// # Panics
    /// If there is no input.
    pub fn dtype(self, precision: Precision, inputs: &[DType]) -> DType {
        match self {
            Self::Lower => dtype(precision.compute()),
            Self::Full => dtype(precision.parameters()),
            Self::Widest => inputs
                .iter()
                .copied()
                .reduce(wider)
                .expect("an operation has at least one input"),
            Self::Inputs => inputs[0],
        }
    }
}

/// Returns the narrowest format that represents all values of both formats. For f16 and bf16 this is f32.
fn wider(a: DType, b: DType) -> DType {
    if a == b {
        a
    } else if a == DType::F64 || b == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Operation with a method of [`Compute`](crate::Compute).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// [`Compute::matmul`](crate::Compute::matmul).
    Matmul,
    /// [`Compute::linear`](crate::Compute::linear).
    Linear,
    /// [`Compute::convolution`](crate::Compute::convolution).
    Convolution,
    /// [`Compute::attention`](crate::Compute::attention) in one kernel. In separate steps, its matmuls and softmax each
    /// have their own class.
    Attention,
    /// [`Compute::softmax`](crate::Compute::softmax).
    Softmax,
    /// [`Compute::layer_norm`](crate::Compute::layer_norm).
    LayerNorm,
    /// [`Compute::rms_norm`](crate::Compute::rms_norm).
    RmsNorm,
    /// [`Compute::cross_entropy_sum`](crate::Compute::cross_entropy_sum).
    CrossEntropySum,
    /// [`Compute::add`](crate::Compute::add).
    Add,
    /// [`Compute::mul`](crate::Compute::mul).
    Mul,
    /// [`Compute::gelu`](crate::Compute::gelu).
    Gelu,
    /// [`Compute::silu`](crate::Compute::silu).
    Silu,
    /// [`Compute::dropout`](crate::Compute::dropout).
    Dropout,
    /// [`Compute::batch_norm`](crate::Compute::batch_norm), and its variant for training.
    BatchNorm,
}

impl Operation {
    /// Returns the class of the operation in the table.
    pub fn class(self) -> OpClass {
        let mut rows = OPERATIONS.iter();
        let row = rows.find(|row| row.method == Some(self));
        row.expect("every operation is in the table").class
    }

    /// Returns the name of the method.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Linear => "linear",
            Self::Convolution => "convolution",
            Self::Attention => "attention",
            Self::Softmax => "softmax",
            Self::LayerNorm => "layer_norm",
            Self::RmsNorm => "rms_norm",
            Self::CrossEntropySum => "cross_entropy_sum",
            Self::Add => "add",
            Self::Mul => "mul",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::Dropout => "dropout",
            Self::BatchNorm => "batch_norm",
        }
    }
}

/// Row of the table: operations of PyTorch in one class, and the operation of [`Compute`](crate::Compute) that
/// implements them.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Cast of the inputs.
    pub class: OpClass,
    /// Operation that implements the row. For `None`, call burn's own operation. Cast its inputs with
    /// [`Compute::operand`](crate::Compute::operand) for class [`OpClass::Lower`] and with
    /// [`Compute::full`](crate::Compute::full) for class [`OpClass::Full`].
    pub method: Option<Operation>,
    /// Names in PyTorch.
    pub torch: &'static [&'static str],
}

const fn row_with_method(class: OpClass, method: Operation, torch: &'static [&'static str]) -> Row {
    Row {
        class,
        method: Some(method),
        torch,
    }
}

const fn row_without_method(class: OpClass, torch: &'static [&'static str]) -> Row {
    Row {
        class,
        method: None,
        torch,
    }
}

/// Table of operations by class. PyTorch's own lists omit `add` and `mul`, which promote to the widest format by themselves. They also omit
/// `gelu`, `silu`, `dropout` and `batch_norm`.
#[rustfmt::skip]
pub const OPERATIONS: &[Row] = &[
    row_with_method(OpClass::Lower, Operation::Matmul, &["matmul", "mm", "bmm", "mv"]),
    row_with_method(OpClass::Lower, Operation::Linear, &["linear", "addmm"]),
    row_with_method(OpClass::Lower, Operation::Convolution, &["conv2d", "convolution", "_convolution", "cudnn_convolution"]),
    row_with_method(OpClass::Lower, Operation::Attention, &["scaled_dot_product_attention", "_scaled_dot_product_flash_attention"]),
    row_without_method(OpClass::Lower, &[
        "addbmm", "addmv", "addr", "baddbmm", "chain_matmul", "einsum", "linalg_multi_dot", "linalg_vecdot",
        "conv1d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "cudnn_convolution_transpose", "prelu", "_cudnn_rnn", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
        "gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell",
    ]),
    row_with_method(OpClass::Full, Operation::Softmax, &["softmax"]),
    row_with_method(OpClass::Full, Operation::LayerNorm, &["layer_norm", "native_layer_norm"]),
    row_with_method(OpClass::Full, Operation::RmsNorm, &["rms_norm"]),
    row_with_method(OpClass::Full, Operation::CrossEntropySum, &["log_softmax", "nll_loss", "nll_loss2d"]),
    row_without_method(OpClass::Full, &[
        "group_norm", "logsumexp",
        "sum", "prod", "cumsum", "cumprod",
        "norm", "frobenius_norm", "nuclear_norm", "linalg_matrix_norm", "linalg_vector_norm", "linalg_matrix_sqrth",
        "renorm", "dist", "cdist", "pdist", "cosine_similarity",
        "exp", "expm1", "log", "log10", "log1p", "log2", "pow", "reciprocal", "rsqrt", "softplus",
        "acos", "asin", "cosh", "erfinv", "sinh", "tan",
        "binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss", "huber_loss", "kl_div",
        "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "poisson_nll_loss",
        "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
        "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
        "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    ]),
    row_with_method(OpClass::Widest, Operation::Add, &["add"]),
    row_with_method(OpClass::Widest, Operation::Mul, &["mul"]),
    row_without_method(OpClass::Widest, &[
        "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "scatter_add",
        "tensordot",
    ]),
    row_with_method(OpClass::Inputs, Operation::Gelu, &["gelu"]),
    row_with_method(OpClass::Inputs, Operation::Silu, &["silu"]),
    row_with_method(OpClass::Inputs, Operation::Dropout, &["dropout"]),
    row_with_method(OpClass::Inputs, Operation::BatchNorm, &["batch_norm"]),
];
