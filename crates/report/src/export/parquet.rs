//! Writes Parquet files with typed columns. Text is dictionary-encoded UTF-8, and absent values are null.

use std::sync::Arc;

use parquet::{
    basic::{Compression, GzipLevel},
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::{ParquetError, Result},
    file::{
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::parser::parse_message_type,
};

use super::{
    column::Column,
    line::Line,
    value::{Kind, Value},
};
use crate::ReportError;

/// A typed column for rows of type `L`.
pub(super) trait Typed<L> {
    fn name(&self) -> &str;
    fn kind(&self) -> Kind;
    /// Returns the column's value for a row.
    fn value<'a>(&self, line: &'a L) -> Value<'a>;
}

impl<'l> Typed<Line<'l>> for Column {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn value<'a>(&self, line: &'a Line<'l>) -> Value<'a> {
        self.value(line)
    }
}

/// A column for rows that are not cells of a run.
#[derive(Debug)]
pub struct PlainColumn<L> {
    /// Column name.
    pub name: &'static str,
    /// Column type.
    pub kind: Kind,
    /// Function that returns the value for a row: absent, or of type `kind`.
    pub value: for<'a> fn(&'a L) -> Value<'a>,
}

impl<L> Typed<L> for PlainColumn<L> {
    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn value<'a>(&self, line: &'a L) -> Value<'a> {
        (self.value)(line)
    }
}

/// Converts rows of any type to Parquet. Every column is nullable, and the same rows produce the same bytes.
///
/// # Errors
/// Fails if a value does not fit the type of its column.
pub fn parquet<L>(columns: &[PlainColumn<L>], lines: &[L]) -> Result<Vec<u8>, ReportError> {
    write(columns, lines)
}

/// Rows per row group, which limits memory use and allows readers to skip groups.
const ROW_GROUP_SIZE: usize = 1 << 18;

/// Returns a file with these rows. Every column is nullable.
pub(super) fn write<L>(columns: &[impl Typed<L>], lines: &[L]) -> Result<Vec<u8>, ReportError> {
    // The default contains the version of the parquet library. With it, an update of the library would change the bytes for the same
    // records.
    let properties = WriterProperties::builder()
        .set_created_by(concat!("mantissa version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .build();
    let schema = Arc::new(parse_message_type(&schema(columns))?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for lines in lines.chunks(ROW_GROUP_SIZE) {
        let mut group = writer.next_row_group()?;
        for column in columns {
            let column_writer = group.next_column()?;
            let mut column_writer = column_writer
                .ok_or_else(|| ParquetError::General("the schema has too few columns".to_owned()))?;
            write_column(&mut column_writer, column, lines)?;
            column_writer.close()?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn schema<L>(columns: &[impl Typed<L>]) -> String {
    let fields = columns.iter().map(|column| {
        let kind = match column.kind() {
            Kind::Text => "BYTE_ARRAY",
            Kind::Integer => "INT64",
            Kind::Number => "DOUBLE",
            Kind::Truth => "BOOLEAN",
        };
        let logical = if column.kind() == Kind::Text {
            " (STRING)"
        } else {
            ""
        };
        format!("OPTIONAL {kind} {}{logical};", column.name())
    });
    format!("message mantissa {{ {} }}", fields.collect::<String>())
}

fn write_column<L>(
    column_writer: &mut SerializedColumnWriter<'_>,
    column: &impl Typed<L>,
    lines: &[L],
) -> Result<()> {
    match column.kind() {
        Kind::Text => write_values::<ByteArrayType, L>(column_writer, column, lines, |value| match value {
            Value::Text(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
            _ => None,
        }),
        Kind::Integer => write_values::<Int64Type, L>(column_writer, column, lines, |value| match value {
            Value::Integer(number) => i64::try_from(*number).ok(),
            _ => None,
        }),
        Kind::Number => write_values::<DoubleType, L>(column_writer, column, lines, |value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        }),
        Kind::Truth => write_values::<BoolType, L>(column_writer, column, lines, |value| match value {
            Value::Truth(truth) => Some(*truth),
            _ => None,
        }),
    }
}

/// Writes the present values and one definition level per row (0 for null). Fails if `convert` rejects a value.
fn write_values<T: DataType, L>(
    column_writer: &mut SerializedColumnWriter<'_>,
    column: &impl Typed<L>,
    lines: &[L],
    convert: fn(&Value<'_>) -> Option<T::T>,
) -> Result<()> {
    let (mut present, mut levels) = (Vec::new(), Vec::with_capacity(lines.len()));
    for line in lines {
        let value = column.value(line);
        levels.push(i16::from(value != Value::Absent));
        if value != Value::Absent {
            present.push(convert(&value).ok_or_else(|| type_error(column.name(), &value))?);
        }
    }
    column_writer
        .typed::<T>()
        .write_batch(&present, Some(&levels), None)?;
    Ok(())
}

fn type_error(column: &str, value: &Value<'_>) -> ParquetError {
    ParquetError::General(format!("{value:?} does not fit the type of column `{column}`"))
}
