//! Splits running text into documents, and long documents into pieces.

use crate::data::{DataError, examples::Part, subwords};

/// Separator of the documents in a text file.
pub(crate) const MARK: &str = "<|endoftext|>";

/// Piece of a document.
pub(crate) struct Piece<'a> {
    pub part: Part,
    /// True for the first piece of its document.
    pub begins: bool,
    pub text: &'a str,
}

/// Callback that receives pieces in order.
pub(crate) type Taker<'a> = dyn FnMut(Piece<'_>) -> Result<(), DataError> + 'a;

/// Splits running text into documents, and long documents into pieces.
pub(super) struct Cutter {
    part: Part,
    /// Maximum number of bytes in a piece.
    limit: usize,
    /// True if a piece of the current document was emitted.
    begun: bool,
    /// Text that is not emitted yet.
    pending: String,
}

impl Cutter {
    /// Creates a cutter for a part of the data set.
    pub fn new(part: Part, limit: usize) -> Self {
        Self {
            part,
            limit,
            begun: false,
            pending: String::new(),
        }
    }

    /// Adds text and emits complete pieces.
    pub fn add(&mut self, text: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.push_str(text);
        let mut rest = pending.as_str();
        while let Some((document, after)) = rest.split_once(MARK) {
            self.end(document, take)?;
            rest = after;
        }
        // Keep enough text back, because it may end within a marker.
        rest = self.pieces(rest, MARK.len(), take)?;
        self.pending = rest.to_owned();
        Ok(())
    }

    /// Emits the last document.
    pub fn finish(mut self, take: &mut Taker<'_>) -> Result<(), DataError> {
        let rest = std::mem::take(&mut self.pending);
        self.end(&rest, take)
    }

    /// Emits the rest of a document.
    fn end(&mut self, rest: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let rest = self.pieces(rest, 0, take)?.trim_end();
        if !rest.is_empty() {
            self.emit(rest, take)?;
        }
        self.begun = false;
        Ok(())
    }

    /// Emits pieces until at most `limit + more` bytes are left.
    fn pieces<'a>(
        &mut self,
        mut rest: &'a str,
        more: usize,
        take: &mut Taker<'_>,
    ) -> Result<&'a str, DataError> {
        if !self.begun {
            rest = rest.trim_start();
        }
        while rest.len() > self.limit + more {
            let (piece, after) = rest.split_at(subwords::end_of_part(rest, self.limit));
            self.emit(piece, take)?;
            rest = after;
        }
        Ok(rest)
    }

    /// Emits a piece.
    fn emit(&mut self, text: &str, take: &mut Taker<'_>) -> Result<(), DataError> {
        let begins = !self.begun;
        self.begun = true;
        take(Piece {
            part: self.part,
            begins,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::subwords::PIECE;

    #[test]
    fn documents_do_not_depend_on_the_read_size() {
        let text =
            "  the first of a few é documents<|endoftext|> and\nthe second 中国 <|endoftext|>last ".repeat(3);
        for limit in [16, 24, 64, PIECE] {
            let mut expected: Vec<Vec<String>> = vec![];
            for document in text
                .split(MARK)
                .map(str::trim)
                .filter(|document| !document.is_empty())
            {
                expected.push(subwords::parts(document, limit).map(str::to_owned).collect());
            }
            for size in 1..40 {
                let mut found: Vec<Vec<String>> = vec![];
                let mut take = |piece: Piece<'_>| {
                    if piece.begins {
                        found.push(vec![]);
                    }
                    found.last_mut().unwrap().push(piece.text.to_owned());
                    Ok(())
                };
                let mut cutter = Cutter::new(Part::Train, limit);
                let letters: Vec<char> = text.chars().collect();
                for some in letters.chunks(size) {
                    cutter.add(&some.iter().collect::<String>(), &mut take).unwrap();
                }
                cutter.finish(&mut take).unwrap();
                assert_eq!(found, expected, "limit {limit}, {size} characters at a time");
            }
        }
    }
}
