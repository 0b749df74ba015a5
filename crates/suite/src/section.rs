//! Reading typed values out of TOML tables that keep their spans.

use std::{ops::Range, str::FromStr};

use mantissa_core::{UnknownName, nearest};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    diagnostic::Sink,
    keys::{Absent, Key, Takes},
};

/// A value with its place in the file.
pub(crate) type Node<'a> = Spanned<DeValue<'a>>;

/// A table under the name that messages give it, together with the tables whose keys it inherits.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) sink: &'a Sink<'a>,
    pub(crate) title: String,
    /// Where a missing key is reported.
    span: Range<usize>,
    /// Where a key is looked for, the most specific table first.
    layers: Vec<&'a DeTable<'a>>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(sink: &'a Sink<'a>, table: &'a DeTable<'a>) -> Self {
        Self {
            sink,
            title: "the suite".to_owned(),
            span: 0..0,
            layers: vec![table],
        }
    }

    /// This section, with the keys of `specific` taking precedence.
    pub(crate) fn overlaid_with(&self, specific: &Self) -> Self {
        let layers = specific.layers.iter().chain(&self.layers).copied().collect();
        Self {
            layers,
            ..self.clone()
        }
    }

    /// Every key and value, in the order of the file.
    pub(crate) fn entries(&self) -> Vec<(&'a str, Range<usize>, &'a Node<'a>)> {
        let entries = self.layers.iter().flat_map(|table| table.iter());
        let mut entries: Vec<_> = entries
            .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
            .collect();
        entries.sort_by_key(|(_, span, _)| span.start);
        entries
    }

    /// Reports every key that is not in `known`.
    pub(crate) fn only(&self, known: &[&[Key]]) {
        let valid: Vec<&'static str> = known.iter().copied().flatten().map(|key| key.name).collect();
        for (name, span, _) in self.entries() {
            if let Err(unknown) = one_of("key", name, valid.clone()) {
                self.sink.error(&span, unknown);
            }
        }
    }

    fn find(&self, key: &Key) -> Option<&'a Node<'a>> {
        self.layers.iter().find_map(|table| table.get(key.name))
    }

    /// Reports that the value of `key` is of another kind than it takes.
    fn wrong(&self, key: &Key, span: &Range<usize>) {
        let given = self.sink.snippet(span);
        self.sink.error(
            span,
            format_args!("`{}` takes {}, not `{given}`", key.name, key.takes),
        );
    }

    /// Reports that `key` is missing.
    fn missing(&self, key: &Key) {
        let Key {
            name, takes, meaning, ..
        } = key;
        self.sink.error(
            &self.span,
            format_args!(
                "missing key `{name}` in {}\n  hint: it takes {takes}: {meaning}",
                self.title
            ),
        );
    }

    /// The value of a key that is there or has a default, if it is what the key takes.
    fn read<T>(&self, key: &Key, convert: impl Fn(&DeValue<'_>) -> Option<T>) -> Option<T> {
        match (self.find(key), key.absent) {
            (Some(node), _) => {
                let value = convert(node.get_ref());
                if value.is_none() {
                    self.wrong(key, &node.span());
                }
                value
            }
            (None, Absent::Value(default)) => convert(DeValue::parse(default).ok()?.get_ref()),
            (None, Absent::Error) => {
                self.missing(key);
                None
            }
            (None, Absent::Means(_)) => None,
        }
    }

    /// Whether a key is in the file.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.find(key).is_some()
    }

    /// A text, without the white space around it.
    pub(crate) fn text(&self, key: &Key) -> Option<String> {
        let may_be_empty = matches!(key.absent, Absent::Value(_));
        self.read(key, |value| {
            let text = value.as_str()?.trim();
            (may_be_empty || !text.is_empty()).then(|| text.to_owned())
        })
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &Key) -> Option<Vec<String>> {
        self.read(key, |value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect()
        })
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &Key) -> Option<bool> {
        self.read(key, |value| value.as_bool())
    }

    /// A whole number within the bounds of its key.
    pub(crate) fn whole(&self, key: &Key) -> Option<u32> {
        let Takes::Whole(least) = key.takes else {
            return None;
        };
        self.read(key, |value| {
            u32::try_from(integer(value)?).ok().filter(|n| *n >= least)
        })
    }

    /// A whole number that may be absent.
    pub(crate) fn optional_whole(&self, key: &Key) -> Option<Option<u32>> {
        if self.has(key) {
            self.whole(key).map(Some)
        } else {
            Some(None)
        }
    }

    /// A number within the bounds of its key.
    pub(crate) fn number(&self, key: &Key) -> Option<f64> {
        self.read(key, |value| {
            let x = number(value)?;
            let allowed = match key.takes {
                Takes::Positive => x > 0.0,
                Takes::Share => (0.0..1.0).contains(&x),
                Takes::Number => true,
                _ => x >= 0.0,
            };
            allowed.then_some(x)
        })
    }

    /// One of a closed list of names.
    pub(crate) fn name<T: FromStr<Err = UnknownName>>(&self, key: &Key) -> Option<T> {
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        // A name that the file does not give is the key's own, and needs no place to complain about.
        let span = self.find(key).map_or(0..0, |node| node.span());
        self.parsed(&span, &text)
    }

    /// A list of names that may be absent.
    pub(crate) fn names<T: FromStr<Err = UnknownName>>(&self, key: &Key) -> Option<Vec<T>> {
        let node = self.find(key)?;
        let Some(items) = node.get_ref().as_array().filter(|items| !items.is_empty()) else {
            self.wrong(key, &node.span());
            return None;
        };
        let parse = |item: &Node<'_>| match item.get_ref().as_str() {
            Some(text) => self.parsed(&item.span(), text),
            None => {
                self.wrong(key, &node.span());
                None
            }
        };
        items.iter().map(parse).collect()
    }

    /// Parses a name that stands at `span`.
    pub(crate) fn parsed<T: FromStr<Err = UnknownName>>(&self, span: &Range<usize>, text: &str) -> Option<T> {
        text.parse()
            .map_err(|unknown| self.sink.error(span, unknown))
            .ok()
    }

    /// One of the names that `key` takes, where no enum stands for them.
    pub(crate) fn listed_name(&self, key: &Key) -> Option<&'static str> {
        let Takes::Name(names) = key.takes else {
            return None;
        };
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        let span = self.find(key)?.span();
        one_of(key.name, &text, names())
            .map_err(|unknown| self.sink.error(&span, unknown))
            .ok()
    }

    /// The name of a metric, or of several, and its place.
    pub(crate) fn metric(&self, key: &Key) -> Option<(Range<usize>, String)> {
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        Some((self.find(key)?.span(), text))
    }

    /// A table inside this one: empty if it is absent and may be.
    pub(crate) fn table(&self, key: &Key, title: impl Into<String>) -> Option<Section<'a>> {
        let mut span = self.span.clone();
        let mut layers = vec![];
        for node in self.layers.iter().rev().filter_map(|table| table.get(key.name)) {
            let Some(table) = node.get_ref().as_table() else {
                self.wrong(key, &node.span());
                return None;
            };
            span = node.span();
            layers.insert(0, table);
        }
        if layers.is_empty() && matches!(key.absent, Absent::Error) {
            self.missing(key);
            return None;
        }
        Some(Section {
            sink: self.sink,
            title: title.into(),
            span,
            layers,
        })
    }

    /// A table inside this one by a name that is no fixed key.
    pub(crate) fn named_table(&self, name: &str, title: impl Into<String>) -> Option<Section<'a>> {
        let node = self.layers.first()?.get(name)?;
        let Some(table) = node.get_ref().as_table() else {
            let given = self.sink.snippet(&node.span());
            self.sink.error(
                &node.span(),
                format_args!("`{name}` takes a table, not `{given}`"),
            );
            return None;
        };
        Some(Section {
            sink: self.sink,
            title: title.into(),
            span: node.span(),
            layers: vec![table],
        })
    }

    /// A list of tables; `title` names each.
    pub(crate) fn tables(&self, key: &Key, title: &str) -> Vec<Section<'a>> {
        let Some(node) = self.find(key) else {
            if matches!(key.absent, Absent::Error) {
                self.missing(key);
            }
            return vec![];
        };
        let tables: Option<Vec<_>> = node.get_ref().as_array().and_then(|items| {
            items
                .iter()
                .map(|item| Some((item.span(), item.get_ref().as_table()?)))
                .collect()
        });
        let Some(tables) = tables else {
            self.wrong(key, &node.span());
            return vec![];
        };
        let section = |(span, table)| Section {
            sink: self.sink,
            title: title.to_owned(),
            span,
            layers: vec![table],
        };
        tables.into_iter().map(section).collect()
    }

    /// Reports something about the value of `key`, or about the whole section if the key is absent.
    pub(crate) fn complain(&self, key: &Key, message: impl std::fmt::Display) {
        let span = self.find(key).map_or(self.span.clone(), Spanned::span);
        self.sink.error(&span, message);
    }

    /// Where the section begins.
    pub(crate) fn span(&self) -> &Range<usize> {
        &self.span
    }
}

/// `given` as one of `valid`, or the error that names the nearest of them.
pub(crate) fn one_of(
    what: &'static str,
    given: &str,
    valid: Vec<&'static str>,
) -> Result<&'static str, UnknownName> {
    valid
        .iter()
        .copied()
        .find(|name| *name == given)
        .ok_or_else(|| UnknownName {
            what,
            given: given.to_owned(),
            nearest: nearest(given, valid.iter().copied()),
            valid,
        })
}

/// A TOML integer.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let digits = value.as_integer()?;
    i64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

/// A finite TOML number, whole or not.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    let x = match value {
        DeValue::Float(digits) => digits.as_str().parse().ok()?,
        _ => integer(value)? as f64,
    };
    x.is_finite().then_some(x)
}
