//! Settings: one value for each axis.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accumulator, Attention, Axis, AxisValue, Backend, BatchNormMomentum, Distribution, Format, Gelu,
    LearningRateScaling, MatmulPrecision, OptimizerKind, Precision, Switch, TaskKind, ValueError, Workload,
};

/// Resolved setting: a checked value for every axis that applies to the task. The seed is stored in the
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

/// Reason for skipping a cell of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The combination of precision and matmul precision is not defined.
    #[error("`matmul={matmul}` is not defined under `{precision}`: it concerns f32 operands only")]
    Undefined {
        /// Requested matmul precision.
        matmul: MatmulPrecision,
        /// Precision of the setting.
        precision: Precision,
    },
    /// The combination of precision and accumulator is not defined.
    #[error(
        "`accumulator={accumulator}` is not defined under `{precision}`: it concerns 16-bit operands only"
    )]
    UndefinedAccumulator {
        /// Requested accumulator.
        accumulator: Accumulator,
        /// Precision of the setting.
        precision: Precision,
    },
    /// `keep_f32` is not defined for the precision.
    #[error(
        "`keep_f32` is not defined under `{precision}`: only a mixed setting has layers to keep out of it"
    )]
    UndefinedKeepF32 {
        /// Precision of the setting.
        precision: Precision,
    },
    /// Matrix units accumulate in f16 only if the operands are f16.
    #[error("no GPU sums products of bf16 in f16")]
    NoF16SumsOfBf16,
    /// The backend flex executes operations one by one.
    #[error("`fusion=on` does not exist on the flex backend")]
    NoFusionOnFlex,
    /// The axis value is valid but not implemented.
    #[error("`{axis}={value}` is not built yet")]
    NotBuilt {
        /// Axis of the value.
        axis: Axis,
        /// Value that is not implemented.
        value: String,
    },
}

impl Setting {
    /// Returns the setting with the default of every axis that applies to `task`.
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

    /// Returns the setting with the default of every axis that applies to a workload.
    pub fn of(workload: &Workload, backend: Backend) -> Self {
        let Self(mut axes) = Self::defaults(workload.kind(), backend);
        axes.retain(|axis, _| workload.concerns(*axis));
        Self(axes)
    }

    /// Sets the value of an axis. Ignores the seed and axes that do not apply to the task.
    pub fn set(&mut self, axis: Axis, value: AxisValue) -> Result<(), ValueError> {
        let value = axis.value(value)?;
        if let Some(slot) = self.0.get_mut(&axis) {
            *slot = value;
        }
        Ok(())
    }

    /// Returns the reference setting for comparisons: `32-true` without rounding of matmul operands, apart from
    /// rounding inside a fused attention kernel.
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

    /// Returns the value of an axis, if it applies.
    pub fn get(&self, axis: Axis) -> Option<&AxisValue> {
        self.0.get(&axis)
    }

    /// Returns axes and values in the order of [`Axis::ALL`].
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

    /// Returns the [`Precision`].
    pub fn precision(&self) -> Precision {
        self.name(Axis::Precision, Precision::True32)
    }

    /// Returns the [`MatmulPrecision`].
    pub fn matmul(&self) -> MatmulPrecision {
        self.name(Axis::Matmul, MatmulPrecision::Highest)
    }

    /// Returns the [`Accumulator`].
    pub fn accumulator(&self) -> Accumulator {
        self.name(Axis::Accumulator, Accumulator::F32)
    }

    /// Returns the [`Attention`] implementation.
    pub fn attention(&self) -> Attention {
        self.name(Axis::Attention, Attention::Math)
    }

    /// Returns the [`Gelu`] formula.
    pub fn gelu(&self) -> Gelu {
        self.name(Axis::Gelu, Gelu::Exact)
    }

    /// Returns the [`OptimizerKind`].
    pub fn optimizer(&self) -> OptimizerKind {
        self.name(Axis::Optimizer, OptimizerKind::Adam)
    }

    /// Returns the [`LearningRateScaling`].
    pub fn learning_rate_scaling(&self) -> LearningRateScaling {
        self.name(Axis::LearningRateScaling, LearningRateScaling::None)
    }

    /// Returns the [`BatchNormMomentum`].
    pub fn batchnorm_momentum(&self) -> BatchNormMomentum {
        self.name(Axis::BatchNormMomentum, BatchNormMomentum::Keep)
    }

    /// Returns true if the backward pass recomputes activations.
    pub fn checkpointing(&self) -> bool {
        self.name(Axis::Checkpointing, Switch::Off) == Switch::On
    }

    /// Returns the patterns of layers that a mixed setting keeps in f32: names, leading parts of names, and `*` for any
    /// one part.
    pub fn keep_f32(&self) -> &[String] {
        match self.get(Axis::KeepF32) {
            Some(AxisValue::List(patterns)) => patterns,
            _ => &[],
        }
    }

    /// Returns the [`Distribution`] of input values.
    pub fn distribution(&self) -> Distribution {
        self.name(Axis::Distribution, Distribution::Normal)
    }

    /// Returns the backend.
    pub fn backend(&self) -> Backend {
        self.name(Axis::Backend, Backend::Flex)
    }

    /// Returns true if kernels are fused.
    pub fn fusion(&self) -> bool {
        self.name(Axis::Fusion, Switch::Off) == Switch::On
    }

    /// Returns the number of micro-batches per optimizer step.
    pub fn accumulate(&self) -> u32 {
        self.integer(Axis::Accumulate)
    }

    /// Returns the number of examples per micro-batch.
    pub fn batch(&self) -> u32 {
        self.integer(Axis::Batch)
    }

    /// Returns the number of tokens per example.
    pub fn sequence(&self) -> u32 {
        self.integer(Axis::Sequence)
    }

    /// Returns the size of a kernel: the edge of matrices or images, or the length of sequences.
    pub fn size(&self) -> u32 {
        self.integer(Axis::Size)
    }

    /// Returns the epsilon of Adam.
    pub fn adam_eps(&self) -> f64 {
        match self.0.get(&Axis::AdamEps) {
            Some(AxisValue::Number(eps)) => *eps,
            _ => 1e-8,
        }
    }

    /// Returns the reason for which a cell with this setting cannot run on any machine.
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

    /// Returns true if this version implements the value of an axis. Cells with other valid values are planned and
    /// skipped.
    fn is_built(&self, axis: Axis) -> bool {
        match axis {
            // The CPU backend rounds after every product, which is too slow for anything but a single kernel.
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
    /// Writes every axis, e.g. `precision=bf16-mixed matmul=high …`.
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
