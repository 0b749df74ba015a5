//! Policy of the gate, read from `gate.toml`: thresholds of relevant changes and temporary allowances.

use std::{collections::BTreeMap, fmt, path::Path};

use mantissa_analysis::{Floor, GATE_LEVEL, GATE_REPEATS, Scale};
use mantissa_core::{Axis, AxisValue, MetricName, Unit, read_text};
use serde::{Deserialize, Serialize};
use toml::value::Datetime;

use crate::{ComparedCell, GateError};

/// Policy of `mantissa gate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// False-positive rate: if the program did not change, the probability that at least one metric is called improved or regressed.
    pub level: f64,
    /// Minimum number of processes of a cell on each side.
    pub repeats: u32,
    /// Maximum number of times that the gate judges a run (looks). More processes are measured before each further look.
    pub looks: u32,
    /// Smallest relevant change (floor) by metric: a relative change (0.03 is a factor of 1.03 or its inverse), or a difference in the
    /// metric's unit for accuracies, shares and losses. A metric without a floor is not judged.
    pub floors: BTreeMap<MetricName, Floor>,
    /// Temporary allowances.
    pub allow: Vec<Allowance>,
}

/// Regression that is allowed until a date.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// Name of the suite; `None` matches any.
    pub suite: Option<String>,
    /// Name of the workload; `None` matches any.
    pub workload: Option<String>,
    /// Axis values that the setting must have.
    #[serde(default)]
    pub setting: BTreeMap<Axis, AxisValue>,
    /// The metric; `None` matches any metric and any finding.
    pub metric: Option<MetricName>,
    /// Last day of the allowance.
    until: Datetime,
    /// Reason, printed with each regression that the allowance matches.
    pub reason: String,
}

/// Calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Day {
    /// Year of the common era.
    pub year: u16,
    /// Month, from 1.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Allowance {
    /// Validates the allowance and normalizes the axis values. Returns a message if the allowance is invalid.
    fn validate(mut self) -> Result<Self, String> {
        if self.until.date.is_none() {
            return Err(format!("`until = {}` is not a date", self.until));
        }
        if self.reason.trim().is_empty() {
            return Err(format!(
                "the allowance until {} has an empty `reason`",
                self.until
            ));
        }
        for (axis, value) in &mut self.setting {
            *value = axis.value(value.clone()).map_err(|error| error.to_string())?;
        }
        Ok(self)
    }

    /// Returns the last day of the allowance.
    pub fn until(&self) -> Day {
        let date = self
            .until
            .date
            .expect("`validate` rejects a value without a date");
        Day {
            year: date.year,
            month: date.month,
            day: date.day,
        }
    }

    /// Returns true if the allowance matches a regression of a cell. `metric`: the regressed metric; `None` for a finding.
    pub fn applies_to(&self, compared: &ComparedCell, metric: Option<MetricName>) -> bool {
        let cell = &compared.cell;
        let matches =
            |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        matches(&self.suite, &cell.suite)
            && matches(&self.workload, &cell.workload.name)
            && self.metric.is_none_or(|allowed| Some(allowed) == metric)
            && self
                .setting
                .iter()
                .all(|(axis, value)| cell.setting.get(*axis).as_ref() == Some(value))
    }
}

/// Groups of redundant metrics. In each, only the first metric that both sides have is judged.
pub(crate) const REDUNDANT_METRICS: [&[MetricName]; 3] = [
    &[
        MetricName::StepSeconds,
        MetricName::TokenSeconds,
        MetricName::FlopsPerSecond,
        MetricName::ValuesPerSecond,
    ],
    &[MetricName::EnergyCounterJoules, MetricName::EnergyIntegralJoules],
    &[MetricName::Perplexity, MetricName::TestLoss],
];

