//! Axes that a suite can sweep, and their values.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accumulator, MatmulPrecision, Precision, TaskKind, UnknownName,
    name::{in_one_line, named},
};

named! {
    /// Parameter that a suite can sweep.
    pub enum Axis ("axis") {
        /// Storage and compute formats; see [`Precision`].
        Precision = "precision",
        /// Rounding of f32 operands of matmuls; see [`MatmulPrecision`].
        Matmul = "matmul",
        /// Number of micro-batches whose gradients are accumulated before an optimizer step.
        Accumulate = "accumulate",
        /// Examples in a micro-batch.
        Batch = "batch",
        /// Number of tokens to which examples are padded or truncated.
        Sequence = "sequence",
        /// Edge of the matrices or images of a kernel workload, or length of its sequences.
        Size = "size",
        /// Accumulator format of matmuls; see [`Accumulator`].
        Accumulator = "accumulator",
        /// Implementation of attention; see [`Attention`].
        Attention = "attention",
        /// Formula of GELU; see [`Gelu`].
        Gelu = "gelu",
        /// Distribution of the input values of a kernel workload.
        Distribution = "distribution",
        /// Seed of initialisation, shuffling and dropout.
        Seed = "seed",
        /// Optimization algorithm; see [`OptimizerKind`].
        Optimizer = "optimizer",
        /// Epsilon of Adam, which is added to its denominator.
        AdamEps = "adam_eps",
        /// Scaling of the learning rate with the effective batch size; see [`LearningRateScaling`].
        LearningRateScaling = "learning_rate_scaling",
        /// Momentum of batch norms with gradient accumulation; see [`BatchNormMomentum`].
        BatchNormMomentum = "batchnorm_momentum",
        /// Recomputation of activations in the backward pass.
        Checkpointing = "checkpointing",
        /// Kernel fusion, comparable to `torch.compile`.
        Fusion = "fusion",
        /// Layer patterns kept in f32 under a mixed setting.
        KeepF32 = "keep_f32",
        /// Number of devices.
        Devices = "devices",
        /// Library and device that execute the operations; see [`Backend`].
        Backend = "backend",
    }
}

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
    /// Factor of the tanh approximation, √(2/π): it computes tanh of `TANH_LINE · (x + TANH_CUBE · x³)` (arXiv 1606.08415).
    pub const TANH_LINE: f64 = 0.797_884_560_802_865_4;
    /// Factor of the cube in the tanh approximation.
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
        /// The same momentum for every micro-batch as for a whole batch. With N micro-batches, the statistics forget N
        /// times as fast and are noisier.
        Keep = "keep",
        /// The momentum `1 − (1 − m)^(1/N)`, with which N micro-batches move the statistics as far as one whole batch.
        Scaled = "scaled",
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

/// Value of an axis in suites, on the command line and in records. [`Axis::value`] checks a value and [`Axis::parse`]
/// reads one from text.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)] // unambiguous: each variant has its own JSON type
pub enum AxisValue {
    /// A whole number.
    Integer(u64),
    /// A real number.
    Number(f64),
    /// One of a closed list of names.
    Text(String),
    /// A list of patterns.
    List(Vec<String>),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => write!(f, "{value:e}"),
            Self::Text(value) => f.pad(value),
            Self::List(values) if values.is_empty() => f.pad("none"),
            Self::List(values) => f.pad(&values.join("+")),
        }
    }
}

/// Reason for which an axis rejects a value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// The name is not in the list of the axis.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The value has the wrong type for the axis.
    #[error("axis `{axis}` takes {takes}, not `{given}`")]
    Kind {
        /// Name of the axis.
        axis: Axis,
        /// Description of the valid values.
        takes: &'static str,
        /// The rejected value.
        given: String,
    },
}

/// Type of the values of an axis.
enum Kind {
    Names(fn(&str) -> Result<(), UnknownName>),
    /// Whole numbers that are at least this one.
    Integer(u64),
    Number,
    Patterns,
}

fn names<T: std::str::FromStr<Err = UnknownName>>(text: &str) -> Result<(), UnknownName> {
    text.parse::<T>().map(drop)
}

impl Axis {
    fn kind(self) -> Kind {
        match self {
            Self::Precision => Kind::Names(names::<Precision>),
            Self::Matmul => Kind::Names(names::<MatmulPrecision>),
            Self::Accumulator => Kind::Names(names::<Accumulator>),
            Self::Attention => Kind::Names(names::<Attention>),
            Self::Gelu => Kind::Names(names::<Gelu>),
            Self::Distribution => Kind::Names(names::<Distribution>),
            Self::Optimizer => Kind::Names(names::<OptimizerKind>),
            Self::LearningRateScaling => Kind::Names(names::<LearningRateScaling>),
            Self::BatchNormMomentum => Kind::Names(names::<BatchNormMomentum>),
            Self::Checkpointing | Self::Fusion => Kind::Names(names::<Switch>),
            Self::Backend => Kind::Names(names::<Backend>),
            Self::Accumulate | Self::Batch | Self::Sequence | Self::Size | Self::Devices => Kind::Integer(1),
            Self::Seed => Kind::Integer(0),
            Self::AdamEps => Kind::Number,
            Self::KeepF32 => Kind::Patterns,
        }
    }

