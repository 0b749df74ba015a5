//! Finds, reads and hashes the files of a data set.

use std::{fs, path::Path};

use mantissa_core::read_regular;
use rayon::prelude::*;

use super::{
    ColumnNames, DataError, KnownClasses, LabelledParts,
    data_file::{DataFile, Kind},
    delimited,
    detect::detect_content,
    examples::{self, Part, Row},
    folder_entries::{self, is_document, is_hidden, part_of, skipped_note},
    imdb_folder, json_lines,
    text_decoding::unpack,
};

/// Files of a data set with their bytes, not parsed yet.
pub(super) struct Source {
    /// File names, or name of the folder; never a full path.
    pub name: String,
    /// Notes on skipped files.
    notes: Vec<String>,
    files: Vec<(DataFile, Vec<u8>)>,
}

/// Files of a data set, not read yet.
pub(super) struct Files {
    name: String,
    notes: Vec<String>,
    files: Vec<DataFile>,
}

impl Source {
    /// Reads every file of the data set at `path`.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let Files { name, notes, files } = find(path)?;
        let read = |file: DataFile| {
            let bytes = read_regular(&file.path).map_err(DataError::read(&file.path))?;
            Ok((file, bytes))
        };
        Ok(Self {
            name,
            notes,
            files: files.into_par_iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the file names and the notes on skipped files, for the key of the tokenization cache. The cached notes depend on them, but
    /// [`hash`](Self::hash) does not cover them.
    pub fn description(&self) -> String {
        format!("{}\n{}", self.name, self.notes.join("\n"))
    }

    /// Returns the BLAKE3 hash of part, label and contents of every file, and of the columns given by the user. File names are not hashed.
    pub fn hash(&self, columns: &ColumnNames) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let hashes: Vec<_> = self
            .files
            .par_iter()
            .map(|(_, bytes)| blake3::hash(bytes))
            .collect();
        for ((file, _), hash) in self.files.iter().zip(hashes) {
            let label = match &file.kind {
                Kind::Rows { dialect, gzip } => dialect.identity(*gzip),
                Kind::Lines { gzip } => format!("lines of JSON, gzip {gzip}"),
                Kind::Text { label } => label.clone(),
            };
            hasher.update(format!("{:?}\0{label}\0{hash}\n", file.part).as_bytes());
        }
        if *columns != ColumnNames::default() {
            hasher.update(format!("{columns:?}\n").as_bytes());
        }
        hasher.finalize()
    }

    /// Parses all files and maps labels to class numbers, with the classes of a checkpoint if there is one; see
    /// [`examples::number_labels`].
    pub fn parse(
        &self,
        columns: &ColumnNames,
        known: Option<&KnownClasses>,
        for_training: bool,
    ) -> Result<LabelledParts, DataError> {
        let read = |(file, bytes): &(DataFile, Vec<u8>)| -> Result<(Vec<Row>, Option<String>), DataError> {
            let (part, path) = (file.part, &file.path);
            match &file.kind {
                Kind::Rows { dialect, gzip } => {
                    delimited::rows(part, (*dialect, *gzip), columns, bytes, path)
                }
                Kind::Lines { gzip: true } => {
                    let bytes = unpack(bytes, path)?;
                    json_lines::rows(part, columns, &bytes, path)
                }
                Kind::Lines { gzip: false } => json_lines::rows(part, columns, bytes, path),
                Kind::Text { label } => Ok((vec![imdb_folder::row(part, label, bytes, path)?], None)),
            }
        };
        if *columns != ColumnNames::default()
            && let Some((file, _)) = self
                .files
                .iter()
                .find(|(file, _)| matches!(file.kind, Kind::Text { .. }))
        {
            return Err(DataError::NoDataSet {
                path: file.path.clone(),
                reason: "`--label-column` and `--text-column` do not apply, because the folder names are the labels"
                    .to_owned(),
            });
        }
        let files: Vec<_> = self.files.par_iter().map(read).collect::<Result<_, _>>()?;
        let (rows, unread): (Vec<Vec<Row>>, Vec<Option<String>>) = files.into_iter().unzip();
        let mut parts = examples::number_labels(rows.into_iter().flatten().collect(), known, for_training)?;
        parts.notes.splice(0..0, unread.into_iter().flatten());
        parts.notes.splice(0..0, self.notes.iter().cloned());
        Ok(parts)
    }
}

/// Finds the files of the data set at `path`.
pub(super) fn find(path: &Path) -> Result<Files, DataError> {
    let no_data_set = |reason: String| DataError::NoDataSet {
        path: path.to_owned(),
        reason,
    };
    let full = fs::canonicalize(path).map_err(DataError::read(path))?;
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };

    if !full.is_dir() {
        let kind = Kind::of(detect_content(path)?).map_err(|is| no_data_set(format!("it is {is}")))?;
        let file = DataFile {
            part: Part::Train,
            path: path.to_owned(),
            kind,
        };
        return Ok(Files {
            name: name(&full),
            notes: vec![],
            files: vec![file],
        });
    }
    if imdb_folder::has_imdb_layout(path) {
        let (files, notes) = imdb_folder::find(path)?;
        return Ok(Files {
            name: name(&full),
            notes,
            files,
        });
    }

