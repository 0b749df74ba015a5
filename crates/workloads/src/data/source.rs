//! Finding the files of a data set, reading them whole, and the hash of what they hold.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;

use super::{
    DataError, LabelledParts, LineProblem, delimited,
    examples::{self, Part, Row},
    imdb_folder, json_lines,
};

/// A file of a data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DataFile {
    pub part: Part,
    pub path: PathBuf,
    pub kind: Kind,
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A row a line.
    Rows(delimited::Format),
    /// A JSON object a line.
    Lines { gzip: bool },
    /// One text; its label is the folder's name.
    Text { label: String },
}

impl Kind {
    /// What a file with rows holds, by its name.
    pub fn of(name: &str) -> Option<Self> {
        let lines = json_lines::are_in(name).then(|| Self::Lines {
            gzip: name.to_lowercase().ends_with(".gz"),
        });
        lines.or_else(|| delimited::Format::of(name).map(Self::Rows))
    }
}

/// The files of a data set with their bytes, not yet parsed: what a hash of the contents can be taken of.
pub(super) struct Source {
    /// The file names, or the folder's; never a whole path.
    pub name: String,
    files: Vec<(DataFile, Vec<u8>)>,
}

impl Source {
    /// Reads every file of the data set at `path`.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let (name, files) = find(path)?;
        let read = |file: DataFile| {
            let bytes = fs::read(&file.path).map_err(DataError::read(&file.path))?;
            Ok((file, bytes))
        };
        Ok(Self {
            name,
            files: files.into_par_iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// BLAKE3 over part, label and contents of every file; their names do not matter.
    pub fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let hashes: Vec<_> = self
            .files
            .par_iter()
            .map(|(_, bytes)| blake3::hash(bytes))
            .collect();
        for ((file, _), hash) in self.files.iter().zip(hashes) {
            let label = match &file.kind {
                Kind::Rows(format) => format!("{format:?}"),
                Kind::Lines { gzip } => format!("lines of JSON, gzip {gzip}"),
                Kind::Text { label } => label.clone(),
            };
            hasher.update(format!("{:?}\0{label}\0{hash}\n", file.part).as_bytes());
        }
        hasher.finalize()
    }

    /// Every row, labelled.
    pub fn parse(&self) -> Result<LabelledParts, DataError> {
        let rows: Vec<Vec<Row>> = self
            .files
            .par_iter()
            .map(|(file, bytes)| match &file.kind {
                Kind::Rows(format) => delimited::rows(file.part, *format, bytes, &file.path),
                Kind::Lines { gzip: true } => {
                    json_lines::rows(file.part, &delimited::unpack(bytes, &file.path)?, &file.path)
                }
                Kind::Lines { gzip: false } => json_lines::rows(file.part, bytes, &file.path),
                Kind::Text { label } => {
                    imdb_folder::row(file.part, label, bytes, &file.path).map(|row| vec![row])
                }
            })
            .collect::<Result<_, _>>()?;
        examples::label(rows.into_iter().flatten().collect())
    }
}

/// The text in `bytes`, or the line that is not UTF-8.
pub(super) fn utf8<'a>(bytes: &'a [u8], file: &Path) -> Result<&'a str, DataError> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = bytes[..error.valid_up_to()]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        LineProblem::NotUtf8.at(file, before as u64 + 1)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn find(path: &Path) -> Result<(String, Vec<DataFile>), DataError> {
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
        let kind = Kind::of(&name(path))
            .ok_or_else(|| no_data_set("its name ends in neither `.tsv`, `.csv` nor `.jsonl`".into()))?;
        let file = DataFile {
            part: Part::Train,
            path: path.to_owned(),
            kind,
        };
        return Ok((name(&full), vec![file]));
    }
    if imdb_folder::is_one(path) {
        return Ok((name(&full), imdb_folder::find(path)?));
    }

    let mut files: Vec<DataFile> = vec![];
    for (name, path) in imdb_folder::entries(path)? {
        if let (Some(kind), Some(part)) = (Kind::of(&name), part_of(&name)) {
            files.push(DataFile { part, path, kind });
        }
    }
    files.sort_by_key(|file| file.part);
    if let Some(pair) = files.windows(2).find(|pair| pair[0].part == pair[1].part) {
        let names = format!("`{}` or `{}`?", name(&pair[0].path), name(&pair[1].path));
        return Err(no_data_set(format!("two files for one part, {names}")));
    }
    if files.first().is_none_or(|file| file.part != Part::Train) {
        return Err(no_data_set("no training part".into()));
    }
    let names: Vec<_> = files.iter().map(|file| name(&file.path)).collect();
    Ok((names.join(", "), files))
}