    fn takes(self) -> &'static str {
        match self.kind() {
            Kind::Names(_) => "one of its names",
            Kind::Integer(0) => "a whole number",
            Kind::Integer(_) => "a whole number of 1 or more",
            Kind::Number => "a number of 0 or more",
            Kind::Patterns => "a list of layer patterns",
        }
    }

    /// Checks a value and converts it to its canonical form (`1` for a real axis becomes `1.0`).
    pub fn value(self, value: AxisValue) -> Result<AxisValue, ValueError> {
        match (self.kind(), value) {
            (Kind::Names(check), AxisValue::Text(name)) => {
                check(&name)?;
                Ok(AxisValue::Text(name))
            }
            (Kind::Integer(least), AxisValue::Integer(n)) if n >= least && n <= u64::from(u32::MAX) => {
                Ok(AxisValue::Integer(n))
            }
            (Kind::Number, AxisValue::Integer(n)) => Ok(AxisValue::Number(n as f64)),
            (Kind::Number, AxisValue::Number(x)) if x.is_finite() && x >= 0.0 => Ok(AxisValue::Number(x)),
            (Kind::Patterns, AxisValue::List(patterns)) => Ok(AxisValue::List(patterns)),
            (_, other) => Err(ValueError::Kind {
                axis: self,
                takes: self.takes(),
                given: in_one_line(&other),
            }),
        }
    }

    /// Parses a value, as in `-a accumulate=4`. Patterns are separated by `+`; `none` is an empty list.
    pub fn parse(self, text: &str) -> Result<AxisValue, ValueError> {
        let wrong = || ValueError::Kind {
            axis: self,
            takes: self.takes(),
            given: in_one_line(&text),
        };
        let value = match self.kind() {
            Kind::Names(_) => AxisValue::Text(text.to_owned()),
            Kind::Integer(_) => AxisValue::Integer(text.parse().map_err(|_| wrong())?),
            Kind::Number => AxisValue::Number(text.parse().map_err(|_| wrong())?),
            Kind::Patterns if text == "none" => AxisValue::List(vec![]),
            Kind::Patterns => AxisValue::List(text.split('+').map(str::to_owned).collect()),
        };
        self.value(value)
    }

    /// Returns true if the axis applies to tasks of this kind.
    pub fn applies_to(self, task: TaskKind) -> bool {
        match self {
            Self::Precision
            | Self::Matmul
            | Self::Accumulator
            | Self::Seed
            | Self::Attention
            | Self::Fusion
            | Self::Backend => true,
            Self::Size | Self::Gelu | Self::Distribution => task == TaskKind::Kernel,
            Self::Batch | Self::KeepF32 => task != TaskKind::Kernel,
            Self::Sequence => matches!(task, TaskKind::Train | TaskKind::Evaluate),
            Self::Accumulate
            | Self::Optimizer
            | Self::AdamEps
            | Self::LearningRateScaling
            | Self::BatchNormMomentum
            | Self::Checkpointing
            | Self::Devices => task == TaskKind::Train,
        }
    }

    /// Returns the default value. Fusion is on if the backend supports it, as in burn.
    pub fn default_value(self, backend: Backend) -> AxisValue {
        let text = |name: &str| AxisValue::Text(name.to_owned());
        match self {
            Self::Precision => text(Precision::True32.name()),
            Self::Matmul => text(MatmulPrecision::Highest.name()),
            Self::Accumulator => text(Accumulator::F32.name()),
            Self::Attention => text(Attention::Math.name()),
            Self::Gelu => text(Gelu::Exact.name()),
            Self::Distribution => text(Distribution::Normal.name()),
            Self::Optimizer => text(OptimizerKind::Adam.name()),
            Self::LearningRateScaling => text(LearningRateScaling::None.name()),
            Self::BatchNormMomentum => text(BatchNormMomentum::Keep.name()),
            Self::Checkpointing => text(Switch::Off.name()),
            Self::Fusion if backend == Backend::Flex => text(Switch::Off.name()),
            Self::Fusion => text(Switch::On.name()),
            Self::Backend => text(backend.name()),
            Self::Accumulate | Self::Devices => AxisValue::Integer(1),
            Self::Batch => AxisValue::Integer(8),
            Self::Sequence => AxisValue::Integer(128),
            Self::Size => AxisValue::Integer(1024),
            Self::Seed => AxisValue::Integer(123),
            Self::AdamEps => AxisValue::Number(1e-8),
            Self::KeepF32 => AxisValue::List(vec![]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_axis() {
        for &axis in Axis::ALL {
            for &backend in Backend::ALL {
                let value = axis.default_value(backend);
                assert_eq!(axis.value(value.clone()), Ok(value.clone()), "{axis}");
                assert_eq!(axis.parse(&value.to_string()), Ok(value), "{axis}");
            }
        }
    }

    #[test]
    fn values_of_the_wrong_kind_are_refused_with_what_the_axis_takes() {
        let error = Axis::Batch.parse("0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "axis `batch` takes a whole number of 1 or more, not `0`"
        );
        assert!(Axis::AdamEps.parse("-1").is_err());
        assert!(Axis::AdamEps.parse("NaN").is_err());
        assert!(
            Axis::Matmul
                .parse("hihg")
                .unwrap_err()
                .to_string()
                .contains("did you mean `high`")
        );
    }

    #[test]
    fn a_whole_number_is_a_real_one_too() {
        assert_eq!(
            Axis::AdamEps.value(AxisValue::Integer(1)),
            Ok(AxisValue::Number(1.0))
        );
    }
}