impl Default for Policy {
    fn default() -> Self {
        use MetricName as M;
        let judged = [
            M::StepSeconds,
            M::TokenSeconds,
            M::FlopsPerSecond,
            M::ValuesPerSecond,
            M::SamplesPerSecond,
            M::FirstTokenSeconds,
            M::WarmupSeconds,
            M::WeightsSeconds,
            M::AllocatorReservedPeakBytes,
            M::AllocatorInUsePeakBytes,
            M::DevicePeakBytes,
            M::ProcessPeakBytes,
            M::HostPeakBytes,
            M::EnergyCounterJoules,
            M::EnergyIntegralJoules,
            M::TestAccuracy,
            M::Agreement,
            M::Perplexity,
            M::TestLoss,
            M::FinalLoss,
            M::RelativeError,
            M::MaxUlp,
        ];
        let floor = |metric| Some((metric, Floor::of(metric)?));
        Self {
            level: GATE_LEVEL,
            repeats: Self::MIN_REPEATS,
            looks: 1,
            floors: judged.into_iter().filter_map(floor).collect(),
            allow: vec![],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    level: Option<f64>,
    repeats: Option<u32>,
    #[serde(default)]
    floor: BTreeMap<MetricName, toml::Spanned<Limit>>,
    #[serde(default)]
    allow: Vec<toml::Spanned<Allowance>>,
}

/// Floor of a metric, or `off`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Limit {
    Size(f64),
    Word(String),
}

/// Maximum size of a policy file, in bytes.
const MAX_POLICY_BYTES: u64 = 1 << 20;

impl Policy {
    /// Default file name of a policy, next to the baselines.
    pub const FILE: &str = "gate.toml";
    /// Smallest allowed value of `repeats`. Fewer processes are not enough to estimate the variance between processes.
    pub const MIN_REPEATS: u32 = GATE_REPEATS as u32;

    /// Reads a policy file. Absent keys have their default values.
    ///
    /// # Errors
    /// Fails if the file is not valid TOML, has an unknown key, metric, axis or axis value, or has a limit out of range. Errors contain the
    /// line.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let path = path.to_owned();
        let text = match read_text(&path, MAX_POLICY_BYTES) {
            Ok(text) => text,
            Err(source) => return Err(GateError::ReadPolicy { path, source }),
        };
        Self::parse(&text).map_err(|reason| GateError::Policy { path, reason })
    }