/// The part that a file's name speaks of.
pub(super) fn part_of(name: &str) -> Option<Part> {
    let name = name.to_lowercase();
    let words = [
        ("train", Part::Train),
        ("test", Part::Test),
        ("dev", Part::Validation),
        ("valid", Part::Validation),
    ];
    words
        .into_iter()
        .find(|(word, _)| name.contains(word))
        .map(|(_, part)| part)
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
        let error = Source::read(folder.path()).err().expect("an error").to_string();
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
    fn a_folder_gives_the_parts_that_its_file_names_speak_of() {
        let folder = folder(&[
            ("sst_Test.csv", "0,dull\n"),
            ("train.tsv", ROWS),
            ("dev.tsv", "1\tfine\n"),
            ("notes.txt", "no data"),
            ("other.tsv", "no part"),
        ]);
        let source = Source::read(folder.path()).unwrap();
        assert_eq!(source.name, "train.tsv, dev.tsv, sst_Test.csv");
        let parts = source.parse().unwrap().given;
        let sizes = (
            parts.train.len(),
            parts.validation.map(|part| part.len()),
            parts.test.map(|part| part.len()),
        );
        assert_eq!(sizes, (2, Some(1), Some(1)));
    }

    #[test]
    fn a_file_alone_is_one_part_and_its_path_stays_out_of_the_name() {
        let folder = folder(&[("mine.tsv", ROWS)]);
        let source = Source::read(&folder.path().join("mine.tsv")).unwrap();
        assert_eq!(source.name, "mine.tsv");
        let parts = source.parse().unwrap().given;
        assert_eq!((parts.train.len(), parts.validation, parts.test), (2, None, None));
    }

    #[test]
    fn a_folder_in_doubt_is_refused() {
        assert_eq!(error(&[("test.tsv", ROWS)]), "no training part");
        assert_eq!(error(&[]), "no training part");
        let two = error(&[("train.tsv", ROWS), ("train.csv", ROWS)]);
        assert_eq!(two, "two files for one part, `train.csv` or `train.tsv`?");
    }

    #[test]
    fn a_path_that_is_not_there_and_a_file_of_another_kind_are_errors() {
        let folder = folder(&[("mine.txt", ROWS)]);
        let message = |name| Source::read(&folder.path().join(name)).err().unwrap().to_string();
        assert!(message("absent").starts_with("cannot read `"));
        assert!(
            message("mine.txt").contains("its name ends in neither `.tsv`, `.csv` nor `.jsonl`\n  hint: ")
        );
    }

    #[test]
    fn the_hash_is_of_the_contents_and_not_of_the_names() {
        let hash = |files: &[(&str, &str)]| Source::read(folder(files).path()).unwrap().hash();
        let original = hash(&[("train.tsv", ROWS), ("test.tsv", "1\tfine\n")]);
        assert_eq!(
            original,
            hash(&[("my_train.tsv", ROWS), ("my_test.tsv", "1\tfine\n")])
        );
        assert_ne!(original, hash(&[("train.tsv", ROWS), ("test.tsv", "0\tfine\n")]));
        assert_ne!(original, hash(&[("train.tsv", ROWS), ("dev.tsv", "1\tfine\n")]));
    }
}
