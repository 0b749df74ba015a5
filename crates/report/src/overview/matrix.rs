//! Matrix of precision settings and their effects on this machine. A column takes all values from one workload.

use mantissa_analysis::Estimate;
use mantissa_core::{
    Axis, ExecutedVerdict, Kernel, MatmulPrecision, MatmulShape, MetricName, Precision, TaskKind,
};

use crate::{
    Group, Report, Suite,
    headline::LargestSize,
    launches, memory_parts,
    setting::{SettingResult, accuracy_change, memory_text, precision_label, ratio_text},
    shape,
    units::{self, Scale},
};

/// Mark of a value whose setting executed another precision than requested.
pub(crate) const DIFFERS: &str = " †";

/// Effects of each precision setting.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// Columns.
    pub columns: Vec<MatrixColumn>,
    /// Precision settings, from the widest to the narrowest, with a field per column.
    pub rows: Vec<(String, Vec<MatrixField>)>,
}

/// Column of the matrix.
#[derive(Debug)]
pub(crate) struct MatrixColumn {
    /// Title.
    pub title: &'static str,
    /// Title for a narrow terminal.
    pub short_title: &'static str,
    /// Index of the suite in the report.
    pub suite: usize,
    /// Workload of all values of the column, with the suite if its name differs, and the axes that are the same for all values.
    pub source: String,
    /// Value of the baseline, which ratios refer to.
    pub baseline: Option<String>,
}

/// Field of the matrix.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MatrixField {
    /// Value, or ratio to the baseline with its certainty.
    pub text: String,
    /// The same without the certainty.
    pub short: String,
    /// Status of a setting that did not finish.
    pub status: Option<&'static str>,
    /// `true` if the setting executed another precision than requested.
    pub differs: bool,
}

/// Kind of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quantity {
    MatmulError,
    MatmulSpeed,
    TrainingSpeed,
    Memory,
    AccuracyChange,
    TokensPerSecond,
}

impl Quantity {
    const ALL: [Self; 6] = [
        Self::MatmulError,
        Self::MatmulSpeed,
        Self::TrainingSpeed,
        Self::Memory,
        Self::AccuracyChange,
        Self::TokensPerSecond,
    ];

    fn title(self, group: &Group<'_>) -> &'static str {
        match self {
            Self::MatmulError => "matmul error",
            Self::MatmulSpeed => "matmul speed",
            Self::TrainingSpeed => "training speed",
            Self::Memory if memory_parts::replace_peak(group) => "tensor memory",
            Self::Memory => group.memory.map_or("memory", units::memory_noun),
            Self::AccuracyChange => "accuracy change",
            Self::TokensPerSecond => "tokens/s",
        }
    }

    fn short_title(self) -> &'static str {
        match self {
            Self::MatmulError => "error",
            Self::MatmulSpeed => "matmul",
            Self::TrainingSpeed => "training",
            Self::Memory => "memory",
            Self::AccuracyChange => "accuracy",
            Self::TokensPerSecond => "tokens/s",
        }
    }

    fn is_speed(self) -> bool {
        matches!(
            self,
            Self::MatmulSpeed | Self::TrainingSpeed | Self::TokensPerSecond
        )
    }

    /// Returns the metric of a group.
    fn metric(self, group: &Group<'_>) -> Option<MetricName> {
        match self {
            Self::MatmulError => Some(MetricName::RelativeError),
            Self::MatmulSpeed | Self::TrainingSpeed | Self::TokensPerSecond => Some(group.speed),
            Self::Memory => group.memory,
            Self::AccuracyChange => Some(MetricName::TestAccuracy),
        }
    }

    /// Returns the rank of a group as the source of a column, the best first; `None` if it does not have the quantity.
    fn rank(self, group: &Group<'_>) -> Option<usize> {
        let kernel = group
            .rows
            .first()
            .and_then(|row| shape::kernel(&row.cell.workload));
        let rank = match (self, group.kind) {
            (Self::MatmulError | Self::MatmulSpeed, _) => match kernel? {
                Kernel::Matmul(MatmulShape::SQUARE) => 0,
                Kernel::Matmul(_) => 1,
                _ => return None,
            },
            (Self::TrainingSpeed | Self::Memory | Self::AccuracyChange, TaskKind::Train) => 0,
            (Self::Memory | Self::AccuracyChange, TaskKind::Evaluate) => 1,
            (Self::Memory, TaskKind::Generate) => 2,
            (Self::TokensPerSecond, TaskKind::Generate) => 0,
            _ => return None,
        };
        let metric = self.metric(group)?;
        let known = match self {
            Self::AccuracyChange => group.comparisons.iter().any(|one| one.accuracy_loss.is_some()),
            _ => group.ok().any(|row| row.metric(metric).is_some()),
        };
        known.then_some(rank)
    }
}

