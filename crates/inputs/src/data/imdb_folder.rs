//! The layout of aclImdb (Maas et al., 2011): `train/pos/0_9.txt`, `train/neg/…`, `test/pos/…`, with one folder per label and one file per text.

use std::{path::Path, sync::Arc};

use super::{
    DataError,
    data_file::{DataFile, Kind},
    examples::{Part, Row},
    folder_entries::{self, is_document, is_hidden, part_of, skipped_note},
    text_decoding::utf8,
};

/// Folder of the 50,000 unlabelled reviews of aclImdb.
const UNLABELLED: &str = "unsup";

/// Name prefixes and suffixes of the metadata files of aclImdb. These files are next to the label folders and are not texts.
const METADATA_FILES: [(&str, &str); 2] = [("urls_", ".txt"), ("", ".feat")];

/// Returns true if a folder has a subfolder for the training part.
pub(super) fn has_imdb_layout(folder: &Path) -> bool {
    let entries = folder_entries::list(folder).unwrap_or_default();
    entries
        .iter()
        .any(|(name, path)| part_of(name) == Some(Part::Train) && path.is_dir())
}

/// Lists the files by part, label and file name. Also returns notes about skipped files.
pub(super) fn find(folder: &Path) -> Result<(Vec<DataFile>, Vec<String>), DataError> {
    let no_data_set = |path: &Path, reason: String| DataError::NoDataSet {
        path: path.to_owned(),
        reason,
    };
    let (mut files, mut parts) = (vec![], vec![]);
    let (mut hidden, mut others, mut no_part, mut unlabelled) = (vec![], vec![], vec![], vec![]);
    for (name, path) in folder_entries::list(folder)? {
        match part_of(&name) {
            _ if is_hidden(&name) => hidden.push(name),
            Some(part) if path.is_dir() => parts.push((part, name, path)),
            Some(_) if !is_document(&name) => {
                return Err(no_data_set(
                    folder,
                    format!("`{name}` is a file, but other parts are folders"),
                ));
            }
            None if path.is_dir() => no_part.push(name),
            _ => {}
        }
    }
    parts.sort();
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let reason = format!("two folders for one part: `{}` and `{}`", pair[0].1, pair[1].1);
        return Err(no_data_set(folder, reason));
    }
    for (part, name, folder) in parts {
        let before = files.len();
        for (label, path) in folder_entries::list(&folder)? {
            if is_hidden(&label) {
                hidden.push(format!("{name}/{label}"));
            } else if !path.is_dir() {
                let is_known = |(begin, end): &(&str, &str)| label.starts_with(begin) && label.ends_with(end);
                others.extend((!METADATA_FILES.iter().any(is_known)).then(|| format!("{name}/{label}")));
            } else if label == UNLABELLED {
                unlabelled.push(format!("{name}/{label}"));
            } else {
                for (file, path) in folder_entries::list(&path)? {
                    let kind = Kind::Text { label: label.clone() };
                    match file.ends_with(".txt") {
                        _ if is_hidden(&file) => hidden.push(format!("{name}/{label}/{file}")),
                        true => files.push(DataFile { part, path, kind }),
                        false => others.push(format!("{name}/{label}/{file}")),
                    }
                }
            }
        }
        if files.len() == before {
            let reason = "no `.txt` files in folders named after labels, such as `pos` and `neg`".to_owned();
            return Err(no_data_set(&folder, reason));
        }
    }
    let notes = [
        skipped_note("because they are hidden", &hidden),
        skipped_note("because their texts have no labels", &unlabelled),
        skipped_note("because they are not `.txt` files in a class folder", &others),
        skipped_note("because their names do not match a part", &no_part),
    ];
    Ok((files, notes.into_iter().flatten().collect()))
}

/// Reads the text of a file in this layout as a row.
pub(super) fn row(part: Part, label: &str, bytes: &[u8], file: &Path) -> Result<Row, DataError> {
    let file: Arc<Path> = file.into();
    Row::new(
        part,
        label,
        utf8(bytes, &file)?.trim_end_matches(['\r', '\n']),
        &file,
        1,
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::data::{ColumnNames, source::Source};

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    const FILES: [(&str, &[u8]); 9] = [
        ("train/pos/1_9.txt", b"good\n"),
        ("train/pos/0_10.txt", b"great<br />"),
        ("train/neg/0_1.txt", b"bad"),
        ("train/unsup/0_0.txt", b"who knows"),
        ("train/labeledBow.feat", b"9 0:1"),
        ("train/pos/notes.md", b"not a review"),
        ("test/neg/0_2.txt", b"dull"),
        ("test/pos/0_7.txt", b"fine"),
        ("README", b"Large Movie Review Dataset"),
    ];

    #[test]
    fn reviews_are_sorted_by_label_and_file_name() {
        let folder = folder(&FILES);
        let parts = Source::read(folder.path())
            .unwrap()
            .parse(&ColumnNames::default(), None, true)
            .unwrap();
        let texts = |examples: &[crate::data::Example]| -> Vec<(u32, String)> {
            examples
                .iter()
                .map(|example| (example.label, example.text.clone()))
                .collect()
        };
        let expected =
            [(0, "bad"), (1, "great<br />"), (1, "good")].map(|(label, text)| (label, text.to_owned()));
        assert_eq!(texts(&parts.splits.train), expected);
        assert_eq!(
            texts(&parts.splits.test.unwrap()),
            [(0, "dull".to_owned()), (1, "fine".to_owned())]
        );
        assert_eq!((parts.splits.validation, parts.classes), (None, 2));
    }

    #[test]
    fn errors_contain_the_file_name() {
        let error_with = |name: &'static str, bytes: &'static [u8]| {
            let folder = folder(&[FILES.as_slice(), &[(name, bytes)]].concat());
            let error = Source::read(folder.path())
                .unwrap()
                .parse(&ColumnNames::default(), None, true)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{name}:")), "{error}");
            error
                .split_once(&format!("{name}:"))
                .unwrap()
                .1
                .lines()
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(error_with("train/neg/7_1.txt", b" \n"), "1: empty text");
        assert_eq!(error_with("test/neg/7_1.txt", b"one\ntwo \xff"), "2: not UTF-8");
        assert_eq!(error_with("test/odd/7_1.txt", b"odd"), "1: unknown label `odd`");
    }

    #[test]
    fn a_part_without_labelled_folders_is_an_error() {
        let folder = folder(&[("train/a.txt", b"text"), ("test/pos/a.txt", b"text")]);
        let error = Source::read(folder.path()).err().unwrap().to_string();
        assert!(
            error.contains("no `.txt` files in folders named after labels"),
            "{error}"
        );
    }
}
