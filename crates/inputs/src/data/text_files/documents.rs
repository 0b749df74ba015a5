//! Splits running text into documents, and long documents into pieces.

use crate::data::{DataError, examples::Part, subwords};

/// Separator of the documents in a text file.
pub(crate) const DOCUMENT_SEPARATOR: &str = "<|endoftext|>";

/// Piece of a document.
pub(crate) struct Piece<'a> {
    pub part: Part,
    /// True for the first piece of its document.
    pub begins: bool,
    pub text: &'a str,
}

/// Callback that receives pieces in order.
pub(crate) type OnPiece<'a> = dyn FnMut(Piece<'_>) -> Result<(), DataError> + 'a;

/// Splits running text into documents, and long documents into pieces.
pub(super) struct DocumentSplitter {
    part: Part,
    /// Maximum number of bytes in a piece.
    limit: usize,
    /// True if a piece of the current document was emitted.
    begun: bool,
    /// Text that is not emitted yet.
    pending: String,
}

impl DocumentSplitter {
    /// Creates a splitter for a part of the data set.
    pub fn new(part: Part, limit: usize) -> Self {
        Self {
            part,
            limit,
            begun: false,
            pending: String::new(),
        }
    }

    /// Adds text and emits complete pieces.
    pub fn add(&mut self, text: &str, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.push_str(text);
        let mut rest = pending.as_str();
        while let Some((document, after)) = rest.split_once(DOCUMENT_SEPARATOR) {
            self.end_document(document, on_piece)?;
            rest = after;
        }
        // Keep the last bytes for the next call, because the text may end within a separator.
        rest = self.emit_pieces(rest, DOCUMENT_SEPARATOR.len(), on_piece)?;
        self.pending = rest.to_owned();
        Ok(())
    }

    /// Emits the last document.
    pub fn finish(mut self, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        let rest = std::mem::take(&mut self.pending);
        self.end_document(&rest, on_piece)
    }

    /// Emits the rest of a document.
    fn end_document(&mut self, rest: &str, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        let rest = self.emit_pieces(rest, 0, on_piece)?.trim_end();
        if !rest.is_empty() {
            self.emit(rest, on_piece)?;
        }
        self.begun = false;
        Ok(())
    }

    /// Emits pieces until at most `limit + reserve` bytes are left, and returns the rest.
    fn emit_pieces<'a>(
        &mut self,
        mut rest: &'a str,
        reserve: usize,
        on_piece: &mut OnPiece<'_>,
    ) -> Result<&'a str, DataError> {
        if !self.begun {
            rest = rest.trim_start();
        }
        while rest.len() > self.limit + reserve {
            let (piece, after) = rest.split_at(subwords::end_of_part(rest, self.limit));
            self.emit(piece, on_piece)?;
            rest = after;
        }
        Ok(rest)
    }

    /// Emits a piece.
    fn emit(&mut self, text: &str, on_piece: &mut OnPiece<'_>) -> Result<(), DataError> {
        let begins = !self.begun;
        self.begun = true;
        on_piece(Piece {
            part: self.part,
            begins,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::subwords::MAX_ENCODE_BYTES;

    #[test]
    fn documents_do_not_depend_on_the_read_size() {
        let text =
            "  the first of a few é documents<|endoftext|> and\nthe second 中国 <|endoftext|>last ".repeat(3);
        for limit in [16, 24, 64, MAX_ENCODE_BYTES] {
            let mut expected: Vec<Vec<String>> = vec![];
            for document in text
                .split(DOCUMENT_SEPARATOR)
                .map(str::trim)
                .filter(|document| !document.is_empty())
            {
                expected.push(subwords::parts(document, limit).map(str::to_owned).collect());
            }
            for size in 1..40 {
                let mut found: Vec<Vec<String>> = vec![];
                let mut on_piece = |piece: Piece<'_>| {
                    if piece.begins {
                        found.push(vec![]);
                    }
                    found.last_mut().unwrap().push(piece.text.to_owned());
                    Ok(())
                };
                let mut splitter = DocumentSplitter::new(Part::Train, limit);
                let letters: Vec<char> = text.chars().collect();
                for chunk in letters.chunks(size) {
                    splitter
                        .add(&chunk.iter().collect::<String>(), &mut on_piece)
                        .unwrap();
                }
                splitter.finish(&mut on_piece).unwrap();
                assert_eq!(found, expected, "limit {limit}, {size} characters at a time");
            }
        }
    }
}
