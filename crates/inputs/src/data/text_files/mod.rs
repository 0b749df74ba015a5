//! Reads running text of any size: one document after the other, in pieces.

mod documents;
mod text_file;

use std::{fs, path::Path};

#[cfg(test)]
pub(super) use documents::DOCUMENT_SEPARATOR;
use documents::{OnPiece, Piece};
use mantissa_core::open_regular;
use text_file::{Form, TextFile};

use super::{
    ColumnNames, DataError,
    detect::{Content, detect_content},
    examples::Part,
    folder_entries::{self, is_document, is_hidden, part_of, skipped_note},
    imdb_folder,
    subwords::MAX_ENCODE_BYTES,
};

/// Returns true if the training, validation or test files of a folder contain running text or unlabelled JSON lines, and none contains labelled
/// texts.
pub(super) fn contains_text(folder: &Path) -> Result<bool, DataError> {
    if imdb_folder::has_imdb_layout(folder) {
        return Ok(false);
    }
    let mut has_text = false;
    for (name, path) in folder_entries::list(folder)? {
        if path.is_file() && part_of(&name).is_some() && !is_hidden(&name) {
            match detect_content(&path)? {
                Content::Rows { .. } | Content::Lines { labelled: true, .. } => return Ok(false),
                content => has_text |= Form::in_folder(&name, &content).is_some(),
            }
        }
    }
    Ok(has_text)
}

/// Part, number of characters and text hash of a document.
type DocumentSummary = (Part, u64, [u8; 32]);

/// Reads a corpus and returns a summary of every document.
pub(super) fn summarize(
    path: &Path,
    columns: &ColumnNames,
) -> Result<(Corpus, Vec<DocumentSummary>), DataError> {
    let corpus = Corpus::find(path, columns)?;
    let mut documents: Vec<DocumentSummary> = vec![];
    let mut hasher = blake3::Hasher::new();
    corpus.pieces(MAX_ENCODE_BYTES, &mut |piece| {
        if piece.begins {
            hasher.reset();
            documents.push((piece.part, 0, [0; 32]));
        }
        hasher.update(piece.text.as_bytes());
        if let Some((_, characters, hash)) = documents.last_mut() {
            *characters += piece.text.chars().count() as u64;
            *hash = *hasher.finalize().as_bytes();
        }
        Ok(())
    })?;
    Ok((corpus, documents))
}

/// Files of running text.
pub(super) struct Corpus {
    /// File names; never a full path.
    pub name: String,
    /// Notes on skipped files.
    pub notes: Vec<String>,
    files: Vec<TextFile>,
    /// JSON key of the text, if given by the user.
    column: Option<String>,
}

