//! Names of the files of a run folder.

/// Machine, program and start time of the run ([`Environment`](mantissa_core::Environment)).
pub const ENVIRONMENT_FILE: &str = "environment.json";
/// All cells of the run ([`Plan`](mantissa_core::Plan)).
pub const PLAN_FILE: &str = "plan.json";
/// Settings of the run.
pub const SETTINGS_FILE: &str = "run.json";
/// State of the GPUs before their first cell.
pub const DEVICES_FILE: &str = "devices.json";
/// One [`Record`](mantissa_core::Record) per line and attempt.
pub const RECORDS_FILE: &str = "records.jsonl";
/// Raw samples of an attempt ([`Samples`](mantissa_core::Samples)), in its own folder.
pub const SAMPLES_FILE: &str = "samples.json.gz";
/// Folder with copies of the suites.
pub const SUITES_FOLDER: &str = "suites";
