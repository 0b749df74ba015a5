//! One value for each axis.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accumulator, Attention, Axis, AxisValue, Backend, BatchNormMomentum, Distribution, Format, Gelu,
    LearningRateScaling, MatmulPrecision, OptimizerKind, Precision, Switch, TaskKind, ValueError, Workload,
};

/// A resolved setting: every axis that applies to the task has a checked value. The seed stands beside it, in the
/// [`crate::Cell`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "BTreeMap<Axis, AxisValue>")]
#[schemars(!try_from, transparent)]
pub struct Setting(BTreeMap<Axis, AxisValue>);

impl TryFrom<BTreeMap<Axis, AxisValue>> for Setting {
    type Error = ValueError;

    fn try_from(values: BTreeMap<Axis, AxisValue>) -> Result<Self, ValueError> {
        let checked: Result<_, ValueError> = values
            .into_iter()
            .map(|(axis, value)| Ok((axis, axis.value(value)?)))
            .collect();
        Ok(Self(checked?))
    }
}

/// Why a cell of a plan will not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The design gives the combination no meaning.
    #[error("`matmul={matmul}` is not defined under `{precision}`: it concerns f32 operands only")]
    Undefined {
        /// The matmul precision asked for.
        matmul: MatmulPrecision,
        /// The precision it was combined with.
        precision: Precision,
    },
    /// The design gives the combination no meaning.
    #[error(
        "`accumulator={accumulator}` is not defined under `{precision}`: it concerns 16-bit operands only"
    )]
    UndefinedAccumulator {
        /// The accumulator asked for.
        accumulator: Accumulator,
        /// The precision it was combined with.
        precision: Precision,
    },
    /// The design gives the combination no meaning.
    #[error(
        "`keep_f32` is not defined under `{precision}`: only a mixed setting has layers to keep out of it"
    )]
    UndefinedKeepF32 {
        /// The precision it was combined with.
        precision: Precision,
    },
    /// Matrix units sum in f16 what they multiply in f16.
    #[error("no GPU sums products of bf16 in f16")]
    NoF16SumsOfBf16,
    /// flex executes operations one by one.
    #[error("`fusion=on` does not exist on the flex backend")]
    NoFusionOnFlex,
    /// The axis value is part of the design and not built yet.
    #[error("`{axis}={value}` is not built yet")]
    NotBuilt {
        /// The axis.
        axis: Axis,
        /// The value that is missing.
        value: String,
    },
}

impl Setting {
    /// The setting in which every axis that applies to `task` has its default.
    pub fn defaults(task: TaskKind, backend: Backend) -> Self {
        let applicable = Axis::ALL
            .iter()
            .filter(|axis| **axis != Axis::Seed && axis.applies_to(task));
        Self(
            applicable
                .map(|&axis| (axis, axis.default_value(backend)))
                .collect(),
        )
    }

    /// The setting in which every axis that concerns a workload has its default.
    pub fn of(workload: &Workload, backend: Backend) -> Self {
        let Self(mut axes) = Self::defaults(workload.kind(), backend);
        axes.retain(|axis, _| workload.concerns(*axis));
        Self(axes)
    }

    /// Replaces the value of one axis. An axis that the task does not know, and the seed, are left alone.
    pub fn set(&mut self, axis: Axis, value: AxisValue) -> Result<(), ValueError> {
        let value = axis.value(value)?;
        if let Some(slot) = self.0.get_mut(&axis) {
            *slot = value;
        }
        Ok(())
    }

    /// The setting of the same cell that others are compared with: `32-true`, no operand of a product rounded further, but for what one
    /// kernel of attention does by itself.
    #[must_use]
    pub fn in_f32(&self) -> Self {
        let mut reference = self.clone();
        for (axis, name) in [
            (Axis::Precision, Precision::True32.name()),
            (Axis::Matmul, MatmulPrecision::Highest.name()),
            (Axis::Accumulator, Accumulator::F32.name()),
        ] {
            if let Some(value) = reference.0.get_mut(&axis) {
                *value = AxisValue::Text(name.to_owned());
            }
        }
        reference
    }

