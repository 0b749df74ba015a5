//! Typed access to TOML tables with spans.

use std::{ops::Range, path::PathBuf, str::FromStr};

use mantissa_core::{UnknownName, nearest};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    diagnostic::Sink,
    keys::{Absent, Key, Takes},
};

/// TOML value with its span in the file.
pub(crate) type Node<'a> = Spanned<DeValue<'a>>;

/// Table with its title for messages, and the tables whose keys it inherits.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) sink: &'a Sink<'a>,
    pub(crate) title: String,
    /// Location at which a missing key is reported.
    span: Range<usize>,
    /// Tables in lookup order, the most specific first.
    layers: Vec<&'a DeTable<'a>>,
}

impl<'a> Section<'a> {
    /// Creates the section of the whole file.
    pub(crate) fn root(sink: &'a Sink<'a>, table: &'a DeTable<'a>) -> Self {
        Self {
            sink,
            title: "the suite".to_owned(),
            span: 0..0,
            layers: vec![table],
        }
    }

    /// Returns this section, with the keys of `specific` taking precedence.
    pub(crate) fn overlaid_with(&self, specific: &Self) -> Self {
        let layers = specific.layers.iter().chain(&self.layers).copied().collect();
        Self {
            layers,
            ..self.clone()
        }
    }

    /// Returns all keys and values, in the order of the file.
    pub(crate) fn entries(&self) -> Vec<(&'a str, Range<usize>, &'a Node<'a>)> {
        let entries = self.layers.iter().flat_map(|table| table.iter());
        let mut entries: Vec<_> = entries
            .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
            .collect();
        entries.sort_by_key(|(_, span, _)| span.start);
        entries
    }

    /// Reports every key that is not in one of the lists.
    pub(crate) fn reject_unknown_keys(&self, lists: &[&[Key]]) {
        let valid: Vec<&'static str> = lists.iter().copied().flatten().map(|key| key.name).collect();
        for (name, span, _) in self.entries() {
            if let Err(unknown) = find_name("key", name, valid.clone()) {
                self.sink.error(&span, unknown);
            }
        }
    }

    fn find(&self, key: &Key) -> Option<&'a Node<'a>> {
        self.layers.iter().find_map(|table| table.get(key.name))
    }

    /// Reports that the value of `key` has the wrong type.
    fn report_wrong_type(&self, key: &Key, span: &Range<usize>) {
        let given = self.sink.snippet(span);
        self.sink.error(
            span,
            format_args!("`{}` takes {}, not `{given}`", key.name, key.takes),
        );
    }

    /// Reports that `key` is missing.
    fn report_missing(&self, key: &Key) {
        let Key {
            name, takes, meaning, ..
        } = key;
        self.sink.error(
            &self.span,
            format_args!(
                "missing key `{name}` in {}\n  hint: `{name}` is {takes}: {meaning}",
                self.title
            ),
        );
    }

    /// Returns the value of a key, or its default, if it has the right type.
    fn read<T>(&self, key: &Key, convert: impl Fn(&DeValue<'_>) -> Option<T>) -> Option<T> {
        match (self.find(key), key.absent) {
            (Some(node), _) => {
                let value = convert(node.get_ref());
                if value.is_none() {
                    self.report_wrong_type(key, &node.span());
                }
                value
            }
            (None, Absent::Value(default)) => convert(DeValue::parse(default).ok()?.get_ref()),
            (None, Absent::Error) => {
                self.report_missing(key);
                None
            }
            (None, Absent::Means(_)) => None,
        }
    }

    /// Returns true if the file contains the key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.find(key).is_some()
    }

    /// Returns a string without the white space around it.
    pub(crate) fn text(&self, key: &Key) -> Option<String> {
        let may_be_empty = matches!(key.absent, Absent::Value(_));
        self.read(key, |value| {
            let text = value.as_str()?.trim();
            (may_be_empty || !text.is_empty()).then(|| text.to_owned())
        })
    }

