//! Tests that tables fit terminals of different widths.

use std::collections::BTreeSet;

use crate::support::invented;
use mantissa_core::Status;
use mantissa_report::{Align, Report, Run, Table, terminal_tables, terminal_tables_within};

/// Returns `true` if `text` equals `whole` or is `whole` shortened with an ellipsis.
fn is_shortened_form(text: &str, whole: &str) -> bool {
    text == whole
        || text
            .strip_suffix('…')
            .is_some_and(|begins| whole.starts_with(begins))
}

fn tables(run: &Run, width: usize) -> Vec<Table> {
    terminal_tables_within(&Report::new(run).unwrap(), width)
}

/// Returns the width of a table with a border of one character and a space on either side of each column.
fn width(table: &Table) -> usize {
    let widest = |column: usize| {
        let cells = table.rows.iter().map(|row| row[column].chars().count());
        let title = table.header[column].0.chars().count();
        cells.chain([title]).max().unwrap()
    };
    let columns = table.header.len();
    (0..columns).map(widest).sum::<usize>() + 3 * columns + 1
}

#[test]
fn a_table_fits_narrow_and_wide_terminals() {
    let run = invented();
    for columns in [60, 80, 100, 110, 200] {
        for table in tables(&run, columns) {
            assert!(
                width(&table) <= columns,
                "{} of {columns}: {table:?}",
                width(&table)
            );
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        }
    }
    assert_eq!(tables(&run, 110), terminal_tables(&Report::new(&run).unwrap()));
}

#[test]
fn the_title_of_a_narrow_table_names_the_missing_columns() {
    let run = invented();
    let (narrow, wide) = (tables(&run, 60), tables(&run, 200));
    assert_eq!(narrow.len(), wide.len());
    let mut omitted = 0;
    for (narrow, wide) in narrow.iter().zip(&wide) {
        assert!(!wide.title.contains("omitted columns"), "{}", wide.title);
        for (title, _) in &wide.header {
            if !narrow
                .header
                .iter()
                .any(|(known, _)| is_shortened_form(known, title))
            {
                let (_, named) = narrow.title.split_once("omitted columns: ").unwrap();
                assert!(named.contains(title.as_str()), "{title}: {}", narrow.title);
                omitted += 1;
            }
        }
        for needed in ["verdict", "executed"] {
            assert!(
                narrow
                    .header
                    .iter()
                    .any(|(title, _)| is_shortened_form(title, needed)),
                "{needed}: {narrow:?}"
            );
        }
    }
    assert!(omitted > 0, "no column is omitted at a width of 60 characters");
}

#[test]
fn only_texts_are_shortened_and_they_end_in_an_ellipsis() {
    let run = invented();
    let (narrow, wide) = (tables(&run, 60), tables(&run, 400));
    let mut cuts = 0;
    for (narrow, wide) in narrow.iter().zip(&wide) {
        for (column, (title, side)) in narrow.header.iter().enumerate() {
            let same = wide
                .header
                .iter()
                .position(|(known, _)| is_shortened_form(title, known))
                .unwrap();
            for (row, whole) in narrow.rows.iter().zip(&wide.rows) {
                let (cell, whole) = (&row[column], &whole[same]);
                assert!(is_shortened_form(cell, whole), "{cell} of {whole}");
                assert!(cell == whole || *side == Align::Left, "{cell} of {whole}");
                cuts += usize::from(cell != whole);
            }
        }
    }
    assert!(cuts > 0, "no cell is shortened at a width of 60 characters");
}

#[test]
fn different_texts_stay_different_in_a_narrow_table() {
    let run = invented();
    for (narrow, wide) in tables(&run, 60).iter().zip(&tables(&run, 400)) {
        let different = |table: &Table, column: usize| {
            let texts = table.rows.iter().map(|row| row[column].clone());
            texts.collect::<BTreeSet<String>>().len()
        };
        // Verdicts are not compared: the reasons in them may be cut, which may make different verdicts equal.
        for (column, (title, _)) in narrow
            .header
            .iter()
            .enumerate()
            .filter(|(_, (title, _))| title != "verdict")
        {
            let same = wide
                .header
                .iter()
                .position(|(known, _)| is_shortened_form(title, known))
                .unwrap();
            if narrow.header[0].0 != "claim" {
                assert_eq!(different(narrow, column), different(wide, same), "{title}");
            }
        }
    }
}

#[test]
fn reasons_use_the_width_of_the_terminal() {
    let run = invented();
    let reasons = |width| -> usize {
        let tables = tables(&run, width);
        let rows = tables.iter().flat_map(|table| &table.rows);
        rows.map(|row| row.last().unwrap().chars().count()).max().unwrap()
    };
    assert!(reasons(200) > reasons(110) && reasons(110) >= 8);
}

#[test]
fn a_table_contains_no_control_characters() {
    let mut run = invented();
    run.plan.suites[0].title = "\u{1b}[31mred\n".into();
    for record in &mut run.records {
        record.status = Status::Failed;
        record.reason = Some("\u{1b}[31mred\r\nand more".into());
    }
    for columns in [60, 200] {
        for table in tables(&run, columns) {
            let cells = table.rows.iter().flatten();
            let texts = cells
                .chain(table.header.iter().map(|(title, _)| title))
                .chain([&table.title]);
            for text in texts {
                assert!(!text.contains(char::is_control), "{text:?}");
            }
        }
    }
}
