//! Names of a model's tensors in published checkpoints.

use mantissa_inputs::weights::Checkpoint;

/// Tensor names in the published checkpoints of a model.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Naming {
    /// Prefix of parameter names that is omitted in checkpoints without a head.
    pub prefix: &'static str,
    /// Name prefixes of the head. Checkpoints without a head do not contain these tensors, and a training initializes them from its seed.
    pub head: &'static [&'static str],
    /// Name prefix of the output layer, which has one row per class.
    pub classes: Option<&'static str>,
    /// Tensors to ignore: name prefixes of modules for other tasks (with a `.` at the end), and name suffixes of buffers.
    pub ignored: &'static [&'static str],
}

/// Returns the name of a parameter's tensor in the checkpoint, among the tensors with this prefix.
pub(super) fn find_spelling(
    checkpoint: &Checkpoint,
    prefix: &str,
    name: &str,
    naming: Naming,
) -> Option<String> {
    let names = spellings(name, naming).into_iter();
    let mut names = names.map(|name| format!("{prefix}{name}"));
    names.find(|name| checkpoint.tensors().contains_key(name))
}

/// Returns the possible names of a parameter in published checkpoints, without prefixes that training scripts add.
pub(super) fn spellings(name: &str, naming: Naming) -> Vec<String> {
    // Early BERT checkpoints use TensorFlow's names for layer norm parameters.
    let old = |name: &str| {
        let weight = name
            .strip_suffix("LayerNorm.weight")
            .map(|layer| format!("{layer}LayerNorm.gamma"));
        weight.or_else(|| {
            name.strip_suffix("LayerNorm.bias")
                .map(|layer| format!("{layer}LayerNorm.beta"))
        })
    };
    let bare = name
        .strip_prefix(naming.prefix)
        .filter(|_| !naming.prefix.is_empty());
    let names = [Some(name), bare].into_iter().flatten();
    names
        .flat_map(|name| [Some(name.to_owned()), old(name)])
        .flatten()
        .collect()
}
