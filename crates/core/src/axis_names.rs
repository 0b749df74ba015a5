//! Values of the axes that are names of a closed list.

use crate::{Format, name::named};

named! {
    /// Library and device that execute the operations.
    pub enum Backend ("backend") {
        /// NVIDIA GPUs through CUDA.
        Cuda = "cuda",
        /// Other GPUs, and lavapipe in CI.
        Vulkan = "vulkan",
        /// The CPU.
        Flex = "flex",
    }
}

named! {
    /// Implementation of attention.
    pub enum Attention ("attention") {
        /// Two matmuls and a softmax as separate operations.
        Math = "math",
        /// One fused kernel.
        Fused = "fused",
    }
}

named! {
    /// Formula of GELU.
    pub enum Gelu ("gelu") {
        /// With the error function.
        Exact = "exact",
        /// Approximation with the hyperbolic tangent; computes 16-bit values in f32.
        Tanh = "tanh",
        /// The tanh approximation on packed pairs of 16-bit values in their own format; only the tanh itself is
        /// computed in f32.
        TanhPacked = "tanh-packed",
    }
}

impl Gelu {
    /// Factor √(2/π) in the tanh approximation, which computes the tanh of `TANH_LINE · (x + TANH_CUBE · x³)` (arXiv 1606.08415).
    pub const TANH_LINE: f64 = 0.797_884_560_802_865_4;
    /// Factor of x³ in the tanh approximation.
    pub const TANH_CUBE: f64 = 0.044_715;
}

named! {
    /// Distribution of the input values of a kernel.
    pub enum Distribution ("distribution") {
        /// Standard normal.
        Normal = "normal",
        /// Uniform on [0, 1).
        Uniform = "uniform",
        /// Exponential of a standard normal: positive values that span many orders of magnitude.
        Lognormal = "lognormal",
        /// Standard normal, except that neighbouring terms of every dot product cancel to about 1/64 of their size.
        Cancellation = "cancellation",
    }
}

named! {
    /// Optimization algorithm.
    pub enum OptimizerKind ("optimizer") {
        /// Stochastic gradient descent.
        Sgd = "sgd",
        /// Adam (arXiv 1412.6980).
        Adam = "adam",
        /// Adam with decoupled weight decay (arXiv 1711.05101).
        AdamW = "adamw",
        /// Layer-wise adaptive rate scaling (arXiv 1708.03888).
        Lars = "lars",
        /// Layer-wise adaptive moments (arXiv 1904.00962).
        Lamb = "lamb",
    }
}

named! {
    /// Scaling of the learning rate with the effective batch size.
    pub enum LearningRateScaling ("learning-rate scaling") {
        /// No scaling.
        None = "none",
        /// Proportional to the effective batch size.
        Linear = "linear",
        /// Proportional to the square root of the effective batch size.
        Sqrt = "sqrt",
    }
}

named! {
    /// Momentum of the running statistics of batch norms when an optimizer step has several micro-batches.
    pub enum BatchNormMomentum ("batch-norm momentum") {
        /// The same momentum for every micro-batch as for a whole batch. With N micro-batches, the running statistics adapt N
        /// times as fast and are noisier.
        Keep = "keep",
        /// The momentum `1 − (1 − m)^(1/N)`, with which N micro-batches move the statistics as far as one whole batch.
        Scaled = "scaled",
    }
}

named! {
    /// Way in which devices combine their gradients.
    pub enum Reduce ("reduce") {
        /// Every device gets the sum and makes the same optimizer step.
        AllReduce = "all-reduce",
        /// One device sums the gradients of each step, makes the optimizer step and distributes the parameters.
        ParameterServer = "parameter-server",
        /// One device applies each gradient when it arrives.
        ParameterServerAsync = "parameter-server-async",
    }
}

named! {
    /// Algorithm of an all-reduce. Algorithms differ in their traffic and in the order of the additions.
    pub enum ReduceAlgorithm ("reduce algorithm") {
        /// Each rank sums one block of the buffer along a ring, then the blocks circulate.
        Ring = "ring",
        /// A binomial tree sums to rank 0, then another one broadcasts the sum.
        Tree = "tree",
        /// Rank 0 receives the buffers of all other ranks, and sends each of them the sum.
        Linear = "linear",
        /// Ranks exchange partial sums with a partner at distance 1, 2, 4, ….
        RecursiveDoubling = "recursive-doubling",
    }
}

named! {
    /// Format in which gradients are sent and summed.
    pub enum ReduceFormat ("reduce format") {
        /// binary64.
        F64 = "f64",
        /// binary32.
        F32 = "f32",
        /// bfloat16.
        Bf16 = "bf16",
        /// binary16.
        F16 = "f16",
    }
}

impl From<ReduceFormat> for Format {
    fn from(format: ReduceFormat) -> Self {
        match format {
            ReduceFormat::F64 => Self::F64,
            ReduceFormat::F32 => Self::F32,
            ReduceFormat::Bf16 => Self::Bf16,
            ReduceFormat::F16 => Self::F16,
        }
    }
}

named! {
    /// On or off.
    pub enum Switch ("switch") {
        /// On.
        On = "on",
        /// Off.
        Off = "off",
    }
}
