//! The table of axes: names, types, defaults, and the workloads that they apply to. It is the only place that lists the axes.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

use crate::{
    Accumulator, Attention, AxisValue, Backend, BatchNormMomentum, Distribution, Gelu, KernelKind,
    LearningRateScaling, MatmulPrecision, Model, OptimizerKind, Precision, Reduce, ReduceAlgorithm,
    ReduceFormat, Task, TaskKind, UnknownName, Workload,
    axis_value::{AxisType, Rate, Seed, Staleness, Threads},
    name::{in_one_line, named},
};

/// Defines [`Axis`] and [`Setting`].
///
/// - `default` maps the backend to the value of cells whose suite does not set the axis.
/// - `absent` is the value that the accessor of [`Setting`] returns if the axis does not apply.
/// - `tasks` are the tasks to which the axis applies. `workloads`, if present, restricts the axis to workloads with a suitable model or
///   kernel.
/// - `effective`, if present, is the condition under which the axis has an effect in a setting.
macro_rules! axes {
    ($(
        $(#[$doc:meta])*
        $axis:ident = $name:literal => $field:ident: $ty:ty {
            default: $default:expr,
            absent: $absent:expr,
            tasks: $tasks:pat,
            $(workloads: $workloads:expr,)?
            $(effective: $effective:expr,)?
        }
    )+) => {
        named! {
            /// Parameter that a suite can sweep.
            pub enum Axis ("axis") { $($(#[$doc])* $axis = $name),+ }
        }

        impl Axis {
            /// Checks a value and converts it to its canonical form (`1` for a real axis becomes `1.0`).
            pub fn value(self, value: AxisValue) -> Result<AxisValue, ValueError> {
                match self {
                    $(Self::$axis => self.typed::<$ty>(&value).map(|value| value.to_value()),)+
                }
            }

            /// Parses a value, as in `-a accumulate=4`. Patterns are separated by `+`; `none` is an empty list.
            pub fn parse(self, text: &str) -> Result<AxisValue, ValueError> {
                match self {
                    $(Self::$axis => {
                        let value = <$ty>::from_text(text)
                            .ok_or_else(|| self.invalid_value(<$ty>::VALID, &text))?;
                        self.value(value)
                    })+
                }
            }

            /// Returns true if the axis applies to tasks of this kind.
            pub fn applies_to(self, task: TaskKind) -> bool {
                use TaskKind::*;
                match self {
                    $(Self::$axis => matches!(task, $tasks),)+
                }
            }

            /// Returns true if the axis applies to the model or the kernel of a workload, given that it applies to the task.
            fn applies_to_workload(self, workload: &Workload) -> bool {
                match self {
                    $($(Self::$axis => ($workloads as fn(&Workload) -> bool)(workload),)?)+
                    _ => true,
                }
            }

            /// Returns the default value.
            pub fn default_value(self, backend: Backend) -> AxisValue {
                match self {
                    $(Self::$axis => ($default as fn(Backend) -> $ty)(backend).to_value(),)+
                }
            }
        }

        /// Resolved setting: a checked value for every axis that applies to the workload. The seed is stored in the
        /// [`crate::Cell`].
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(try_from = "BTreeMap<Axis, AxisValue>")]
        pub struct Setting {
            $(pub(crate) $field: Option<$ty>,)+
        }

        impl Setting {
            $(
                $(#[$doc])*
                pub fn $field(&self) -> <$ty as AxisType>::Read<'_> {
                    self.$field.as_ref().map_or($absent, AxisType::read)
                }
            )+

            /// Returns the value of an axis, if it applies.
            pub fn get(&self, axis: Axis) -> Option<AxisValue> {
                match axis {
                    $(Axis::$axis => self.$field.as_ref().map(AxisType::to_value),)+
                }
            }

            /// Sets the value of an axis. Ignores the seed and axes that do not apply to the workload.
            pub fn set(&mut self, axis: Axis, value: AxisValue) -> Result<(), ValueError> {
                match axis {
                    $(Axis::$axis => {
                        let value = axis.typed::<$ty>(&value)?;
                        if let Some(slot) = &mut self.$field {
                            *slot = value;
                        }
                    })+
                }
                Ok(())
            }

            /// Sets the value of an axis, whether or not it applies.
            pub(crate) fn assign(&mut self, axis: Axis, value: &AxisValue) -> Result<(), ValueError> {
                match axis {
                    $(Axis::$axis => self.$field = Some(axis.typed(value)?),)+
                }
                Ok(())
            }

            /// Removes the axes that have no effect in this setting. Afterwards, two settings that compute the same are equal.
            #[must_use]
            pub fn without_ineffective_axes(mut self) -> Self {
                $($(
                    if !($effective as fn(&Self) -> bool)(&self) {
                        self.$field = None;
                    }
                )?)+
                self
            }

            /// Sets the default of an axis.
            pub(crate) fn set_default(&mut self, axis: Axis, backend: Backend) {
                match axis {
                    $(Axis::$axis => self.$field = Some(($default as fn(Backend) -> $ty)(backend)),)+
                }
            }
        }
    };
}

impl Axis {
    fn typed<T: AxisType>(self, value: &AxisValue) -> Result<T, ValueError> {
        T::from_value(value)?.ok_or_else(|| self.invalid_value(T::VALID, value))
    }

    /// Returns the error for a value that the axis rejects.
    fn invalid_value(self, valid: &'static str, given: &impl fmt::Display) -> ValueError {
        ValueError::Kind {
            axis: self,
            takes: valid,
            given: in_one_line(given),
        }
    }
}

/// Reason why an axis rejects a value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// The name is not in the list of the axis.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The value has the wrong type for the axis.
    #[error("axis `{axis}` takes {takes}, not `{given}`")]
    Kind {
        /// The axis.
        axis: Axis,
        /// Description of the valid values.
        takes: &'static str,
        /// The rejected value.
        given: String,
    },
}

impl Workload {
    /// Returns true if an axis applies to the task and to its model or kernel.
    pub fn uses(&self, axis: Axis) -> bool {
        axis.applies_to(self.kind()) && axis.applies_to_workload(self)
    }
}

axes! {
    /// Storage and compute formats; see [`Precision`].
    Precision = "precision" => precision: Precision {
        default: |_| Precision::True32,
        absent: Precision::True32,
        tasks: _,
    }
    /// Rounding of f32 operands of matmuls; see [`MatmulPrecision`].
    Matmul = "matmul" => matmul: MatmulPrecision {
        default: |_| MatmulPrecision::Highest,
        absent: MatmulPrecision::Highest,
        tasks: _,
        workloads: |workload| kernel(workload).is_none_or(KernelKind::multiplies),
    }
    /// Number of micro-batches whose gradients are accumulated before an optimizer step.
    Accumulate = "accumulate" => accumulate: u32 {
        default: |_| 1,
        absent: 1,
        tasks: Train,
    }
    /// Examples in a micro-batch.
    Batch = "batch" => batch: u32 {
        default: |_| 8,
        absent: 1,
        tasks: Train | Evaluate | Generate,
    }
    /// Number of tokens to which examples are padded or truncated.
    Sequence = "sequence" => sequence: u32 {
        default: |_| 128,
        absent: 1,
        tasks: Train | Evaluate,
        workloads: |workload| model(workload, |model| !model.takes_images() && *model != Model::Own),
    }
    /// Shape of a kernel workload: edge of the matrices or images, length of the sequences, or number of rows.
    Size = "size" => size: u32 {
        default: |_| 1024,
        absent: 1,
        tasks: Kernel,
        workloads: |workload| matches!(&workload.task, Task::Kernel(task) if task.kernel.uses_size()),
    }
    /// Accumulator format of matmuls; see [`Accumulator`].
    Accumulator = "accumulator" => accumulator: Accumulator {
        default: |_| Accumulator::F32,
        absent: Accumulator::F32,
        tasks: _,
        workloads: |workload| kernel(workload).is_none_or(KernelKind::multiplies),
    }
    /// Implementation of attention; see [`Attention`].
    Attention = "attention" => attention: Attention {
        default: |_| Attention::Math,
        absent: Attention::Math,
        tasks: _,
        workloads: |workload| match kernel(workload) {
            Some(kernel) => kernel == KernelKind::Attention,
            // Generation computes one query at a time, which does not benefit from a fused kernel.
            None => workload.kind() != TaskKind::Generate && model(workload, Model::has_fused_attention),
        },
    }
    /// Formula of GELU; see [`Gelu`].
    Gelu = "gelu" => gelu: Gelu {
        default: |_| Gelu::Exact,
        absent: Gelu::Exact,
        tasks: Kernel,
        workloads: |workload| kernel(workload) == Some(KernelKind::Gelu),
    }
    /// Distribution of the input values of a kernel workload.
    Distribution = "distribution" => distribution: Distribution {
        default: |_| Distribution::Normal,
        absent: Distribution::Normal,
        tasks: Kernel,
    }
    /// Seed of initialisation, shuffling and dropout.
    Seed = "seed" => seed: Seed {
        default: |_| Seed(123),
        absent: 123,
        tasks: _,
    }
    /// Optimization algorithm; see [`OptimizerKind`].
    Optimizer = "optimizer" => optimizer: OptimizerKind {
        default: |_| OptimizerKind::Adam,
        absent: OptimizerKind::Adam,
        tasks: Train,
    }
    /// Maximum learning rate, before [`LearningRateScaling`]. By default that of the workload.
    LearningRate = "learning_rate" => learning_rate: Rate {
        default: |_| Rate(None),
        absent: None,
        tasks: Train,
        effective: |setting| setting.learning_rate().is_some(),
    }
    /// Epsilon of Adam, which is added to its denominator.
    AdamEps = "adam_eps" => adam_eps: f64 {
        default: |_| 1e-8,
        absent: 1e-8,
        tasks: Train,
    }
    /// Scaling of the learning rate with the effective batch size; see [`LearningRateScaling`].
    LearningRateScaling = "learning_rate_scaling" => learning_rate_scaling: LearningRateScaling {
        default: |_| LearningRateScaling::None,
        absent: LearningRateScaling::None,
        tasks: Train,
    }
    /// Momentum of batch norms with gradient accumulation; see [`BatchNormMomentum`].
    BatchNormMomentum = "batchnorm_momentum" => batchnorm_momentum: BatchNormMomentum {
        default: |_| BatchNormMomentum::Keep,
        absent: BatchNormMomentum::Keep,
        tasks: Train,
        workloads: |workload| model(workload, Model::normalises_batches),
    }
    /// Recomputation of activations in the backward pass.
    Checkpointing = "checkpointing" => checkpointing: bool {
        default: |_| false,
        absent: false,
        tasks: Train,
        // A user-defined model cannot be split into blocks.
        workloads: |workload| model(workload, |model| *model != Model::Own),
    }
    /// Kernel fusion, comparable to `torch.compile`. It is on by default if the backend supports it, as in burn.
    Fusion = "fusion" => fusion: bool {
        default: |backend| backend != Backend::Flex,
        absent: false,
        tasks: _,
    }
    /// Patterns of the layers that a mixed setting keeps in f32. A pattern is a layer name or its leading parts; `*` matches any one part.
    KeepF32 = "keep_f32" => keep_f32: Vec<String> {
        default: |_| vec![],
        absent: &[],
        tasks: Train | Evaluate | Generate,
        // The layer names of a user-defined model are unknown.
        workloads: |workload| model(workload, |model| *model != Model::Own),
    }
    /// Number of devices that train one model on parts of each batch. On the CPU, a device is a process.
    Devices = "devices" => devices: u32 {
        default: |_| 1,
        absent: 1,
        tasks: Train,
    }
    /// Way in which devices combine their gradients; see [`Reduce`].
    Reduce = "reduce" => reduce: Reduce {
        default: |_| Reduce::AllReduce,
        absent: Reduce::AllReduce,
        tasks: Train,
        effective: |setting| setting.devices() > 1,
    }
    /// Algorithm of the all-reduce; see [`ReduceAlgorithm`].
    ReduceAlgorithm = "reduce_algorithm" => reduce_algorithm: ReduceAlgorithm {
        default: |_| ReduceAlgorithm::Ring,
        absent: ReduceAlgorithm::Ring,
        tasks: Train,
        effective: |setting| setting.devices() > 1 && setting.reduce() == Reduce::AllReduce,
    }
    /// Format in which gradients are sent and summed; see [`ReduceFormat`].
    ReduceFormat = "reduce_format" => reduce_format: ReduceFormat {
        default: |_| ReduceFormat::F32,
        absent: ReduceFormat::F32,
        tasks: Train,
        effective: |setting| setting.devices() > 1,
    }
    /// Maximum number of optimizer steps that an asynchronous parameter server makes between sending parameters and applying their
    /// gradient. With 0, one worker trains at a time.
    Staleness = "staleness" => staleness: Staleness {
        default: |_| Staleness(8),
        absent: 0,
        tasks: Train,
        effective: |setting| setting.is_asynchronous(),
    }
    /// Number of threads of each device on the CPU. By default, the devices share all cores.
    Threads = "threads" => threads: Threads {
        default: |_| Threads(None),
        absent: None,
        tasks: _,
        effective: |setting| setting.threads().is_some() && setting.backend() == Backend::Flex,
    }
    /// Library and device that execute the operations; see [`Backend`].
    Backend = "backend" => backend: Backend {
        default: |backend| backend,
        absent: Backend::Flex,
        tasks: _,
    }
}

/// Returns the kernel of a kernel workload.
fn kernel(workload: &Workload) -> Option<KernelKind> {
    match &workload.task {
        Task::Kernel(task) => Some(task.kernel.kind()),
        _ => None,
    }
}

/// Returns true if the workload has a model that meets a condition.
fn model(workload: &Workload, condition: impl Fn(&Model) -> bool) -> bool {
    workload.model().is_some_and(condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_valid_value() {
        for &axis in Axis::ALL {
            for &backend in Backend::ALL {
                let value = axis.default_value(backend);
                assert_eq!(axis.value(value.clone()), Ok(value.clone()), "{axis}");
                assert_eq!(axis.parse(&value.to_string()), Ok(value), "{axis}");
            }
        }
    }

    #[test]
    fn invalid_values_are_rejected_with_the_valid_ones() {
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
    fn integer_is_accepted_as_a_number() {
        assert_eq!(
            Axis::AdamEps.value(AxisValue::Integer(1)),
            Ok(AxisValue::Number(1.0))
        );
    }
}
