//! Removal of default axes from CSV tables in snapshots.

use mantissa_core::{Axis, Backend};

/// Removes the columns of axes that have the default value in all rows, so that adding an axis does not change the snapshots.
pub fn without_default_axes(table: &str) -> String {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let is_default = |column: usize| {
        let Ok(axis) = header[column].parse::<Axis>() else {
            return false;
        };
        let default = axis.default_value(Backend::Flex).to_string();
        rows.iter()
            .all(|row| row[column].is_empty() || row[column] == default)
    };
    let shown_columns: Vec<usize> = (0..header.len()).filter(|column| !is_default(*column)).collect();
    let mut writer = csv::Writer::from_writer(vec![]);
    for row in [&header].into_iter().chain(&rows) {
        writer
            .write_record(shown_columns.iter().map(|column| &row[*column]))
            .unwrap();
    }
    String::from_utf8(writer.into_inner().unwrap()).unwrap()
}
