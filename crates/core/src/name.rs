//! Closed lists of names. A macro defines an enum with its names, its parser and its JSON Schema.

use std::fmt;

/// Error for a name that is not in a closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{given}`{}", hint(nearest, valid))]
pub struct UnknownName {
    /// Kind of name, e.g. `precision`.
    pub what: &'static str,
    /// The unknown name.
    pub given: String,
    /// Most similar valid name, if it is similar enough.
    pub nearest: Option<&'static str>,
    /// All valid names.
    pub valid: Vec<&'static str>,
}

fn hint(nearest: &Option<&'static str>, valid: &[&'static str]) -> String {
    let list = valid.join("`, `");
    match nearest {
        Some(name) => format!("\n  hint: did you mean `{name}`? valid: `{list}`"),
        None => format!("\n  hint: valid: `{list}`"),
    }
}

/// Returns the candidate most similar to `given`; `None` if it is too different for `given` to be a typo.
///
/// The measure is the Jaro–Winkler similarity. A minimum of 0.75 accepts `bf16` → `bf16-mixed` and rejects unrelated words.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const MIN_SIMILARITY: f64 = 0.75;
    candidates
        .into_iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Maximum length of the name of a suite or a workload, in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// Checks that a name can be part of a path. Names of suites are used as file names.
///
/// # Errors
/// A name that is empty, longer than [`MAX_NAME_BYTES`], `.` or `..`, or contains a slash, a backslash or a NUL.
pub fn check_file_name(name: &str) -> Result<(), String> {
    let problem = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > MAX_NAME_BYTES {
        format!("it has {} bytes, the maximum is {MAX_NAME_BYTES}", name.len())
    } else if name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
        "it is a path".to_owned()
    } else {
        return Ok(());
    };
    Err(format!("{:?} is not a valid name: {problem}", truncate(name)))
}

/// Replaces line breaks by spaces, for error messages that quote a file or the command line.
pub fn in_one_line(text: &impl fmt::Display) -> String {
    text.to_string().replace(['\n', '\r'], " ")
}

/// Returns at most the first 64 bytes of a text, for error messages.
pub(crate) fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(64))]
}

/// Enum whose values have names.
pub trait Named: Copy + std::str::FromStr<Err = UnknownName> {
    /// Returns the name used in suites, records and reports.
    fn name(self) -> &'static str;
}

/// Defines an enum whose variants have fixed names in files, on the command line and in records.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $ty:ident ($what:literal) { $($(#[$vmeta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $vis enum $ty { $($(#[$vmeta])* #[serde(rename = $name)] $variant),+ }

        impl $ty {
            /// All values, in the order of tables.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name used in suites, records and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl $crate::name::Named for $ty {
            fn name(self) -> &'static str { Self::name(self) }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.name()) }
        }

        impl std::str::FromStr for $ty {
            type Err = $crate::UnknownName;
            fn from_str(given: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.name() == given).ok_or_else(|| {
                    let valid: Vec<&'static str> = Self::ALL.iter().map(|v| v.name()).collect();
                    $crate::UnknownName {
                        what: $what,
                        given: $crate::in_one_line(&given),
                        nearest: $crate::nearest(given, valid.iter().copied()),
                        valid,
                    }
                })
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellId, Precision};

    #[test]
    fn names_that_are_paths_are_rejected() {
        for name in ["matmul", "a b", "é", "...", "x".repeat(MAX_NAME_BYTES).as_str()] {
            assert_eq!(check_file_name(name), Ok(()));
        }
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/a",
            "a\\b",
            "a\0",
            "x".repeat(MAX_NAME_BYTES + 1).as_str(),
        ] {
            assert!(check_file_name(name).is_err(), "{name:?}");
        }
        let id = |text: &str| serde_json::from_value::<CellId>(text.into());
        assert_eq!(id("0123456789abcdef").unwrap().as_str(), "0123456789abcdef");
        for text in [
            "",
            "../../../../tmp",
            "0123456789ABCDEF",
            "0123456789abcdef0",
            "/123456789abcdef",
        ] {
            assert!(
                id(text)
                    .unwrap_err()
                    .to_string()
                    .contains("16 lowercase hex digits"),
                "{text}"
            );
        }
    }

    #[test]
    fn misspelt_name_suggests_the_nearest_one() {
        let error: UnknownName = "bf16-mxed".parse::<Precision>().unwrap_err();
        assert_eq!(error.nearest, Some("bf16-mixed"));
        assert!(
            error
                .to_string()
                .starts_with("unknown precision `bf16-mxed`\n  hint: did you mean `bf16-mixed`?")
        );
    }

    #[test]
    fn dissimilar_name_gets_no_suggestion() {
        let error = "zzz".parse::<Precision>().unwrap_err();
        assert_eq!(error.nearest, None);
        assert_eq!(error.valid.len(), Precision::ALL.len());
    }
}
