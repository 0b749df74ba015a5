//! Reader of run folders. Run folders may come from untrusted sources: only regular files are read, and the sizes of
//! records and samples are limited. Symbolic links are followed.
//!
//! ```text
//! environment.json          machine, program and start time of the run
//! plan.json                 all cells
//! run.json                  settings of the run, for `--resume`
//! devices.json              state of the GPUs before their first cell; absent without a GPU
//! records.jsonl             one record per line and attempt
//! suites/NAME.toml          copies of the suites
//! cells/ID/REPEAT-ATTEMPT/  files of an attempt: `samples.json.gz`, `stderr.txt`, and
//!                           `weights.safetensors` with `--save-weights`
//! ```
//! A cell is one workload with one setting and one seed. Every repeat of a cell runs in a new process. A repeat can have
//! several attempts.
//!
//! `mantissa-runner` writes the folder. The report, the gate and `--resume` read it with this crate.

mod error;
mod file_names;
mod json_file;
mod json_lines;
mod reader;
mod selected_series;

pub use error::{FolderError, Location};
pub use file_names::{
    DEVICES_FILE, ENVIRONMENT_FILE, PLAN_FILE, RECORDS_FILE, SAMPLES_FILE, SETTINGS_FILE, SUITES_FOLDER,
};
pub use json_file::read_json;
pub use json_lines::{JsonLine, JsonLines, RecordReader};
pub use reader::{LatestRecords, RunReader};
pub use selected_series::SampleSelection;
