//! Types shared by all other crates of Mantissa: number formats, precision settings, the axes of suites, cells, plans,
//! metrics and records. The crate does not depend on burn and does not read the clock.
//!
//! Data flows one way: suite → [`Plan`] → worker → [`Record`] → report.

mod axes;
mod axis_names;
mod axis_value;
mod bit_rounding;
mod cell;
mod claim;
mod command_line;
mod dataset;
mod error_causes;
mod event;
mod explain;
mod files;
mod fingerprint;
mod format;
mod format_trial;
mod input;
mod kernel_check;
mod layout;
mod metric;
mod model;
mod name;
mod phase;
mod plan;
mod precision;
mod range;
mod record;
mod samples;
mod series;
mod setting;
mod support;
mod values;
mod workload;

pub use axes::{Axis, Setting, ValueError};
pub use axis_names::{
    Attention, Backend, BatchNormMomentum, Distribution, Gelu, LearningRateScaling, OptimizerKind, Reduce,
    ReduceAlgorithm, ReduceFormat, Switch,
};
pub use axis_value::AxisValue;
pub use bit_rounding::BitRounding;
pub use cell::{Cell, CellId, CellMaker};
pub use claim::{Bounds, Claim, ClaimSource, Claimed, Comparison};
pub use command_line::command_line;
pub use dataset::DatasetKind;
pub use error_causes::error_with_causes;
pub use event::{Event, EventKind};
pub use explain::{Example, Explanation, explain};
pub use files::{
    Bounded, MAX_CONFIGURATION_BYTES, MAX_RECORD_BYTES, MAX_SAMPLES_BYTES, MAX_SUITE_BYTES, Replacement,
    create_folder_below, is_exhausted, open_limited, open_own_program, open_regular, read_limited, read_line,
    read_regular, read_text, write_whole,
};
pub use fingerprint::{ClassCount, DataSource, Environment, Fingerprint, Gpu};
pub use format::{FloatClass, Format, Rounded};
pub use format_trial::FormatTrial;
pub use input::{InputDifference, InputFile, InputRole, data_difference, input_difference};
pub use kernel_check::{
    CandidateKernel, CheckVerdict, CheckedCandidate, CheckedOperation, KernelCheck, UNCHECKED_KERNELS,
};
pub use layout::{InvalidLayout, Layout};
pub use metric::{Better, Metric, MetricName, Unit};
pub use model::{
    BertSize, BloomSize, DistilBertSize, Gpt2Size, ImageNetResNetSize, LlamaSize, Model, NORM_EPSILON,
    ResNetSize, RopeScaling, VitSize,
};
pub use name::{MAX_NAME_BYTES, UnknownName, check_file_name, in_one_line, nearest};
pub use phase::Phase;
pub use plan::{Expectation, MAX_REPEATS, Plan, PlannedCell, Profile, SuiteInfo};
pub use precision::{Accumulator, MatmulPrecision, Precision};
pub use range::{RangeCounts, TensorClass, TensorRange};
pub use record::{Executed, ExecutedVerdict, Record, Requested, SCHEMA_VERSION, Status};
pub use samples::Samples;
pub use series::{Series, SeriesName};
pub use setting::SkipReason;
pub use support::Support;
pub use values::Values;
pub use workload::{
    AttentionShape, CacheState, ConvolutionShape, EvaluateTask, GenerateTask, Kernel, KernelKind, KernelTask,
    LearningRateSchedule, MatmulShape, RowsShape, Split, Task, TaskKind, TrainTask, Updates, Workload,
};