    /// Returns a list of strings.
    pub(crate) fn texts(&self, key: &Key) -> Option<Vec<String>> {
        self.read(key, |value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect()
        })
    }

    /// Returns a Boolean.
    pub(crate) fn flag(&self, key: &Key) -> Option<bool> {
        self.read(key, |value| value.as_bool())
    }

    /// Returns a whole number within the bounds of its key.
    pub(crate) fn whole(&self, key: &Key) -> Option<u32> {
        let allowed = match key.takes {
            Takes::Whole(min) => min..=u32::MAX,
            Takes::WholeUpTo(max) => 1..=max,
            _ => return None,
        };
        self.read(key, |value| {
            let whole = u32::try_from(integer(value)?).ok();
            whole.filter(|whole| allowed.contains(whole))
        })
    }

    /// Returns a whole number that may be absent.
    pub(crate) fn optional_whole(&self, key: &Key) -> Option<Option<u32>> {
        if self.has(key) {
            self.whole(key).map(Some)
        } else {
            Some(None)
        }
    }

    /// Returns a number within the bounds of its key.
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

    /// Returns one of a closed list of names.
    pub(crate) fn name<T: FromStr<Err = UnknownName>>(&self, key: &Key) -> Option<T> {
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        // A default name is always valid, so its span is never reported.
        let span = self.find(key).map_or(0..0, |node| node.span());
        self.parse_name(&span, &text)
    }

    /// Returns a list of names that may be absent.
    pub(crate) fn names<T: FromStr<Err = UnknownName>>(&self, key: &Key) -> Option<Vec<T>> {
        let node = self.find(key)?;
        let Some(items) = node.get_ref().as_array().filter(|items| !items.is_empty()) else {
            self.report_wrong_type(key, &node.span());
            return None;
        };
        let parse = |item: &Node<'_>| match item.get_ref().as_str() {
            Some(text) => self.parse_name(&item.span(), text),
            None => {
                self.report_wrong_type(key, &node.span());
                None
            }
        };
        items.iter().map(parse).collect()
    }

    /// Parses the name at `span`.
    pub(crate) fn parse_name<T: FromStr<Err = UnknownName>>(
        &self,
        span: &Range<usize>,
        text: &str,
    ) -> Option<T> {
        text.parse()
            .map_err(|unknown| self.sink.error(span, unknown))
            .ok()
    }

    /// Returns one of the names that `key` accepts, for keys without an enum of names.
    pub(crate) fn listed_name(&self, key: &Key) -> Option<&'static str> {
        let Takes::Name(names) = key.takes else {
            return None;
        };
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        let span = self.find(key)?.span();
        find_name(key.name, &text, names())
            .map_err(|unknown| self.sink.error(&span, unknown))
            .ok()
    }

    /// Returns the name of a metric or of a group of metrics, with its span.
    pub(crate) fn metric(&self, key: &Key) -> Option<(Range<usize>, String)> {
        let text = self.read(key, |value| value.as_str().map(str::to_owned))?;
        Some((self.find(key)?.span(), text))
    }

    /// Returns a nested table. An absent optional table is empty.
    pub(crate) fn table(&self, key: &Key, title: impl Into<String>) -> Option<Section<'a>> {
        let mut span = self.span.clone();
        let mut layers = vec![];
        for node in self.layers.iter().rev().filter_map(|table| table.get(key.name)) {
            let Some(table) = node.get_ref().as_table() else {
                self.report_wrong_type(key, &node.span());
                return None;
            };
            span = node.span();
            layers.insert(0, table);
        }
        if layers.is_empty() && matches!(key.absent, Absent::Error) {
            self.report_missing(key);
            return None;
        }
        Some(Section {
            sink: self.sink,
            title: title.into(),
            span,
            layers,
        })
    }

    /// Returns a nested table whose name is not a fixed key.
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

    /// Returns the path at a name that is not a fixed key.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let node = self.layers.iter().find_map(|table| table.get(name))?;
        let path = node.get_ref().as_str().filter(|text| !text.is_empty());
        if path.is_none() {
            let given = self.sink.snippet(&node.span());
            let message = format!("`{name}` takes a path, not `{given}`");
            self.sink.error(&node.span(), message);
        }
        path.map(PathBuf::from)
    }

    /// Returns a list of tables. `title` is the title of each.
    pub(crate) fn tables(&self, key: &Key, title: &str) -> Vec<Section<'a>> {
        let Some(node) = self.find(key) else {
            if matches!(key.absent, Absent::Error) {
                self.report_missing(key);
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
            self.report_wrong_type(key, &node.span());
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

    /// Reports an error at the value of `key`, or at the section if the key is absent.
    pub(crate) fn report_at(&self, key: &Key, message: impl std::fmt::Display) {
        let span = self.find(key).map_or(self.span.clone(), Spanned::span);
        self.sink.error(&span, message);
    }

    /// Returns the span of the section.
    pub(crate) fn span(&self) -> &Range<usize> {
        &self.span
    }
}

/// Returns the entry of `valid` that equals `given`, or an error with the nearest one.
pub(crate) fn find_name(
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

/// Converts a TOML integer.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let digits = value.as_integer()?;
    i64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

/// Converts a finite TOML number, whole or not.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    let x = match value {
        DeValue::Float(digits) => digits.as_str().parse().ok()?,
        _ => integer(value)? as f64,
    };
    x.is_finite().then_some(x)
}
