//! Common prefix of tensor names in a checkpoint.

use std::collections::BTreeSet;

use mantissa_inputs::weights::Checkpoint;

use super::naming::{Naming, find_spelling, spellings};
use crate::models::ParameterSpec;

/// Keys under which training scripts store the weights, in order of preference.
const SECTIONS: [&str; 9] = [
    "state_dict",
    "model_state_dict",
    "model",
    "module",
    "net",
    "network",
    "weights",
    "params",
    "ema",
];

/// Detects the common prefix of the model's tensor names in the checkpoint, such as `module.` from data-parallel training, or the keys of nested
/// dictionaries. Also returns the prefixes of other copies of the model, which are not read.
pub(super) fn detect_prefix(
    checkpoint: &Checkpoint,
    specs: &[ParameterSpec],
    naming: Naming,
) -> Result<(String, Vec<String>), String> {
    /// Number of parameters to search for. A few are enough because all parameters have the same prefix.
    const PROBES: usize = 4;
    let is_head = |spec: &&ParameterSpec| naming.head.iter().any(|head| spec.name.starts_with(head));
    let probes: Vec<String> = specs
        .iter()
        .filter(|spec| !is_head(spec))
        .take(PROBES)
        .flat_map(|spec| spellings(&spec.name, naming))
        .collect();
    let mut candidates = BTreeSet::from([""]);
    for name in checkpoint.tensors().keys() {
        for probe in &probes {
            candidates.extend(
                name.strip_suffix(probe.as_str())
                    .filter(|prefix| prefix.ends_with('.')),
            );
        }
    }
    let found = |prefix: &str| -> BTreeSet<String> {
        let names = specs
            .iter()
            .filter_map(|spec| find_spelling(checkpoint, prefix, &spec.name, naming));
        names.collect()
    };
    let found: Vec<(&str, BTreeSet<String>)> = candidates
        .into_iter()
        .map(|prefix| (prefix, found(prefix)))
        .collect();
    let max_count = found.iter().map(|(_, names)| names.len()).max().unwrap_or(0);
    if max_count == 0 {
        let name = |name: Option<&String>| name.map_or("none".to_owned(), |name| format!("`{name}`"));
        return Err(format!(
            "none of its {} tensors has the name of one of the model's {} parameters\n  first tensor: {}, first parameter: `{}`",
            checkpoint.tensors().len(),
            specs.len(),
            name(checkpoint.tensors().keys().next()),
            specs.first().map_or("", |spec| spec.name.as_str())
        ));
    }
    // If several prefixes find the same tensors, keep the first in sorted order.
    let mut best: Vec<(&str, &BTreeSet<String>)> = vec![];
    for (prefix, names) in &found {
        if names.len() == max_count && best.iter().all(|(_, others)| *others != names) {
            best.push((prefix, names));
        }
    }
    if let [(prefix, _)] = best[..] {
        return Ok((prefix.to_owned(), vec![]));
    }
    let first_key = |prefix: &str| prefix.split('.').next().unwrap_or_default().to_owned();
    let preferred = SECTIONS.iter().find_map(|key| {
        let mut matching = best.iter().filter(|(prefix, _)| first_key(prefix) == *key);
        match (matching.next(), matching.next()) {
            (Some((prefix, _)), None) => Some((*prefix).to_owned()),
            _ => None,
        }
    });
    let prefixes = best.iter().map(|(prefix, _)| (*prefix).to_owned());
    match preferred {
        Some(preferred) => {
            let copies = prefixes.filter(|prefix| *prefix != preferred).collect();
            Ok((preferred, copies))
        }
        None => Err(format!(
            "it contains the model more than once, with the prefixes `{}`\n  hint: save only one of them",
            prefixes.collect::<Vec<_>>().join("` and `")
        )),
    }
}