    let (mut files, mut no_part, mut hidden): (Vec<DataFile>, _, _) = (vec![], vec![], vec![]);
    let mut part_folders = vec![];
    for (name, path) in folder_entries::list(path)? {
        if is_hidden(&name) {
            hidden.push(name);
        } else if path.is_dir() {
            part_folders.extend(part_of(&name).map(|_| name));
        } else {
            match (Kind::of(detect_content(&path)?), part_of(&name)) {
                (Ok(kind), Some(part)) => files.push(DataFile { part, path, kind }),
                (Ok(_), None) => no_part.push(name),
                // Fail, because skipping a malformed `.tsv`, `.csv` or `.jsonl` file would silently drop a part.
                (Err(is), Some(_)) if !is_document(&name) => {
                    return Err(no_data_set(format!("`{name}` is {is}")));
                }
                (Err(_), _) => {}
            }
        }
    }
    files.sort_by_key(|file| file.part);
    if let Some(pair) = files.windows(2).find(|pair| pair[0].part == pair[1].part) {
        let names = format!("`{}` and `{}`", name(&pair[0].path), name(&pair[1].path));
        return Err(no_data_set(format!(
            "it has two files for the same part: {names}"
        )));
    }
    if let ([file, ..], [folder, ..]) = (&files[..], &part_folders[..]) {
        let file = name(&file.path);
        return Err(no_data_set(format!(
            "it has both a file and a folder for a part: `{file}` and `{folder}`"
        )));
    }
    if files.is_empty() {
        return Err(no_data_set(
            "no file name contains the word `train`, `dev`, `valid` or `test`".into(),
        ));
    }
    let names: Vec<_> = files.iter().map(|file| name(&file.path)).collect();
    let notes = [
        skipped_note("because their names do not indicate a part", &no_part),
        skipped_note("because they are hidden", &hidden),
    ];
    Ok(Files {
        name: names.join(", "),
        notes: notes.into_iter().flatten().collect(),
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    const ROWS: &str = "0\tbad\n1\tgood\n";

    fn error(files: &[(&str, &str)]) -> String {
        let folder = folder(files);
        let error = Source::read(folder.path())
            .err()
            .expect("the folder must be rejected")
            .to_string();
        error
            .split_once(": ")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn file_names_in_a_folder_determine_the_parts() {
        let folder = folder(&[
            ("sst_Test.csv", "0,dull\n"),
            ("train.tsv", ROWS),
            ("dev.tsv", "1\tfine\n"),
            ("notes.txt", "no data"),
            ("other.tsv", "no part"),
        ]);
        let source = Source::read(folder.path()).unwrap();
        assert_eq!(source.name, "train.tsv, dev.tsv, sst_Test.csv");
        let parts = source.parse(&ColumnNames::default(), None, true).unwrap().splits;
        let sizes = (
            parts.train.len(),
            parts.validation.map(|part| part.len()),
            parts.test.map(|part| part.len()),
        );
        assert_eq!(sizes, (2, Some(1), Some(1)));
    }

    #[test]
    fn a_single_file_is_one_part_and_its_name_has_no_path() {
        let folder = folder(&[("mine.tsv", ROWS)]);
        let source = Source::read(&folder.path().join("mine.tsv")).unwrap();
        assert_eq!(source.name, "mine.tsv");
        let parts = source.parse(&ColumnNames::default(), None, true).unwrap().splits;
        assert_eq!((parts.train.len(), parts.validation, parts.test), (2, None, None));
    }

    #[test]
    fn ambiguous_folders_are_rejected() {
        let none = "no file name contains the word `train`, `dev`, `valid` or `test`";
        assert_eq!(error(&[("tests.tsv", ROWS)]), none);
        assert_eq!(error(&[]), none);
        let two = error(&[("train.tsv", ROWS), ("train.csv", ROWS)]);
        assert_eq!(
            two,
            "it has two files for the same part: `train.csv` and `train.tsv`"
        );
    }

    #[test]
    fn missing_paths_and_files_of_another_kind_are_errors() {
        let folder = folder(&[("mine.txt", ROWS)]);
        let message = |name| Source::read(&folder.path().join(name)).err().unwrap().to_string();
        assert!(message("absent").starts_with("cannot read `"));
        assert!(
            message("mine.txt").contains("it is running text: its lines do not begin with a label\n  hint: ")
        );
    }

    #[test]
    fn the_hash_covers_contents_and_not_file_names() {
        let hash = |files: &[(&str, &str)]| {
            Source::read(folder(files).path())
                .unwrap()
                .hash(&ColumnNames::default())
        };
        let original = hash(&[("train.tsv", ROWS), ("test.tsv", "1\tfine\n")]);
        assert_eq!(
            original,
            hash(&[("my_train.tsv", ROWS), ("my_test.tsv", "1\tfine\n")])
        );
        assert_ne!(original, hash(&[("train.tsv", ROWS), ("test.tsv", "0\tfine\n")]));
        assert_ne!(original, hash(&[("train.tsv", ROWS), ("dev.tsv", "1\tfine\n")]));
    }
}
