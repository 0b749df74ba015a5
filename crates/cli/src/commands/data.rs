//! `mantissa data`.

use std::path::Path;

use anyhow::Result;
use mantissa_inputs::data::{Checked, CheckedPart, ColumnNames, check};
use mantissa_report::{Align, Table};
use mantissa_runner::prepare_threads;

use crate::{commands::report::draw, paths, printer::Printer};

/// Reads a data set and prints a summary.
pub(crate) fn data_check(path: &Path, columns: &ColumnNames, json: bool, printer: &Printer) -> Result<()> {
    paths::check_exists("data check", path)?;
    prepare_threads();
    let checked = check(path, columns)?;
    if json {
        printer.data(&serde_json::to_string_pretty(&checked)?);
    } else {
        printer.data(&draw(&table(&checked)));
        checked
            .remarks
            .iter()
            .for_each(|remark| printer.data(&format!("  {remark}")));
    }
    Ok(())
}

fn table(checked: &Checked) -> Table {
    let hash = checked
        .hash
        .as_ref()
        .map(|hash| format!(", contents {hash}"))
        .unwrap_or_default();
    let classes = match checked.classes {
        0 => String::new(),
        classes => format!(" of {classes} classes"),
    };
    let header = [
        ("part", Align::Left),
        ("examples", Align::Right),
        ("per class", Align::Left),
        ("size: min, median, max", Align::Left),
        ("duplicates", Align::Right),
    ];
    Table {
        title: format!("{}: {}{classes}{hash}", checked.name, checked.kind),
        header: header.map(|(title, align)| (title.to_owned(), align)).to_vec(),
        rows: checked.parts.iter().map(row).collect(),
    }
}

fn row(part: &CheckedPart) -> Vec<String> {
    /// With more classes, only the smallest and the largest count are printed.
    const MAX_LISTED_CLASSES: usize = 10;
    let counts = &part.classes;
    let classes = if counts.len() <= MAX_LISTED_CLASSES {
        counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
    } else {
        let (min, max) = (
            counts.iter().min().unwrap_or(&0),
            counts.iter().max().unwrap_or(&0),
        );
        format!("{min} to {max}")
    };
    let [min, median, max] = part.sizes;
    vec![
        part.name.to_owned(),
        part.examples.to_string(),
        classes,
        format!("{min}, {median}, {max} {}", part.unit),
        part.repeated.to_string(),
    ]
}
