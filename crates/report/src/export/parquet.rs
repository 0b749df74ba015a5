//! Parquet: the tidy rows in typed columns. Text is UTF-8 and, being repeated, in dictionaries; what is absent is null.

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

/// Rows that are in memory at once, and that a reader can skip together.
const ROWS_OF_A_GROUP: usize = 1 << 18;

/// A file of these rows: every column may be null.
pub(super) fn write(columns: &[Column], lines: &[Line<'_>]) -> Result<Vec<u8>, ReportError> {
    // By default a build of the library is named: the same records shall give the same bytes.
    let properties = WriterProperties::builder()
        .set_created_by(concat!("mantissa version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .build();
    let schema = Arc::new(parse_message_type(&schema(columns))?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for lines in lines.chunks(ROWS_OF_A_GROUP) {
        let mut group = writer.next_row_group()?;
        for column in columns {
            let place = group.next_column()?;
            let mut place = place.ok_or_else(|| ParquetError::General("a column too many".to_owned()))?;
            write_column(&mut place, column, lines)?;
            place.close()?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn schema(columns: &[Column]) -> String {
    let fields = columns.iter().map(|column| {
        let kind = match column.kind {
            Kind::Text => "BYTE_ARRAY",
            Kind::Integer => "INT64",
            Kind::Number => "DOUBLE",
            Kind::Truth => "BOOLEAN",
        };
        let logical = if column.kind == Kind::Text {
            " (STRING)"
        } else {
            ""
        };
        format!("OPTIONAL {kind} {}{logical};", column.name)
    });
    format!("message mantissa {{ {} }}", fields.collect::<String>())
}

fn write_column(place: &mut SerializedColumnWriter<'_>, column: &Column, lines: &[Line<'_>]) -> Result<()> {
    match column.kind {
        Kind::Text => put::<ByteArrayType>(place, column, lines, |value| match value {
            Value::Text(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
            _ => None,
        }),
        Kind::Integer => put::<Int64Type>(place, column, lines, |value| match value {
            Value::Integer(number) => i64::try_from(*number).ok(),
            _ => None,
        }),
        Kind::Number => put::<DoubleType>(place, column, lines, |value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        }),
        Kind::Truth => put::<BoolType>(place, column, lines, |value| match value {
            Value::Truth(truth) => Some(*truth),
            _ => None,
        }),
    }
}

/// Values that are there, and for every row whether one is. What the type cannot hold is an error.
fn put<T: DataType>(
    place: &mut SerializedColumnWriter<'_>,
    column: &Column,
    lines: &[Line<'_>],
    take: fn(&Value<'_>) -> Option<T::T>,
) -> Result<()> {
    let (mut there, mut levels) = (Vec::new(), Vec::with_capacity(lines.len()));
    for line in lines {
        let value = column.say(line);
        levels.push(i16::from(value != Value::Absent));
        if value != Value::Absent {
            there.push(take(&value).ok_or_else(|| unlike(column, &value))?);
        }
    }
    place.typed::<T>().write_batch(&there, Some(&levels), None)?;
    Ok(())
}

fn unlike(column: &Column, value: &Value<'_>) -> ParquetError {
    ParquetError::General(format!("column `{}` cannot hold {value:?}", column.name))
}
