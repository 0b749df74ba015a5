//! File of a data set of labelled texts, with its format.

use std::path::PathBuf;

use super::{delimited::Dialect, detect::Content, examples::Part};

/// File of a data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DataFile {
    pub part: Part,
    pub path: PathBuf,
    pub kind: Kind,
}

/// Content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Delimited rows.
    Rows { dialect: Dialect, gzip: bool },
    /// One JSON object per line.
    Lines { gzip: bool },
    /// One text. Its label is the name of the folder.
    Text { label: String },
}

impl Kind {
    /// Returns the kind of a file of labelled texts. The error completes the sentence "it is …".
    pub fn of(content: Content) -> Result<Self, String> {
        match content {
            Content::Rows { dialect, gzip } => Ok(Self::Rows { dialect, gzip }),
            Content::Lines { gzip, .. } => Ok(Self::Lines { gzip }),
            Content::Text { .. } => Err("running text: its lines do not begin with a label".to_owned()),
            Content::Batch | Content::Picture | Content::IdxImages => Err("a file of images".to_owned()),
            Content::Other(is) => Err(is),
        }
    }
}