    /// The value of an axis, if it applies.
    pub fn get(&self, axis: Axis) -> Option<&AxisValue> {
        self.0.get(&axis)
    }

    /// Axes and values, in the order of [`Axis::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Axis, &AxisValue)> {
        self.0.iter().map(|(axis, value)| (*axis, value))
    }

    fn name<T: std::str::FromStr>(&self, axis: Axis, default: T) -> T {
        match self.0.get(&axis) {
            Some(AxisValue::Text(name)) => name.parse().unwrap_or(default),
            _ => default,
        }
    }

    fn integer(&self, axis: Axis) -> u32 {
        match self.0.get(&axis) {
            Some(AxisValue::Integer(n)) => u32::try_from(*n).unwrap_or(u32::MAX),
            _ => 1,
        }
    }

    /// See [`Precision`].
    pub fn precision(&self) -> Precision {
        self.name(Axis::Precision, Precision::True32)
    }

    /// See [`MatmulPrecision`].
    pub fn matmul(&self) -> MatmulPrecision {
        self.name(Axis::Matmul, MatmulPrecision::Highest)
    }

    /// See [`Accumulator`].
    pub fn accumulator(&self) -> Accumulator {
        self.name(Axis::Accumulator, Accumulator::F32)
    }

    /// See [`Attention`].
    pub fn attention(&self) -> Attention {
        self.name(Axis::Attention, Attention::Math)
    }

    /// See [`Gelu`].
    pub fn gelu(&self) -> Gelu {
        self.name(Axis::Gelu, Gelu::Exact)
    }

    /// See [`OptimizerKind`].
    pub fn optimizer(&self) -> OptimizerKind {
        self.name(Axis::Optimizer, OptimizerKind::Adam)
    }

    /// See [`LearningRateScaling`].
    pub fn learning_rate_scaling(&self) -> LearningRateScaling {
        self.name(Axis::LearningRateScaling, LearningRateScaling::None)
    }

    /// See [`BatchNormMomentum`].
    pub fn batchnorm_momentum(&self) -> BatchNormMomentum {
        self.name(Axis::BatchNormMomentum, BatchNormMomentum::Keep)
    }

    /// Whether the backward pass computes activations again.
    pub fn checkpointing(&self) -> bool {
        self.name(Axis::Checkpointing, Switch::Off) == Switch::On
    }

    /// Layers that a mixed setting keeps in f32: names, the first parts of names, `*` for any one part.
    pub fn keep_f32(&self) -> &[String] {
        match self.get(Axis::KeepF32) {
            Some(AxisValue::List(patterns)) => patterns,
            _ => &[],
        }
    }

    /// See [`Distribution`].
    pub fn distribution(&self) -> Distribution {
        self.name(Axis::Distribution, Distribution::Normal)
    }

    /// What executes the operations.
    pub fn backend(&self) -> Backend {
        self.name(Axis::Backend, Backend::Flex)
    }

    /// Whether kernels are fused.
    pub fn fusion(&self) -> bool {
        self.name(Axis::Fusion, Switch::Off) == Switch::On
    }

    /// Micro-batches in an optimizer step.
    pub fn accumulate(&self) -> u32 {
        self.integer(Axis::Accumulate)
    }

    /// Examples in a micro-batch.
    pub fn batch(&self) -> u32 {
        self.integer(Axis::Batch)
    }

    /// Tokens in an example.
    pub fn sequence(&self) -> u32 {
        self.integer(Axis::Sequence)
    }

    /// Edge of a kernel's square matrices.
    pub fn size(&self) -> u32 {
        self.integer(Axis::Size)
    }

    /// Adam's epsilon.
    pub fn adam_eps(&self) -> f64 {
        match self.0.get(&Axis::AdamEps) {
            Some(AxisValue::Number(eps)) => *eps,
            _ => 1e-8,
        }
    }

    /// Why a cell with this setting cannot run anywhere, if so.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        let (precision, matmul) = (self.precision(), self.matmul());
        if !precision.allows(matmul) {
            return Some(SkipReason::Undefined { matmul, precision });
        }
        let accumulator = self.accumulator();
        if accumulator == Accumulator::F16 && !precision.allows_f16_sums() {
            return Some(SkipReason::UndefinedAccumulator {
                accumulator,
                precision,
            });
        }
        if !self.keep_f32().is_empty() && !precision.is_mixed() {
            return Some(SkipReason::UndefinedKeepF32 { precision });
        }
        let bf16 = precision.compute() == Format::Bf16;
        if accumulator == Accumulator::F16 && bf16 && self.backend() != Backend::Flex {
            return Some(SkipReason::NoF16SumsOfBf16);
        }
        if self.backend() == Backend::Flex && self.fusion() {
            return Some(SkipReason::NoFusionOnFlex);
        }
        self.iter()
            .find(|(axis, _)| !self.is_built(*axis))
            .map(|(axis, value)| SkipReason::NotBuilt {
                axis,
                value: value.to_string(),
            })
    }

    /// What this version executes; the rest of the closed lists is parsed, planned and skipped.
    fn is_built(&self, axis: Axis) -> bool {
        match axis {
            // The CPU rounds after every product, which is too slow for more than a single kernel.
            Axis::Accumulator => {
                let kernel = self.get(Axis::Batch).is_none();
                self.accumulator() == Accumulator::F32 || kernel || self.backend() != Backend::Flex
            }
            Axis::Devices => self.integer(axis) == 1,
            _ => true,
        }
    }
}