    /// Parses a policy. An error contains the reason and its location.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let mut policy = Self::default();
        if let Some(level) = file.level {
            if !(level > 0.0 && level <= 0.2) {
                return Err(format!(
                    "`level = {level}` is out of range: it must be above 0 and at most 0.2"
                ));
            }
            policy.level = level;
        }
        if let Some(repeats) = file.repeats {
            if repeats < Self::MIN_REPEATS {
                return Err(format!(
                    "`repeats = {repeats}` is too small: estimating the variance between processes takes at least {}",
                    Self::MIN_REPEATS
                ));
            }
            policy.repeats = repeats;
        }
        let line = |start: usize| 1 + text[..start].matches('\n').count();
        for (metric, floor) in file.floor {
            let line = line(floor.span().start);
            let scale = Floor::of(metric).map_or(Scale::Ratio, |floor| floor.scale);
            match floor.into_inner() {
                Limit::Size(size)
                    if scale == Scale::Difference && metric.unit() == Unit::Ratio && size >= 1.0 =>
                {
                    return Err(format!(
                        "line {line}: `{metric} = {size}` is too large: the unit is a fraction, and 0.01 is one percentage point"
                    ));
                }
                Limit::Size(size) if size > 0.0 && size <= 10.0 => {
                    policy.floors.insert(metric, Floor { scale, size });
                }
                Limit::Word(word) if word == "off" => {
                    policy.floors.remove(&metric);
                }
                Limit::Size(limit) => {
                    return Err(format!(
                        "line {line}: `{metric} = {limit}` is not a valid threshold: it must be above 0 and at most 10"
                    ));
                }
                Limit::Word(word) => {
                    return Err(format!(
                        "line {line}: `{metric} = \"{word}\"` is neither a number nor \"off\""
                    ));
                }
            }
        }
        for allowance in file.allow {
            let line = line(allowance.span().start);
            let allowance = allowance.into_inner().validate();
            policy
                .allow
                .push(allowance.map_err(|reason| format!("line {line}: {reason}"))?);
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_file_overrides_the_defaults() {
        assert_eq!(Policy::parse("").unwrap(), Policy::default());
        let policy = Policy::parse(
            "level = 0.05\nrepeats = 7\n[floor]\nstep_seconds = 0.1\nhost_peak_bytes = \"off\"\n",
        )
        .unwrap();
        assert_eq!((policy.level, policy.repeats), (0.05, 7));
        assert_eq!(policy.floors[&MetricName::StepSeconds], Floor::ratio(0.1));
        assert_eq!(policy.floors.get(&MetricName::HostPeakBytes), None);
    }

    #[test]
    fn the_shipped_policy_file_lists_the_default_values() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../baselines/gate.toml");
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(Policy::parse(&text).unwrap(), Policy::default(), "with comments");
        let is_setting = |line: &str| line.starts_with('[') || line.contains(" = ");
        let uncommented: String = text
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|line| is_setting(line))
                    .unwrap_or(line)
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let (settings, allowances) = uncommented.split_once("[[allow]]").unwrap();
        assert_eq!(Policy::parse(settings).unwrap(), Policy::default(), "uncommented");
        let setting_count = settings
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains(" = "))
            .count();
        assert_eq!(
            setting_count,
            2 + Policy::default().floors.len(),
            "`level`, `repeats` and every default floor"
        );
        assert_eq!(
            Policy::parse(&format!("[[allow]]{allowances}"))
                .unwrap()
                .allow
                .len(),
            1
        );
    }

    #[test]
    fn invalid_policies_are_rejected_with_the_reason() {
        let assert_rejected = |text: &str, part: &str| {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        assert_rejected("[floor]\nstep_second = 0.1", "step_second");
        assert_rejected("[floor]\n\nstep_seconds = 0", "line 3");
        assert_rejected("[floor]\nstep_seconds = -0.1", "not a valid threshold");
        assert_rejected("[floor]\nstep_seconds = nan", "not a valid threshold");
        assert_rejected("[floor]\nstep_seconds = inf", "not a valid threshold");
        assert_rejected("[floor]\nstep_seconds = \"no\"", "neither a number nor");
        assert_rejected("level = 0", "out of range");
        assert_rejected("level = nan", "out of range");
        assert_rejected("repeats = 4", "at least 5");
        assert_rejected("repeats = -1", "repeats");
        assert_rejected("speed = 1", "unknown field");
        assert_rejected("[[allow]]\nuntil = 12:00:00\nreason = \"x\"", "not a date");
        assert_rejected("[[allow]]\nuntil = 2027-01-01\nreason = \" \"", "empty `reason`");
        assert_rejected("[[allow]]\nreason = \"x\"", "until");
        // A floor of 1 is the whole range of an accuracy. The author probably means one percentage point.
        assert_rejected("[floor]\ntest_accuracy = 1", "0.01 is one percentage point");
        let allowance_for = |setting: &str| {
            format!("[[allow]]\nuntil = 2027-01-01\nreason = \"x\"\nsetting = {{ {setting} }}")
        };
        assert_rejected(&allowance_for("precision = \"bf16-treu\""), "line 1: ");
        assert_rejected(
            &allowance_for("precision = \"bf16-treu\""),
            "did you mean `bf16-true`",
        );
        assert_rejected(&allowance_for("batch = 0"), "`batch` takes");
        let policy = Policy::parse(&allowance_for("adam_eps = 1")).unwrap();
        assert_eq!(policy.allow[0].setting[&Axis::AdamEps], AxisValue::Number(1.0));
        assert_rejected(
            "[[allow]]\nuntil = 2027-01-01\nreason = \"x\"\nmetric = \"speed\"",
            "speed",
        );
    }
}