/// Settings of one workload that differ only in the precision setting.
struct Source<'g, 'a> {
    suite: (usize, &'g Suite<'a>),
    group: &'g Group<'a>,
    settings: Vec<SettingResult<'g, 'a>>,
}

impl<'g, 'a> Source<'g, 'a> {
    /// Chooses the workload with the most precision settings; of several, the first in plan order.
    fn of(report: &'g Report<'a>, quantity: Quantity) -> Option<Self> {
        let suites = report.suites.iter().enumerate();
        let groups = suites.flat_map(|suite| suite.1.groups.iter().map(move |group| (suite, group)));
        let ranked = groups.filter_map(|(suite, group)| {
            let rank = quantity.rank(group)?;
            let settings = comparable(group, quantity);
            let finished = settings.iter().filter(|setting| setting.failure().is_none());
            let count = finished.count();
            let source = Self {
                suite,
                group,
                settings,
            };
            (count > 1).then_some(((rank, std::cmp::Reverse(count)), source))
        });
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, source)| source)
    }

    fn base(&self) -> Option<&SettingResult<'g, 'a>> {
        self.settings.iter().find(|setting| setting.is_baseline())
    }

    fn column(&self, quantity: Quantity) -> MatrixColumn {
        let (suite, group) = (self.suite.1, self.group);
        let name = match suite.info.name == group.workload {
            true => group.workload.to_owned(),
            false => format!("{} of {}", group.workload, suite.info.name),
        };
        let mut parts = vec![name];
        let left_out = [Axis::Precision, Axis::Matmul, Axis::Seed];
        let base = self.base();
        let conditions = base.map(|base| group.label(base.row(), &left_out));
        parts.extend(conditions.filter(|conditions| !conditions.is_empty()));
        let settings: Vec<&SettingResult<'_, '_>> = self.settings.iter().collect();
        let bound = launches::headline(group, &settings).is_some();
        parts.extend((bound && quantity.is_speed()).then(|| "launch-bound".to_owned()));
        MatrixColumn {
            title: quantity.title(group),
            short_title: quantity.short_title(),
            suite: self.suite.0,
            source: parts.join(", "),
            baseline: base
                .filter(|_| quantity != Quantity::AccuracyChange)
                .and_then(|base| value_text(group, quantity, base)),
        }
    }
}

/// Returns the settings that differ from a baseline only in the precision setting: for a kernel, at its largest size.
fn comparable<'g, 'a>(group: &'g Group<'a>, quantity: Quantity) -> Vec<SettingResult<'g, 'a>> {
    let is_kernel = matches!(quantity, Quantity::MatmulError | Quantity::MatmulSpeed);
    let size = match is_kernel {
        true => LargestSize::of(group).map(|largest| largest.size),
        false => None,
    };
    let all = SettingResult::all(group, |row| {
        let is_comparable = !(quantity.is_speed() && row.is_oversubscribed());
        row.ran() && is_comparable && size.is_none_or(|size| row.cell.setting.size() == size)
    });
    let Some(base) = all.iter().find(|setting| setting.is_baseline()).cloned() else {
        return Vec::new();
    };
    let swept = [Axis::Precision, Axis::Matmul, Axis::Seed];
    let same = |setting: &SettingResult<'_, '_>| {
        let mut others = Axis::ALL.iter().filter(|axis| !swept.contains(axis));
        others.all(|axis| setting.row().axis(*axis) == base.row().axis(*axis))
    };
    all.into_iter().filter(same).collect()
}

impl Matrix {
    /// Builds the matrix of a report; `None` if no workload was measured under several precision settings.
    pub fn of(report: &Report<'_>) -> Option<Self> {
        let sources: Vec<_> = Quantity::ALL
            .into_iter()
            .filter_map(|quantity| Some((quantity, Source::of(report, quantity)?)))
            .collect();
        let mut rows = Vec::new();
        for &precision in Precision::ALL {
            for &matmul in MatmulPrecision::ALL {
                let is_row = |setting: &&SettingResult<'_, '_>| {
                    let of = &setting.row().cell.setting;
                    of.precision() == precision && of.matmul() == matmul
                };
                let found: Vec<_> = sources
                    .iter()
                    .map(|(_, source)| source.settings.iter().find(is_row))
                    .collect();
                let Some(first) = found.iter().flatten().next() else {
                    continue;
                };
                let fields = sources.iter().zip(&found).map(|((quantity, source), setting)| {
                    setting.map_or_else(MatrixField::absent, |one| field(source.group, *quantity, one))
                });
                rows.push((precision_label(first.row()), fields.collect()));
            }
        }
        let columns = sources.iter().map(|(quantity, source)| source.column(*quantity));
        (!rows.is_empty()).then(|| Self {
            columns: columns.collect(),
            rows,
        })
    }

