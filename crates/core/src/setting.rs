//! Defaults, reasons for skipping and serialization of [`Setting`], which the macro in `axes.rs` defines.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::{
    Accumulator, Axis, AxisValue, Backend, Format, MatmulPrecision, Precision, Reduce, ReduceAlgorithm,
    Setting, TaskKind, ValueError, Workload,
};

/// Reason for skipping a cell of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The combination of precision and matmul precision is not defined.
    #[error("`matmul={matmul}` is not defined under `{precision}`: it concerns f32 operands only")]
    UndefinedMatmul {
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
    #[error("`keep_f32` is not defined under `{precision}`: it applies only to mixed precision")]
    UndefinedKeepF32 {
        /// Precision of the setting.
        precision: Precision,
    },
    /// GPUs accumulate in f16 only if the operands are f16.
    #[error("no GPU accumulates matmuls of bf16 operands in f16")]
    Bf16WithF16Accumulator,
    /// The CPU backend (flex) executes operations one by one, without fusion.
    #[error("`fusion=on` does not exist on the flex backend")]
    NoFusionOnFlex,
    /// NCCL, which sums gradients over GPUs, does not have the algorithm.
    #[error("`reduce_algorithm={algorithm}` is not an algorithm of NCCL, which has `ring` and `tree`")]
    NotInNccl {
        /// Requested algorithm of the all-reduce.
        algorithm: ReduceAlgorithm,
    },
    /// The axis value is valid but not implemented.
    #[error("`{axis}={value}` is not implemented yet")]
    NotImplemented {
        /// Axis of the value.
        axis: Axis,
        /// Value that is not implemented.
        value: String,
    },
}

impl Setting {
    /// Returns the setting with the default of every axis that applies to `task`.
    pub fn defaults(task: TaskKind, backend: Backend) -> Self {
        let mut setting = Self::default();
        for axis in Axis::ALL {
            if *axis != Axis::Seed && axis.applies_to(task) {
                setting.set_default(*axis, backend);
            }
        }
        setting
    }

    /// Returns the setting with the default of every axis that applies to a workload.
    pub fn of(workload: &Workload, backend: Backend) -> Self {
        let mut setting = Self::default();
        for axis in Axis::ALL {
            if *axis != Axis::Seed && workload.uses(*axis) {
                setting.set_default(*axis, backend);
            }
        }
        setting
    }

    /// Returns the reference setting for comparisons: `32-true` with matmul operands in f32. A fused attention kernel
    /// may still round its operands.
    #[must_use]
    pub fn in_f32(&self) -> Self {
        Self {
            precision: self.precision.map(|_| Precision::True32),
            matmul: self.matmul.map(|_| MatmulPrecision::Highest),
            accumulator: self.accumulator.map(|_| Accumulator::F32),
            ..self.clone()
        }
    }

    /// Returns the number of examples per optimizer step: micro-batch × accumulation steps × devices. An asynchronous server makes a step with
    /// the gradient of one device.
    pub fn effective_batch(&self) -> u64 {
        let devices = if self.is_asynchronous() { 1 } else { self.devices() };
        let factors = [self.batch(), self.accumulate(), devices];
        factors.into_iter().map(u64::from).fold(1, u64::saturating_mul)
    }

    /// Returns true if a server applies the gradients of several devices one by one.
    pub fn is_asynchronous(&self) -> bool {
        self.devices() > 1 && self.reduce() == Reduce::ParameterServerAsync
    }

    /// Returns true if NCCL sums the gradients of several GPUs.
    pub fn sums_with_nccl(&self) -> bool {
        self.devices() > 1 && self.backend() == Backend::Cuda && self.reduce() == Reduce::AllReduce
    }