impl Corpus {
    /// Finds the files at `path`. `columns.text` is the key of the text in JSON lines.
    pub fn find(path: &Path, columns: &ColumnNames) -> Result<Self, DataError> {
        let no_text = |reason: String| DataError::NoText {
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
        let (mut files, mut no_part, mut hidden, mut part_folders) = (vec![], vec![], vec![], vec![]);
        if full.is_dir() {
            for (name, path) in folder_entries::list(path)? {
                if is_hidden(&name) {
                    hidden.push(name);
                    continue;
                }
                if path.is_dir() {
                    part_folders.extend(part_of(&name).map(|_| name));
                    continue;
                }
                let content = detect_content(&path)?;
                match (Form::in_folder(&name, &content), part_of(&name)) {
                    (Some(form), Some(part)) => files.push(TextFile { part, path, form }),
                    (Some(_), None) => no_part.push(name),
                    (None, Some(_)) if !is_document(&name) => {
                        let is = match content {
                            Content::Other(is) => is,
                            _ => "not running text".to_owned(),
                        };
                        return Err(no_text(format!("`{name}` is {is}")));
                    }
                    (None, _) => {}
                }
            }
            files.sort_by_key(|file| file.part);
            if let Some(pair) = files.windows(2).find(|pair| pair[0].part == pair[1].part) {
                let names = format!("`{}` and `{}`", name(&pair[0].path), name(&pair[1].path));
                return Err(no_text(format!("it has two files for the same part: {names}")));
            }
            if let ([file, ..], [folder, ..]) = (&files[..], &part_folders[..]) {
                let file = name(&file.path);
                return Err(no_text(format!(
                    "it has both a file and a folder for a part: `{file}` and `{folder}`"
                )));
            }
            if files.is_empty() {
                return Err(no_text(
                    "no text file has the word `train`, `valid` or `test` in its name".to_owned(),
                ));
            }
        } else {
            let content = detect_content(path)?;
            let form = Form::of(&content).ok_or_else(|| {
                no_text(match content {
                    Content::Other(is) => format!("it is {is}"),
                    Content::Rows { .. } => "it contains labelled rows".to_owned(),
                    _ => "it is a file of images".to_owned(),
                })
            })?;
            files.push(TextFile {
                part: Part::Train,
                path: full.clone(),
                form,
            });
        }
        let notes = [
            skipped_note("because their names do not indicate a part", &no_part),
            skipped_note("because they are hidden", &hidden),
        ];
        let unread = files.iter().filter(|file| file.form.lines);
        let unread: Vec<_> = unread.filter_map(|file| file.unread_keys(columns)).collect();
        let names: Vec<_> = files.iter().map(|file| name(&file.path)).collect();
        if columns.text.is_some()
            && let Some(text) = files.iter().find(|file| !file.form.lines)
        {
            let reason = format!(
                "`--text-column` does not apply, because `{}` is not a JSON Lines file",
                name(&text.path)
            );
            return Err(no_text(reason));
        }
        Ok(Self {
            name: names.join(", "),
            notes: notes.into_iter().flatten().chain(unread).collect(),
            files,
            column: columns.text.clone(),
        })
    }

    /// Returns the BLAKE3 hash of part, format and contents of every file, and of the key given by the user. File names are not hashed.
    pub fn hash(&self) -> Result<blake3::Hash, DataError> {
        let mut all = blake3::Hasher::new();
        for file in &self.files {
            let read = || -> std::io::Result<blake3::Hash> {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(open_regular(&file.path)?)?;
                Ok(hasher.finalize())
            };
            let hash = read().map_err(DataError::read(&file.path))?;
            all.update(format!("{:?}\0{:?}\0{hash}\n", file.part, file.form).as_bytes());
        }
        if let Some(column) = &self.column {
            all.update(format!("{column}\n").as_bytes());
        }
        Ok(all.finalize())
    }

    /// Passes every document to `on_piece` in pieces of at most `limit` bytes.
    pub fn pieces(&self, limit: usize, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        for file in &self.files {
            let mut documents = 0;
            let mut on_piece = |piece: Piece<'_>| {
                documents += usize::from(piece.begins);
                on_piece(piece)
            };
            match file.form.lines {
                true => file.read_json_lines(self.column.as_deref(), limit, &mut on_piece)?,
                false => file.read_text(limit, &mut on_piece)?,
            }
            if documents == 0 {
                return Err(DataError::NoText {
                    path: file.path.clone(),
                    reason: "it contains only whitespace".to_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use mantissa_core::DatasetKind;

    use super::{
        text_file::{MAX_LINE_BYTES, READ_BYTES},
        *,
    };
    use crate::data::detect_kind;

    /// Creates a folder with these files.
    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns the documents of a file, each as its pieces.
    fn documents(name: &str, bytes: &[u8], limit: usize) -> Result<Vec<Vec<String>>, String> {
        let folder = folder(&[(name, bytes)]);
        let from_name = |error: DataError| {
            let error = error.to_string();
            error[error.find(name).unwrap()..].to_owned()
        };
        let corpus = Corpus::find(&folder.path().join(name), &ColumnNames::default()).map_err(from_name)?;
        let mut documents: Vec<Vec<String>> = vec![];
        let all = corpus.pieces(limit, &mut |piece| {
            if piece.begins {
                documents.push(vec![]);
            }
            documents.last_mut().unwrap().push(piece.text.to_owned());
            Ok(())
        });
        all.map_err(from_name)?;
        Ok(documents)
    }

    #[test]
    fn a_text_is_split_at_markers_and_documents_are_trimmed() {
        let split = |text: &str| documents("a.txt", text.as_bytes(), MAX_ENCODE_BYTES).unwrap();
        let all = split("\u{feff} One.\n\n<|endoftext|>\nTwo\n lines. <|endoftext|><|endoftext|> \nThree");
        assert_eq!(all, [["One."], ["Two\n lines."], ["Three"]]);
        assert_eq!(split("\n all of it <|endof \n"), [["all of it <|endof"]]);
    }

    #[test]
    fn a_character_split_across_reads_is_decoded() {
        let text = format!("{}é {}", "a".repeat(READ_BYTES - 1), "b".repeat(READ_BYTES));
        let all = documents("a.txt", text.as_bytes(), 4 * READ_BYTES).unwrap();
        assert_eq!(all, [[text]]);
    }

    #[test]
    fn every_line_of_json_is_a_document() {
        let lines =
            "{\"text\": \" a\\nb \", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"text\": \"c<|endoftext|>d\"}";
        let expected = [[" a\nb "], ["c<|endoftext|>d"]];
        assert_eq!(
            documents("a.jsonl", lines.as_bytes(), MAX_ENCODE_BYTES).unwrap(),
            expected
        );
        assert_eq!(
            documents("a.jsonl.gz", &gzip(lines), MAX_ENCODE_BYTES).unwrap(),
            expected
        );
        let long = "{\"text\": \"one two three four\"}";
        let pieces = [["one two", " three", " four"]];
        assert_eq!(documents("a.jsonl", long.as_bytes(), 8).unwrap(), pieces);
    }

    #[test]
    fn errors_contain_the_line_number() {
        let error = |name: &str, bytes: &[u8]| documents(name, bytes, MAX_ENCODE_BYTES).unwrap_err();
        assert!(error("a.txt", b"one\ntwo \xff\n").starts_with("a.txt:2: not UTF-8"));
        assert!(error("a.txt", b"one\ntwo \xc3").starts_with("a.txt:2: not UTF-8"));
        assert!(
            error("a.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"\xff\"}").starts_with("a.jsonl:2: not UTF-8")
        );
        assert!(
            error("a.jsonl", b"{\"text\": \"a\"}\n{\"text\"").starts_with("a.jsonl:2: not a JSON object: ")
        );
        assert!(error("a.jsonl", b"{\"remark\": \"a\"}").starts_with("a.jsonl:1: no text column found"));
        assert!(error("a.txt", b"").contains("it is empty"));
        let nothing: [(&str, &[u8]); 3] = [
            ("a.txt", b" \n"),
            ("a.txt", b"<|endoftext|>\n"),
            ("a.jsonl", b"\n{\"text\": \" \"}\n"),
        ];
        for (name, bytes) in nothing {
            let error = error(name, bytes);
            assert!(error.contains("only whitespace"), "{error}");
        }
        let long = vec![b' '; MAX_LINE_BYTES + 1];
        assert!(error("a.jsonl", &long).starts_with("a.jsonl:1: the line is longer than 64 MiB"));
        let text: String = (0..3000u64)
            .map(|i| format!("line {}\n", i * i * 7919 % 10_007))
            .collect();
        let whole = gzip(&text);
        let cut = error("a.txt.gz", &whole[..whole.len() - 9]);
        assert!(
            cut.contains(": the compressed file is truncated or damaged here: "),
            "{cut}"
        );
    }

    #[test]
    fn file_names_in_a_folder_determine_the_parts() {
        let files: [(&str, &[u8]); 4] = [
            ("wiki.test.tokens", b"the test"),
            ("wiki.train.tokens.gz", &gzip("the training")),
            ("README.txt", b"no part"),
            ("notes_train.md", b"no text"),
        ];
        let folder_of_parts = folder(&files);
        let corpus = Corpus::find(folder_of_parts.path(), &ColumnNames::default()).unwrap();
        assert_eq!(corpus.name, "wiki.train.tokens.gz, wiki.test.tokens");
        let error = |files: &[(&str, &[u8])]| {
            Corpus::find(folder(files).path(), &ColumnNames::default())
                .err()
                .unwrap()
                .to_string()
        };
        let two = error(&[("train.txt", b"a"), ("train.jsonl", b"{}")]);
        assert!(
            two.contains("it has two files for the same part: `train.jsonl` and `train.txt`"),
            "{two}"
        );
        assert!(error(&[]).contains("no text file has the word"));
        assert_eq!(
            corpus.notes,
            ["skipped because their names do not indicate a part: `README.txt`"]
        );
    }

    #[test]
    fn running_text_and_reviews_are_distinguished_by_file_type() {
        let kind = |files: &[(&str, &[u8])]| detect_kind(folder(files).path()).unwrap();
        assert_eq!(kind(&[("train.txt", b"a")]), DatasetKind::Text);
        assert_eq!(kind(&[("wiki.valid.raw", b"a")]), DatasetKind::Text);
        assert_eq!(kind(&[("train.jsonl", b"{\"text\": \"a\"}")]), DatasetKind::Text);
        let labelled = b"{\"text\": \"a\", \"label\": 1}\n";
        assert_eq!(kind(&[("train.jsonl", labelled)]), DatasetKind::Reviews);
        let both = folder(&[("train.tsv", b"0\ta\n"), ("test.txt", b"a")]);
        assert!(
            detect_kind(both.path())
                .unwrap_err()
                .to_string()
                .contains("`test.txt` is running text")
        );
        assert!(detect_kind(folder(&[("README.txt", b"a")]).path()).is_err());
        let alone = folder(&[("mine.txt", b"a"), ("mine.jsonl", labelled), ("mine.csv", b"0,a")]);
        let kind = |name: &str| detect_kind(&alone.path().join(name)).unwrap();
        assert_eq!(kind("mine.txt"), DatasetKind::Text);
        assert_eq!(kind("mine.jsonl"), DatasetKind::Reviews);
        assert_eq!(kind("mine.csv"), DatasetKind::Reviews);
    }
}
