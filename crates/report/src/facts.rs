//! Hardware, software and data of a run as text.

use mantissa_core::{ClassCount, DataSource, EventKind, Fingerprint, InputFile, Record};

use crate::{Run, Suite, units};

/// Returns the hardware, software and data of a run as pairs of name and text.
pub(crate) fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = machine_facts(&run.environment.fingerprint);
    let mut data: Vec<String> = Vec::new();
    for source in run.records.iter().filter_map(|record| record.data.as_ref()) {
        let text = data_text(source);
        if !data.contains(&text) {
            data.push(text);
        }
    }
    if !data.is_empty() {
        facts.push(("Data", data.join("; ")));
    }
    let mut add_fact = |name, texts_of: &dyn Fn(&Record) -> Vec<String>| {
        let mut texts: Vec<String> = vec![];
        for text in run.records.iter().flat_map(texts_of) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        if !texts.is_empty() {
            facts.push((name, texts.join("; ")));
        }
    };
    add_fact("Files", &|record| {
        record.inputs.iter().flatten().map(file_text).collect()
    });
    add_fact("Classes", &|record| {
        record.data.iter().filter_map(class_counts).collect()
    });
    add_fact("While reading", &|record| {
        let data_notes = record.data.iter().flat_map(|data| data.notes.iter().cloned());
        let weight_events = record
            .events
            .iter()
            .filter(|event| event.kind == EventKind::Weights);
        data_notes
            .chain(weight_events.map(|event| event.detail.clone()))
            .collect()
    });
    facts
}

/// Formats an input file with its hash and size.
fn file_text(file: &InputFile) -> String {
    let files = match file.files {
        1 => String::new(),
        files => format!(", {} files", units::count(files)),
    };
    format!("{file}{files}, {} B", units::count(file.bytes))
}

/// Formats each class: its index, its name, and its numbers of training, validation and test examples.
fn class_counts(source: &DataSource) -> Option<String> {
    /// Maximum number of classes listed.
    const MAX_CLASSES: usize = 20;
    let class = |class: &ClassCount| {
        let [train, validation, test] = class.examples.map(units::count);
        format!(
            "{} `{}` ({train} / {validation} / {test})",
            class.number, class.name
        )
    };
    let listed: Vec<String> = source.classes.iter().take(MAX_CLASSES).map(class).collect();
    let more = match source.classes.len().saturating_sub(MAX_CLASSES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!listed.is_empty()).then(|| format!("{}{more}", listed.join(", ")))
}

/// Returns the names of the data that the cells of a suite used, each once, without notes such as `, which has no test part`.
pub(crate) fn data_names(suite: &Suite<'_>) -> Vec<String> {
    let rows = suite.groups.iter().flat_map(|group| &group.rows);
    let sources = rows
        .flat_map(|row| &row.records)
        .filter_map(|record| record.data.as_ref());
    let mut names: Vec<String> = Vec::new();
    for source in sources {
        let name = source.name.split(", which ").next().unwrap_or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Formats the source of a data set with its hash.
pub(crate) fn data_text(source: &DataSource) -> String {
    format!("{} (blake3 {})", source.name, source.hash)
}

/// Formats the hardware and software of a fingerprint.
pub(crate) fn machine_facts(machine: &Fingerprint) -> Vec<(&'static str, String)> {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let unknown = || units::ABSENT.to_owned();
    let mut facts = vec![
        ("CPU", machine.cpu.clone().unwrap_or_else(unknown)),
        ("Cores", machine.cores.to_string()),
        (
            "Host memory",
            machine.memory_bytes.map_or_else(unknown, gigabytes),
        ),
        ("System", machine.os.clone()),
    ];
    if let Some(gpu) = &machine.gpu {
        facts.push(("GPU", gpu.name.clone()));
        facts.push(("GPU memory", gpu.memory_bytes.map_or_else(unknown, gigabytes)));
        facts.push(("GPU UUID", gpu.uuid.clone().unwrap_or_else(unknown)));
        facts.push((
            "Compute capability",
            gpu.compute_capability.clone().unwrap_or_else(unknown),
        ));
        facts.push(("Driver", gpu.driver.clone().unwrap_or_else(unknown)));
        facts.push(("CUDA", gpu.cuda.clone().unwrap_or_else(unknown)));
        let hertz = gpu.sm_clock_max_hz.map(|hertz| format!("{:.0} MHz", hertz / 1e6));
        let watts = gpu.power_limit_watts.map(|watts| format!("{watts:.0} W"));
        facts.extend(hertz.map(|text| ("Maximum SM clock", text)));
        facts.extend(watts.map(|text| ("Power limit", text)));
        facts.extend(gpu.ecc.map(|on| ("ECC memory", yes_no(on))));
        facts.extend(gpu.persistence.map(|on| ("Persistence mode", yes_no(on))));
    }
    facts.push(("mantissa", machine.mantissa.clone()));
    facts.push(("Revision", machine.revision.clone().unwrap_or_else(unknown)));
    facts.push(("Framework", machine.framework()));
    facts.push(("Build", machine.build.clone()));
    facts
}

fn yes_no(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}
