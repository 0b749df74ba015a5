//! Arguments of `mantissa data`, and options of labelled rows.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mantissa_inputs::data::ColumnNames;

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Read every example of a data set and print a summary
    ///
    /// Fails at the first invalid example.
    Check {
        /// Path of the data, as for `--data`
        path: PathBuf,
        #[command(flatten)]
        columns: Columns,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Columns of the label and the text in labelled rows.
#[derive(Debug, Default, Args)]
pub(crate) struct Columns {
    /// Column of the label [default: `label` and other usual names]
    ///
    /// A name in the header line, a key of JSON lines, or a number that counts from 1.
    #[arg(long, value_name = "NAME")]
    label_column: Option<String>,
    /// Column of the text [default: `text` and other usual names]
    #[arg(long, value_name = "NAME")]
    text_column: Option<String>,
}

impl Columns {
    pub(crate) fn names(&self) -> ColumnNames {
        ColumnNames {
            label: self.label_column.clone(),
            text: self.text_column.clone(),
        }
    }
}
