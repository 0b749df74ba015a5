//! Search for the tensors of a model in a checkpoint.

use std::collections::BTreeSet;

use mantissa_inputs::weights::{Checkpoint, Stored};

use super::naming::{Naming, find_spelling};
use crate::{WorkloadError, models::ParameterSpec};

/// Name suffixes of tensors to ignore in the checkpoints of all models.
const IGNORED: &[&str] = &["num_batches_tracked"];

/// Maximum number of differences listed in an error.
pub(super) const MAX_LISTED: usize = 12;

/// Search for the tensors of a model in a checkpoint, with the differences found.
pub(super) struct TensorSearch<'a> {
    checkpoint: &'a Checkpoint,
    naming: Naming,
    /// Common prefix of all names in the checkpoint.
    prefix: String,
    /// Prefixes of copies of the model that are not read.
    copies: Vec<String>,
    used: BTreeSet<String>,
    missing: Vec<String>,
    mismatched: Vec<String>,
    unexpected: Vec<String>,
}

impl<'a> TensorSearch<'a> {
    /// Starts a search with the results of [`detect_prefix`](super::name_prefix::detect_prefix).
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        naming: Naming,
        (prefix, copies): (String, Vec<String>),
    ) -> Self {
        Self {
            checkpoint,
            naming,
            prefix,
            copies,
            used: BTreeSet::new(),
            missing: vec![],
            mismatched: vec![],
            unexpected: vec![],
        }
    }

    /// Returns the name of a parameter's tensor in the checkpoint.
    pub(super) fn name_of(&self, name: &str) -> Option<String> {
        find_spelling(self.checkpoint, &self.prefix, name, self.naming)
    }

    /// Returns the key that contains the model in a nested PyTorch checkpoint.
    fn section(&self) -> Option<&str> {
        let key = self.prefix.split('.').next().unwrap_or_default();
        self.checkpoint.sections().get(key).map(String::as_str)
    }

    /// Returns true if a tensor is in a dictionary other than that of the model, or in a copy of the model.
    fn is_elsewhere(&self, name: &str) -> bool {
        let key = name.split('.').next().unwrap_or_default();
        let is_copy = |prefix: &String| !prefix.is_empty() && name.starts_with(prefix.as_str());
        self.checkpoint.sections().contains(key) && self.section() != Some(key)
            || self.copies.iter().any(is_copy)
    }

    /// Returns a note with the removed prefix and the dictionaries that are not read; `None` if there are neither.
    pub(super) fn prefix_note(&self) -> Option<String> {
        let names = self.checkpoint.tensors().keys();
        let elsewhere: BTreeSet<&str> = names
            .filter(|name| self.is_elsewhere(name))
            .map(|name| name.split('.').next().unwrap_or_default())
            .collect();
        let ignored = match elsewhere.is_empty() {
            true => String::new(),
            false => format!(
                "; ignored: the tensors under `{}`",
                elsewhere.into_iter().collect::<Vec<_>>().join("`, `")
            ),
        };
        (!self.prefix.is_empty() || !ignored.is_empty()).then(|| match self.prefix.as_str() {
            "" => format!("the checkpoint contains more than the model{ignored}"),
            prefix => format!("the prefix `{prefix}` is removed from names in the checkpoint{ignored}"),
        })
    }

    /// Compares the number of classes in the model and in the checkpoint, for a parameter of the output layer. If the numbers differ, returns
    /// that of the checkpoint and marks the tensor as used. Returns `None` for parameters of other layers.
    pub(super) fn different_class_count(&mut self, spec: &ParameterSpec) -> Option<usize> {
        let layer = self.naming.classes?;
        let name = self
            .name_of(&spec.name)
            .filter(|_| spec.name.starts_with(layer))?;
        let shape = self.checkpoint.tensors()[&name].shape();
        let differs =
            shape.len() == spec.shape.len() && shape[1..] == spec.shape[1..] && shape[0] != spec.shape[0];
        differs.then(|| {
            self.used.insert(name);
            shape[0]
        })
    }

    /// Returns the name of a parameter's tensor in the checkpoint. Records a difference and returns `None` if the tensor is missing, or has
    /// another shape or an unsupported type.
    pub(super) fn find(&mut self, name: &str, shape: &[usize]) -> Option<String> {
        let Some(found) = self.name_of(name) else {
            self.missing.push(format!("missing `{name}` {shape:?}"));
            return None;
        };
        let stored = &self.checkpoint.tensors()[&found];
        self.used.insert(found.clone());
        if stored.shape() != shape {
            self.mismatched.push(format!(
                "`{found}` has shape {:?}, expected {shape:?}",
                stored.shape()
            ));
            return None;
        }
        if let Some(dtype) = stored.unsupported_dtype() {
            self.mismatched.push(format!(
                "`{found}` has type {dtype}, expected F64, F32, F16 or BF16"
            ));
            return None;
        }
        Some(found)
    }

    /// Records unexpected tensors. The checkpoint of a tied model may contain the output head if the head equals the embedding table.
    pub(super) fn record_unexpected(&mut self, tied: Option<(&str, &str)>) -> Result<(), WorkloadError> {
        if let Some((head, table)) = tied
            && let Some(table) = self.name_of(table)
        {
            let checkpoint = self.checkpoint;
            // The head may lack the prefix of the other tensors.
            let ends_with = |name: &str, end: &str| {
                name.strip_suffix(end)
                    .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
            };
            let heads = checkpoint
                .tensors()
                .iter()
                .filter(|(name, _)| !self.is_elsewhere(name));
            let heads: Vec<_> = heads
                .filter(|(name, _)| ends_with(name, &format!("{head}.weight")))
                .collect();
            for (name, stored) in heads {
                match self.are_equal((name, stored), &table)? {
                    true => _ = self.used.insert(name.clone()),
                    false => self.mismatched.push(format!(
                        "`{name}` differs from `{table}`, but the configuration declares them equal (`tie_word_embeddings`)"
                    )),
                }
            }
            // Only BERT's head has a bias, which is stored under two names.
            let bias = head.rsplit_once('.').map(|(module, _)| format!("{module}.bias"));
            let bias = bias.and_then(|bias| self.name_of(&bias));
            let biases = checkpoint
                .tensors()
                .iter()
                .filter(|(name, _)| !self.is_elsewhere(name));
            let biases: Vec<_> = biases
                .filter(|(name, _)| ends_with(name, &format!("{head}.bias")))
                .collect();
            for (name, stored) in biases {
                let is_same = match &bias {
                    Some(bias) => self.are_equal((name, stored), bias)?,
                    None => false,
                };
                match (is_same, &bias) {
                    (true, _) => _ = self.used.insert(name.clone()),
                    (false, Some(bias)) => self.mismatched.push(format!("`{name}` differs from `{bias}`")),
                    (false, None) => self.mismatched.push(format!(
                        "`{name}` is a bias, but the output head does not have a bias"
                    )),
                }
            }
        }
        let is_ignored = |name: &str| {
            let bare = name.strip_prefix(&self.prefix).unwrap_or(name);
            let bare = bare.strip_prefix(self.naming.prefix).unwrap_or(bare);
            let mut parts = self.naming.ignored.iter().chain(IGNORED);
            // An entry with a dot at the end is the name prefix of a module. Every other entry is the name suffix of a buffer.
            parts.any(|part| match part.ends_with('.') {
                true => bare.starts_with(part),
                false => bare.ends_with(part),
            })
        };
        let names = self.checkpoint.tensors().keys();
        let extra =
            names.filter(|name| !self.used.contains(*name) && !is_ignored(name) && !self.is_elsewhere(name));
        self.unexpected = extra.map(|name| format!("unexpected `{name}`")).collect();
        Ok(())
    }

    fn are_equal(&self, (head, stored): (&str, &Stored), table: &str) -> Result<bool, WorkloadError> {
        if stored.shape() != self.checkpoint.tensors()[table].shape() || stored.unsupported_dtype().is_some()
        {
            return Ok(false);
        }
        Ok(self.checkpoint.values(head, true)? == self.checkpoint.values(table, true)?)
    }

    pub(super) fn fits(&self) -> bool {
        self.missing.is_empty() && self.mismatched.is_empty() && self.unexpected.is_empty()
    }

    /// Formats the differences: the number of each kind, then the first ones.
    pub(super) fn differences(self, wanted: usize) -> String {
        let counts = [
            (self.missing.len(), "missing"),
            (self.mismatched.len(), "mismatched"),
            (self.unexpected.len(), "unexpected"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, kind)| format!("{count} {kind}")).collect();
        let all = [self.missing, self.mismatched, self.unexpected].concat();
        let mut text = format!(
            "the tensors do not match the model's {wanted} parameters: {}",
            counts.join(", ")
        );
        for line in all.iter().take(MAX_LISTED) {
            text.push_str("\n  ");
            text.push_str(line);
        }
        if let Some(more) = all.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            text.push_str(&format!("\n  and {more} more"));
        }
        text
    }
}
