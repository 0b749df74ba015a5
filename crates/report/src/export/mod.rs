//! Export of records to other programs: rows for statistics and spreadsheets, tables for papers and pull requests.
//!
//! [`export`] implements `mantissa export`. A [`line::Line`] is a cell of a run with one of its metrics, and a [`column::Column`] returns
//! a value for a line. CSV and Parquet write the same columns and lines.

mod column;
mod csv;
mod format;
mod latex;
mod line;
mod markdown;
mod parquet;
mod records;
mod tex;
mod value;

pub(crate) use self::csv::{escape_formula, number as csv_number};
pub use format::{ExportFormat, export};
pub use parquet::{PlainColumn, parquet};
pub use records::csv;
pub(crate) use records::csv_to;
pub use value::{Kind, Value};
