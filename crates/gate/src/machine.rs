//! Properties of the machine, build and data that must be equal on both sides of a comparison, unless a mismatch is allowed.

use mantissa_core::{Backend, DataSource, InputFile, data_difference};

use crate::{MeasuredCell, Mismatch, Part, RunMeasurements};

/// Name of the framework of a run that does not use another framework (a peer).
const BURN: &str = "burn";

impl Part {
    /// Returns the value of this property in a run; `None` if the value is unknown or does not matter.
    pub fn of(self, measured: &RunMeasurements) -> Option<String> {
        let fingerprint = &measured.fingerprint;
        let gpu = fingerprint.gpu.as_ref();
        let on_cpu = measured.backends().contains(&Backend::Flex);
        match self {
            Self::Gpu => gpu.map(|gpu| gpu.name.clone()),
            Self::Driver => {
                let driver = gpu?.driver.as_deref()?;
                Some(driver.split('.').next().unwrap_or(driver).to_owned())
            }
            Self::Cpu => fingerprint.cpu.clone().filter(|_| on_cpu),
            Self::Cores => on_cpu.then(|| fingerprint.cores.to_string()),
            Self::Backend => {
                let names: Vec<&str> = measured.backends().into_iter().map(Backend::name).collect();
                Some(names.join("+"))
            }
            Self::Profile => Some(measured.profile.to_string()),
            Self::Build => Some(fingerprint.build.clone()),
            // Compared cell by cell in [`Mismatch::between`].
            Self::Data => None,
            // Excludes the version of burn, so that the gate can compare two versions.
            Self::Framework => Some(fingerprint.peer.clone().unwrap_or_else(|| BURN.to_owned())),
        }
    }
}

impl Mismatch {
    /// Returns the properties that differ between two runs.
    pub fn between(baseline: &RunMeasurements, candidate: &RunMeasurements) -> Vec<Self> {
        Part::ALL
            .into_iter()
            .map(|part| Self {
                part,
                baseline: part.of(baseline),
                candidate: part.of(candidate),
            })
            .filter(|mismatch| mismatch.baseline != mismatch.candidate)
            .chain(Self::data_mismatch(baseline, candidate))
            .collect()
    }

    /// Returns a mismatch for the first common cell that read different input files or data in the two runs.
    fn data_mismatch(baseline: &RunMeasurements, candidate: &RunMeasurements) -> Option<Self> {
        fn inputs(cell: &MeasuredCell) -> (Option<&[InputFile]>, Option<&DataSource>) {
            (cell.inputs.as_deref(), cell.data.as_ref())
        }
        let mut shared = baseline
            .cells
            .iter()
            .filter_map(|(id, before)| Some((before, candidate.cells.get(id)?)));
        let (name, difference) = shared.find_map(|(before, after)| {
            let difference = data_difference(inputs(before), inputs(after))?;
            Some((&after.cell.workload.name, difference))
        })?;
        let describe = |inputs: &str| Some(format!("`{name}` read {inputs}"));
        Some(Self {
            part: Part::Data,
            baseline: describe(&difference.one),
            candidate: describe(&difference.other),
        })
    }
}

/// Returns a folder name for a machine, backend and profile: `nvidia-h200-driver-580-cuda-standard`.
pub fn machine_name(measured: &RunMeasurements) -> String {
    let value = |part: Part| part.of(measured);
    let parts = [
        value(Part::Gpu),
        value(Part::Driver).map(|major| format!("driver {major}")),
        value(Part::Cpu),
        value(Part::Cores).map(|cores| format!("{cores} cores")),
        value(Part::Backend),
        value(Part::Profile),
        value(Part::Build).filter(|build| build != "release"),
        value(Part::Framework).filter(|framework| framework != BURN),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    slug(&parts.join(" "))
}

/// Converts to lowercase ASCII letters and digits. Each sequence of other characters becomes a hyphen.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase().replace("(r)", "").replace("(tm)", "");
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_contain_only_letters_digits_and_hyphens() {
        assert_eq!(
            slug("Intel(R) Xeon(R) CPU @ 2.70GHz 2 cores"),
            "intel-xeon-cpu-2-70ghz-2-cores"
        );
        assert_eq!(slug("../../é\0\n"), "");
    }
}