    /// Returns `true` if a field has the mark [`DIFFERS`].
    pub fn has_mark(&self) -> bool {
        let mut fields = self.rows.iter().flat_map(|(_, fields)| fields);
        fields.any(|field| field.differs)
    }
}

impl MatrixField {
    fn absent() -> Self {
        Self::plain(units::ABSENT.to_owned())
    }

    fn plain(text: String) -> Self {
        Self {
            short: text.clone(),
            text,
            ..Self::default()
        }
    }
}

fn field(group: &Group<'_>, quantity: Quantity, setting: &SettingResult<'_, '_>) -> MatrixField {
    if let Some(status) = setting.failure() {
        return MatrixField {
            text: setting.failure_text().unwrap_or_default(),
            short: status.to_owned(),
            status: Some(status),
            ..MatrixField::default()
        };
    }
    let differs = setting.row().verdict() == Some(ExecutedVerdict::Differs);
    MatrixField {
        differs,
        ..value_field(group, quantity, setting)
    }
}

fn value_field(group: &Group<'_>, quantity: Quantity, setting: &SettingResult<'_, '_>) -> MatrixField {
    if quantity == Quantity::AccuracyChange {
        return match setting.accuracy_loss() {
            _ if setting.is_baseline() => MatrixField::plain("baseline".to_owned()),
            None => MatrixField::absent(),
            Some(loss) => {
                let text = accuracy_change(loss).replacen(" points", "", 1);
                let short = text.split(' ').next().unwrap_or_default().to_owned();
                let seeds = if setting.is_trained_once() {
                    ", one seed"
                } else {
                    ""
                };
                MatrixField {
                    text: text + seeds,
                    short,
                    ..MatrixField::default()
                }
            }
        };
    }
    let value = value_text(group, quantity, setting);
    if quantity == Quantity::Memory && memory_parts::replace_peak(group) && !setting.is_baseline() {
        let ratio = memory_parts::total_ratio(group, setting);
        return ratio.map_or_else(MatrixField::absent, |ratio| {
            MatrixField::plain(units::times(ratio))
        });
    }
    let ratio = ratio(quantity, setting).filter(|_| !setting.is_baseline());
    match (ratio, value) {
        (Some(ratio), _) => MatrixField {
            text: match group.memory.filter(|_| quantity == Quantity::Memory) {
                Some(metric) => memory_text(metric, &ratio),
                None => ratio_text(&ratio),
            },
            short: units::times(ratio.value),
            ..MatrixField::default()
        },
        (None, Some(value)) => MatrixField {
            short: match setting.is_baseline() && quantity != Quantity::MatmulError {
                true => units::times(1.0),
                false => value.clone(),
            },
            text: value,
            ..MatrixField::default()
        },
        (None, None) => MatrixField::absent(),
    }
}

/// Returns the ratio to the baseline; above 1 if a speed is higher. Errors are not compared as ratios.
fn ratio(quantity: Quantity, setting: &SettingResult<'_, '_>) -> Option<Estimate> {
    match quantity {
        Quantity::MatmulError | Quantity::AccuracyChange => None,
        Quantity::Memory => setting.memory_ratio().cloned(),
        Quantity::MatmulSpeed | Quantity::TrainingSpeed | Quantity::TokensPerSecond => {
            setting.speed_up().cloned()
        }
    }
}

/// Formats the value of a setting with its unit.
fn value_text(group: &Group<'_>, quantity: Quantity, setting: &SettingResult<'_, '_>) -> Option<String> {
    if quantity == Quantity::Memory && memory_parts::replace_peak(group) {
        let bytes = memory_parts::total(setting)?;
        return Some(Scale::of(MetricName::WeightsBytes, bytes).text(bytes));
    }
    let metric = quantity.metric(group)?;
    let value = setting.value(metric)?;
    Some(group.scale(metric, value).text(value))
}