impl fmt::Display for Setting {
    /// `precision=bf16-mixed matmul=high …`, every axis.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (axis, value)) in self.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{axis}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(Axis, &str)]) -> Setting {
        let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        for (axis, text) in pairs {
            setting.set(*axis, axis.parse(text).unwrap()).unwrap();
        }
        setting
    }

    #[test]
    fn exactly_twelve_of_the_eighteen_precision_pairs_are_defined() {
        let mut defined = 0;
        for precision in Precision::ALL {
            for matmul in MatmulPrecision::ALL {
                let setting = with(&[(Axis::Precision, precision.name()), (Axis::Matmul, matmul.name())]);
                defined += usize::from(setting.skip_reason().is_none());
            }
        }
        assert_eq!(defined, 12);
    }

    #[test]
    fn the_same_in_f32_rounds_no_operand_further_and_is_all_else_that_it_was() {
        let narrow = [
            (Axis::Precision, "16-true"),
            (Axis::Accumulator, "f16"),
            (Axis::Batch, "12"),
        ];
        let wide = with(&[(Axis::Batch, "12")]);
        assert_ne!(with(&narrow), wide);
        assert_eq!(with(&narrow).in_f32(), wide);
        assert_eq!(with(&[(Axis::Matmul, "medium")]).in_f32(), with(&[]));
    }

    #[test]
    fn what_is_not_built_says_so_by_axis_and_value() {
        let reason = with(&[(Axis::Devices, "2")]).skip_reason().unwrap();
        assert_eq!(reason.to_string(), "`devices=2` is not built yet");
        assert!(
            with(&[(Axis::Fusion, "on")])
                .skip_reason()
                .unwrap()
                .to_string()
                .contains("flex")
        );
    }

    #[test]
    fn a_setting_survives_json_and_a_wrong_one_does_not() {
        let setting = with(&[(Axis::AdamEps, "1e-7"), (Axis::Batch, "12")]);
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
        assert!(serde_json::from_str::<Setting>(r#"{"precision":"17-true"}"#).is_err());
    }
}