    /// Returns axes and values in the order of [`Axis::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Axis, AxisValue)> {
        Axis::ALL
            .iter()
            .filter_map(|axis| Some((*axis, self.get(*axis)?)))
    }

    /// Returns the reason why a cell with this setting cannot run on any machine, otherwise `None`.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        let (precision, matmul) = (self.precision(), self.matmul());
        if !precision.allows(matmul) {
            return Some(SkipReason::UndefinedMatmul { matmul, precision });
        }
        let accumulator = self.accumulator();
        if accumulator == Accumulator::F16 && !precision.allows_f16_accumulator() {
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
            return Some(SkipReason::Bf16WithF16Accumulator);
        }
        if self.backend() == Backend::Flex && self.fusion() {
            return Some(SkipReason::NoFusionOnFlex);
        }
        let algorithm = self.reduce_algorithm();
        if self.sums_with_nccl() && !matches!(algorithm, ReduceAlgorithm::Ring | ReduceAlgorithm::Tree) {
            return Some(SkipReason::NotInNccl { algorithm });
        }
        self.iter()
            .find(|(axis, _)| !self.is_implemented(*axis))
            .map(|(axis, value)| SkipReason::NotImplemented {
                axis,
                value: value.to_string(),
            })
    }

    /// Returns true if this version implements the value of an axis. Cells with other valid values are planned and
    /// skipped.
    fn is_implemented(&self, axis: Axis) -> bool {
        match axis {
            // To accumulate in f16, the CPU backend rounds after every multiplication. This is too slow for models, so on
            // this backend only kernel workloads support it.
            Axis::Accumulator => {
                let kernel = self.batch.is_none();
                self.accumulator() == Accumulator::F32 || kernel || self.backend() != Backend::Flex
            }
            Axis::Devices => self.devices() == 1 || self.backend() != Backend::Vulkan,
            _ => true,
        }
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl TryFrom<BTreeMap<Axis, AxisValue>> for Setting {
    type Error = ValueError;

    fn try_from(values: BTreeMap<Axis, AxisValue>) -> Result<Self, ValueError> {
        let mut setting = Self::default();
        for (axis, value) in values {
            setting.assign(axis, &value)?;
        }
        Ok(setting)
    }
}

impl JsonSchema for Setting {
    fn schema_name() -> Cow<'static, str> {
        <BTreeMap<Axis, AxisValue>>::schema_name()
    }

    fn inline_schema() -> bool {
        <BTreeMap<Axis, AxisValue>>::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <BTreeMap<Axis, AxisValue>>::json_schema(generator)
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

    fn setting_with(pairs: &[(Axis, &str)]) -> Setting {
        let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        for (axis, text) in pairs {
            setting.set(*axis, axis.parse(text).unwrap()).unwrap();
        }
        setting
    }

    #[test]
    fn twelve_of_eighteen_precision_pairs_are_defined() {
        let mut defined = 0;
        for precision in Precision::ALL {
            for matmul in MatmulPrecision::ALL {
                let setting =
                    setting_with(&[(Axis::Precision, precision.name()), (Axis::Matmul, matmul.name())]);
                defined += usize::from(setting.skip_reason().is_none());
            }
        }
        assert_eq!(defined, 12);
    }

    #[test]
    fn in_f32_changes_only_the_formats() {
        let narrow = [
            (Axis::Precision, "16-true"),
            (Axis::Accumulator, "f16"),
            (Axis::Batch, "12"),
        ];
        let wide = setting_with(&[(Axis::Batch, "12")]);
        assert_ne!(setting_with(&narrow), wide);
        assert_eq!(setting_with(&narrow).in_f32(), wide);
        assert_eq!(
            setting_with(&[(Axis::Matmul, "medium")]).in_f32(),
            setting_with(&[])
        );
    }

    #[test]
    fn unimplemented_values_are_skipped_with_a_reason() {
        let reason =
            |axes: &[(Axis, &str)]| setting_with(axes).skip_reason().map(|reason| reason.to_string());
        let (two, vulkan) = ((Axis::Devices, "2"), (Axis::Backend, "vulkan"));
        assert_eq!(reason(&[two]), None);
        let not_implemented = |value: &str| Some(format!("`{value}` is not implemented yet"));
        assert_eq!(reason(&[two, vulkan]), not_implemented("devices=2"));
        assert!(
            setting_with(&[(Axis::Fusion, "on")])
                .skip_reason()
                .unwrap()
                .to_string()
                .contains("flex")
        );
    }

    #[test]
    fn gpus_sum_only_with_the_algorithms_of_nccl() {
        let (two, cuda) = ((Axis::Devices, "2"), (Axis::Backend, "cuda"));
        for algorithm in ReduceAlgorithm::ALL {
            let requested = (Axis::ReduceAlgorithm, algorithm.name());
            let reason = |axes: &[(Axis, &str)]| setting_with(axes).skip_reason();
            let is_in_nccl = matches!(algorithm, ReduceAlgorithm::Ring | ReduceAlgorithm::Tree);
            let expected = (!is_in_nccl).then_some(SkipReason::NotInNccl {
                algorithm: *algorithm,
            });
            assert_eq!(reason(&[two, cuda, requested]), expected);
            let server = (Axis::Reduce, "parameter-server");
            for axes in [
                &[cuda, requested][..],
                &[two, requested],
                &[two, cuda, server, requested],
            ] {
                assert_eq!(reason(axes), None, "{axes:?}");
            }
        }
    }

    #[test]
    fn axes_without_an_effect_are_removed() {
        let reduced = [
            (Axis::ReduceAlgorithm, "tree"),
            (Axis::ReduceFormat, "bf16"),
            (Axis::Threads, "all"),
        ];
        let one = setting_with(&reduced).without_ineffective_axes();
        assert_eq!(one, setting_with(&[]).without_ineffective_axes());
        let absent = [
            Axis::Reduce,
            Axis::ReduceAlgorithm,
            Axis::ReduceFormat,
            Axis::Staleness,
            Axis::Threads,
        ];
        assert!(absent.iter().all(|axis| one.get(*axis).is_none()), "{one}");
        let several = setting_with(&[&reduced[..], &[(Axis::Devices, "2"), (Axis::Threads, "1")]].concat());
        let mut all_reduce = several.clone();
        (all_reduce.staleness, all_reduce.learning_rate) = (None, None);
        assert_eq!(several.without_ineffective_axes(), all_reduce);
        let on_gpu = setting_with(&[(Axis::Threads, "1"), (Axis::Backend, "cuda")]);
        assert_eq!(on_gpu.without_ineffective_axes().get(Axis::Threads), None);
        let server = [(Axis::Devices, "2"), (Axis::Reduce, "parameter-server")];
        let server = setting_with(&server).without_ineffective_axes();
        assert_eq!(server.get(Axis::ReduceAlgorithm), None);
        assert_eq!(server.get(Axis::Staleness), None);
        assert!(server.get(Axis::ReduceFormat).is_some());
        let asynchronous = [(Axis::Devices, "2"), (Axis::Reduce, "parameter-server-async")];
        let asynchronous = setting_with(&asynchronous).without_ineffective_axes();
        assert_eq!(asynchronous.get(Axis::Staleness), Some(AxisValue::Integer(8)));
    }

    #[test]
    fn effective_batch_of_an_asynchronous_server_is_that_of_one_device() {
        let axes = [(Axis::Batch, "4"), (Axis::Accumulate, "3"), (Axis::Devices, "2")];
        let with = |reduce| setting_with(&[&axes[..], &[(Axis::Reduce, reduce)]].concat()).effective_batch();
        assert_eq!(with("all-reduce"), 24);
        assert_eq!(with("parameter-server"), 24);
        assert_eq!(with("parameter-server-async"), 12);
    }

    #[test]
    fn learning_rate_is_a_positive_number_or_that_of_the_workload() {
        let rate = |text| Axis::LearningRate.parse(text);
        assert_eq!(rate("1e-3"), Ok(AxisValue::Number(1e-3)));
        assert_eq!(rate("default"), Ok(AxisValue::Text("default".to_owned())));
        for text in ["0", "-1", "inf", "fast"] {
            let error = rate(text).unwrap_err().to_string();
            assert!(
                error.contains("axis `learning_rate` takes a number above 0, or `default`"),
                "{error}"
            );
        }
        let default = setting_with(&[]).without_ineffective_axes();
        assert_eq!(default.get(Axis::LearningRate), None);
    }

    #[test]
    fn setting_round_trips_through_json() {
        let setting = setting_with(&[(Axis::AdamEps, "1e-7"), (Axis::Batch, "12")]);
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
        assert!(serde_json::from_str::<Setting>(r#"{"precision":"17-true"}"#).is_err());
    }
}
