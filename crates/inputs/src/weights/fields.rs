//! Strict reader for JSON configurations: collects all problems and rejects unknown fields, which might change results.

use std::{cell::RefCell, collections::BTreeSet};

use serde_json::{Map, Value};

/// Fields of `config.json` that do not affect results, for all models. Fields with the prefix `_` are private to transformers.
pub(super) const IGNORED: &[&str] = &[
    // Metadata.
    "finetuning_task",
    "id2label",
    "label2id",
    "language",
    "license",
    "model_type",
    "num_labels",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "dtype",
    "transformers_version",
    // Sizes that follow from tensor shapes.
    "vocab_size",
    // Initialization of untrained models.
    "initializer_factor",
    "initializer_range",
    // Token ids that the tokenizer defines as well.
    "bos_token_id",
    "cls_token_id",
    "eos_token_id",
    "mask_token_id",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    // Outputs and memory use.
    "chunk_size_feed_forward",
    "gradient_checkpointing",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "return_dict",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    // Text generation: the suite sets the length and the sampling.
    "do_sample",
    "early_stopping",
    "length_penalty",
    "max_length",
    "min_length",
    "num_beams",
    "num_return_sequences",
    "temperature",
    "top_k",
    "top_p",
];

/// Returns true for a tokenizer class of transformers that tokenizes like BERT.
pub(crate) fn is_bert_tokenizer(class: &str) -> bool {
    const KNOWN: [&str; 4] = [
        "BertTokenizer",
        "DistilBertTokenizer",
        "ElectraTokenizer",
        "PreTrainedTokenizer",
    ];
    KNOWN.contains(&class.trim_end_matches("Fast"))
}

/// JSON object with the problems found so far.
pub(crate) struct Fields<'a> {
    fields: &'a Map<String, Value>,
    /// Names of the fields that were read.
    used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<String>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(fields: &'a Map<String, Value>) -> Self {
        Self {
            fields,
            used: RefCell::default(),
            problems: RefCell::default(),
        }
    }

    /// Returns all problems. Fields that were neither read nor listed in `ignored` are reported as unknown.
    pub(crate) fn finish(self, ignored: &[&str]) -> Vec<String> {
        let used = self.used.borrow();
        let known = |name: &str| used.contains(name) || name.starts_with('_') || ignored.contains(&name);
        let unknown = self
            .fields
            .iter()
            .filter(|(name, value)| !value.is_null() && !known(name));
        let unknown = unknown.map(|(name, value)| {
            format!("`{name}` is {value}; this field is unknown and may change results")
        });
        let unknown: Vec<String> = unknown.collect();
        drop(used);
        let mut problems = self.problems.into_inner();
        problems.extend(unknown);
        problems
    }

    /// Returns the problems of the fields that were read. Other fields are not checked.
    pub(crate) fn problems(self) -> Vec<String> {
        self.problems.into_inner()
    }

    /// Adds a problem.
    pub(crate) fn report(&self, problem: String) {
        self.problems.borrow_mut().push(problem);
    }

    /// Returns a field unless it is absent or `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.used.borrow_mut().insert(name.to_owned());
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// Returns true unless the field is absent or `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns an integer of 1 or more. Otherwise reports a problem and returns 1.
    pub(crate) fn positive_integer(&self, name: &str) -> u32 {
        let value = self.get(name);
        let integer = value.and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        integer.filter(|n| *n > 0).unwrap_or_else(|| {
            self.report(match value {
                Some(value) => format!("`{name}` is {value}; expected an integer from 1 to {}", u32::MAX),
                None => format!("`{name}` is missing"),
            });
            1
        })
    }

    /// Like [`positive_integer`](Self::positive_integer), but returns `default` for an absent field.
    pub(crate) fn positive_integer_or(&self, name: &str, default: u32) -> u32 {
        self.get(name).map_or(default, |_| self.positive_integer(name))
    }

    /// Returns a number of 0 or more, or `default` for an absent field.
    pub(crate) fn number_or(&self, name: &str, default: f64) -> f64 {
        let Some(value) = self.get(name) else {
            return default;
        };
        let number = value.as_f64().filter(|x| x.is_finite() && *x >= 0.0);
        number.unwrap_or_else(|| {
            self.report(format!("`{name}` is {value}; expected a number of 0 or more"));
            default
        })
    }

    /// Returns a number of 0 or more and below 1, or `default` for an absent field.
    pub(crate) fn fraction_or(&self, name: &str, default: f64) -> f64 {
        let fraction = self.number_or(name, default);
        if fraction >= 1.0 {
            self.report(format!("`{name}` is {fraction}; expected a number below 1"));
            return default;
        }
        fraction
    }

    /// Returns a flag, or `default` for an absent field.
    pub(crate) fn flag_or(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| {
            value.as_bool().unwrap_or_else(|| {
                self.report(format!("`{name}` is {value}; expected true or false"));
                default
            })
        })
    }

    /// Returns a flag, or `None` if the field is absent or `null`.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.has(name).then(|| self.flag_or(name, true))
    }

    /// Reports a field unless it is absent or has this value, the only supported one.
    pub(crate) fn require_value(&self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let same = |other: &Value| match (other.as_f64(), value.as_f64()) {
            (Some(other), Some(value)) => other == value,
            _ => *other == value,
        };
        if let Some(other) = self.get(name).filter(|other| !same(other)) {
            self.report(format!("`{name}` is {other}; only {value} is supported"));
        }
    }

    /// Reports `n` unless it is a multiple of `divisor`.
    pub(crate) fn require_multiple(&self, (n, name): (u32, &str), (divisor, divisor_name): (u32, &str)) {
        if !n.is_multiple_of(divisor) {
            self.report(format!(
                "`{name}` {n} is not a multiple of `{divisor_name}` {divisor}"
            ));
        }
    }
}
