//! SentencePiece models (BPE and unigram). Ids of BPE models equal those of the SentencePiece library. Ids of unigram models equal those of
//! version 0.2.1; 0.2.3 rounds scores differently, which changes the ids of a few sentences.

use std::collections::HashMap;

use super::{
    merging::merge_pieces,
    normalizer::{CharMap, Normalizer, SPACE},
    protobuf::{Fields, Value},
    tokenizer_trait::Subwords,
    trie::Trie,
};

/// Penalty of a unigram model for a character without a piece, subtracted from the lowest score.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Type of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    /// Never split.
    UserDefined,
    Byte,
}

#[derive(Debug)]
struct Piece {
    text: String,
    score: f32,
    kind: Kind,
}

/// Algorithm that splits a text into pieces.
enum Model {
    /// Unigram: selects the most probable pieces.
    Unigram {
        pieces: Trie,
        unknown: f32,
        highest: f32,
    },
    /// Byte-pair merging.
    Merges,
}

/// SentencePiece model.
pub(super) struct SentencePiece {
    pieces: Vec<Piece>,
    ids: HashMap<String, u32>,
    model: Model,
    normalizer: Normalizer,
    /// User-defined pieces, which are never split.
    user_defined: Trie,
    unknown: u32,
    /// Decoded text of the unknown piece.
    unknown_text: String,
    /// Ids of the 256 byte pieces, for characters without a piece.
    bytes: Option<Vec<u32>>,
    beginning: Option<u32>,
    end: Option<u32>,
}

/// Fields of the trainer message that are used.
struct Trainer {
    model: u64,
    suffix: bool,
    bytes: bool,
    unknown_text: String,
    beginning: String,
    end: String,
}

impl SentencePiece {
    /// Reads a `.model`.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let (mut pieces, mut trainer, mut normalizer): (Vec<Piece>, &[u8], &[u8]) = (vec![], &[], &[]);
        for field in Fields(bytes) {
            match field.map_err(|error| format!("it is not a SentencePiece model: {error}"))? {
                (1, value) => {
                    let piece = value.bytes().and_then(parse_piece);
                    pieces.push(piece.map_err(|error| format!("piece {}: {error}", pieces.len()))?);
                }
                (2, value) => trainer = value.bytes()?,
                (3, value) => normalizer = value.bytes()?,
                _ => {}
            }
        }
        if pieces.is_empty() {
            return Err("it is not a SentencePiece model, or has no pieces".to_owned());
        }
        let trainer = parse_trainer_spec(trainer)?;
        let normalizer = Normalizer {
            suffix: trainer.suffix,
            ..parse_normalizer_spec(normalizer)?
        };
        Self::new(pieces, trainer, normalizer)
    }

    fn new(pieces: Vec<Piece>, trainer: Trainer, normalizer: Normalizer) -> Result<Self, String> {
        let mut ids = HashMap::new();
        for (piece, id) in pieces.iter().zip(0..) {
            if let Some(other) = ids.insert(piece.text.clone(), id) {
                return Err(format!("pieces {other} and {id} are identical: `{}`", piece.text));
            }
        }
        let of_kind = |kind| {
            pieces
                .iter()
                .zip(0..)
                .filter(move |(piece, _)| piece.kind == kind)
        };
        let unknown: Vec<u32> = of_kind(Kind::Unknown).map(|(_, id)| id).collect();
        let [unknown] = unknown[..] else {
            return Err(format!(
                "it has {} unknown pieces; expected exactly one",
                unknown.len()
            ));
        };
        let byte = |byte: u8| {
            let name = format!("<0x{byte:02X}>");
            let id = *ids.get(&name)?;
            (pieces[id as usize].kind == Kind::Byte).then_some(id)
        };
        let bytes: Option<Vec<u32>> = (0..=u8::MAX).map(byte).collect();
        let count = of_kind(Kind::Byte).count();
        let expected = if trainer.bytes { 256 } else { 0 };
        if count != expected || bytes.is_some() != trainer.bytes {
            return Err(format!(
                "it has {count} byte pieces; expected all 256 with byte fallback, and none without"
            ));
        }
        let control = |name: &str| {
            let id = *ids.get(name)?;
            (pieces[id as usize].kind == Kind::Control).then_some(id)
        };
        let scores = of_kind(Kind::Normal).map(|(piece, _)| piece.score);
        let model = match trainer.model {
            1 => {
                let lowest = scores.clone().fold(f32::MAX, f32::min);
                let candidates = of_kind(Kind::Normal).chain(of_kind(Kind::UserDefined));
                Model::Unigram {
                    pieces: Trie::new(candidates.map(|(piece, id)| (&*piece.text, id))),
                    unknown: lowest - UNKNOWN_PENALTY,
                    highest: scores.fold(f32::MIN_POSITIVE, f32::max),
                }
            }
            2 => Model::Merges,
            other => {
                return Err(format!(
                    "model type {other} is not supported; supported types are unigram (1) and BPE (2)"
                ));
            }
        };
        Ok(Self {
            model,
            normalizer,
            user_defined: Trie::new(of_kind(Kind::UserDefined).map(|(piece, id)| (&*piece.text, id))),
            unknown,
            unknown_text: trainer.unknown_text,
            bytes,
            beginning: control(&trainer.beginning),
            end: control(&trainer.end),
            ids,
            pieces,
        })
    }

    /// Splits a normalized text into pieces. Returns the number of bytes of each piece, and its id unless it is unknown.
    fn split(&self, text: &str) -> Vec<(usize, Option<u32>)> {
        match &self.model {
            Model::Unigram {
                pieces,
                unknown,
                highest,
            } => self.viterbi(text, pieces, *unknown, *highest),
            Model::Merges => {
                let mut rest = text;
                let symbols = std::iter::from_fn(|| {
                    let user_defined = self.user_defined.prefixes(rest).last();
                    let bytes = user_defined.map_or(rest.chars().next()?.len_utf8(), |(bytes, _)| bytes);
                    rest = &rest[bytes..];
                    Some((bytes, user_defined.is_some()))
                });
                let score = |piece: &str| {
                    let piece = &self.pieces[*self.ids.get(piece)? as usize];
                    matches!(piece.kind, Kind::Normal | Kind::UserDefined).then_some(piece.score)
                };
                let ranges = merge_pieces(text, symbols, score).into_iter();
                ranges
                    .map(|range| (range.len(), self.ids.get(&text[range]).copied()))
                    .collect()
            }
        }
    }

    /// Returns the pieces with the highest sum of scores (Viterbi algorithm), with the rounding of the library.
    fn viterbi(&self, text: &str, pieces: &Trie, unknown: f32, highest: f32) -> Vec<(usize, Option<u32>)> {
        /// Best path to a position in the text.
        #[derive(Clone, Copy)]
        struct Path {
            score: f32,
            /// Number of bytes of the last piece. 0 if there is no path yet.
            bytes: u32,
            id: Option<u32>,
        }
        let none = Path {
            score: 0.0,
            bytes: 0,
            id: None,
        };
        let mut paths = vec![none; text.len() + 1];
        for (at, character) in text.char_indices() {
            let here = paths[at].score;
            let mut extend = |bytes: usize, score: f64, id: Option<u32>| {
                let path = &mut paths[at + bytes];
                if path.bytes == 0 || score > f64::from(path.score) {
                    *path = Path {
                        score: score as f32,
                        bytes: bytes as u32,
                        id,
                    };
                }
            };
            let mut has_single = false;
            for (bytes, id) in pieces.prefixes(&text[at..]) {
                let piece = &self.pieces[id as usize];
                let score = match piece.kind {
                    // A user-defined piece takes precedence over all others.
                    Kind::UserDefined => f64::from(bytes as f32 * highest) - 0.1,
                    _ => f64::from(piece.score),
                };
                extend(bytes, score + f64::from(here), Some(id));
                has_single |= bytes == character.len_utf8();
            }
            if !has_single {
                extend(character.len_utf8(), f64::from(unknown + here), None);
            }
        }
        let mut found = vec![];
        let mut at = text.len();
        while at > 0 {
            let path = paths[at];
            found.push((path.bytes as usize, path.id));
            at -= path.bytes as usize;
        }
        found.reverse();
        found
    }
}

impl Subwords for SentencePiece {
    fn vocabulary(&self) -> u32 {
        self.pieces.len() as u32
    }

    fn beginning(&self) -> Option<u32> {
        self.beginning
    }

    fn end(&self) -> Option<u32> {
        self.end
    }

    fn id_of(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String> {
        let text = self.normalizer.normalize(part, begins, &self.user_defined)?;
        let mut ids: Vec<u32> = self.beginning.filter(|_| begins).into_iter().collect();
        let mut at = 0;
        let mut after_unknown = false;
        for (length, id) in self.split(&text) {
            let piece = &text[at..at + length];
            at += length;
            let is_unknown = id.is_none_or(|id| id == self.unknown);
            match (id, &self.bytes) {
                (Some(id), _) if !is_unknown => ids.push(id),
                (_, Some(byte_ids)) => ids.extend(piece.bytes().map(|byte| byte_ids[usize::from(byte)])),
                // Consecutive unknown pieces become one token.
                _ if after_unknown => {}
                _ => ids.push(self.unknown),
            }
            after_unknown = is_unknown;
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        let strips = self.normalizer.dummy_prefix || self.normalizer.remove_extra_spaces;
        let mut text = String::new();
        let mut bytes = vec![];
        // True while a leading space of the next piece may be the space that was inserted before the text.
        let mut begins = true;
        for &id in ids {
            let Some(piece) = self.pieces.get(id as usize) else {
                continue;
            };
            if let (Kind::Byte, Some(byte_ids)) = (piece.kind, &self.bytes) {
                let byte = byte_ids.iter().position(|&other| other == id);
                bytes.extend(byte.map(|byte| byte as u8));
                continue;
            }
            flush_bytes(&mut bytes, &mut text);
            begins &= text.is_empty();
            match piece.kind {
                Kind::Control => {}
                Kind::Unknown => text.push_str(&self.unknown_text),
                Kind::Normal | Kind::UserDefined | Kind::Byte => {
                    let stripped = piece.text.strip_prefix(SPACE).filter(|_| begins && strips);
                    // If the model removes extra spaces, strip the leading spaces of all pieces up to the first text.
                    begins &= stripped.is_none() || self.normalizer.remove_extra_spaces;
                    text.push_str(&stripped.unwrap_or(&piece.text).replace(SPACE, " "));
                }
            }
        }
        flush_bytes(&mut bytes, &mut text);
        text
    }
}

/// Appends bytes to a text and clears them. A byte that is not part of a valid character becomes a replacement character.
fn flush_bytes(bytes: &mut Vec<u8>, text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}

fn parse_piece(message: &[u8]) -> Result<Piece, String> {
    let mut piece = Piece {
        text: String::new(),
        score: 0.0,
        kind: Kind::Normal,
    };
    for field in Fields(message) {
        match field? {
            (1, value) => piece.text = value.text()?.to_owned(),
            (2, value) => piece.score = value.float()? + 0.0, // Converts -0.0 to 0.0, so that both compare as equal.
            (3, value) => {
                piece.kind = match value.number()? {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => return Err("pieces of the type `UNUSED` are not supported".to_owned()),
                    6 => Kind::Byte,
                    other => return Err(format!("it has the unknown type {other}")),
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() {
        return Err("its text is empty".to_owned());
    }
    Ok(piece)
}

fn parse_trainer_spec(message: &[u8]) -> Result<Trainer, String> {
    let mut trainer = Trainer {
        model: 1,
        suffix: false,
        bytes: false,
        unknown_text: " \u{2047} ".to_owned(),
        beginning: "<s>".to_owned(),
        end: "</s>".to_owned(),
    };
    let text = |value: Value<'_>| value.text().map(str::to_owned);
    for field in Fields(message) {
        match field? {
            (3, value) => trainer.model = value.number()?,
            (24, value) => trainer.suffix = value.boolean()?,
            (35, value) => trainer.bytes = value.boolean()?,
            (44, value) => trainer.unknown_text = text(value)?,
            (46, value) => trainer.beginning = text(value)?,
            (47, value) => trainer.end = text(value)?,
            _ => {}
        }
    }
    Ok(trainer)
}

fn parse_normalizer_spec(message: &[u8]) -> Result<Normalizer, String> {
    let mut normalizer = Normalizer {
        char_map: None,
        dummy_prefix: true,
        suffix: false,
        remove_extra_spaces: true,
        escape_spaces: true,
    };
    for field in Fields(message) {
        match field? {
            (2, value) => {
                let rules = value.bytes()?;
                normalizer.char_map = (!rules.is_empty()).then(|| CharMap::read(rules)).transpose()?;
            }
            (3, value) => normalizer.dummy_prefix = value.boolean()?,
            (4, value) => normalizer.remove_extra_spaces = value.boolean()?,
            (5, value) => normalizer.escape_spaces = value.boolean()?,
            _ => {}
        }
    }
    Ok(normalizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
        decoded: String,
    }

    fn check_golden(model: &[u8], golden: &str) -> SentencePiece {
        let tokenizer = SentencePiece::read(model).unwrap();
        let golden: Golden = serde_json::from_str(golden).unwrap();
        assert!(golden.cases.len() > 10);
        for Case { text, ids, decoded } in golden.cases {
            let found = tokenizer.encode(&text, true).unwrap();
            assert_eq!(found, ids, "{text}");
            assert_eq!(tokenizer.decode(&ids), decoded, "{text}");
        }
        tokenizer
    }

    #[test]
    fn llama2_ids_match_the_sentencepiece_library() {
        let Some(model) = mantissa_testing::real_data("llama_tiny/llama2_tokenizer_32000.model") else {
            return;
        };
        let tokenizer = check_golden(
            &std::fs::read(model).unwrap(),
            include_str!("../golden/llama2_tokenizer.json"),
        );
        assert_eq!(tokenizer.vocabulary(), 32_000);
        assert_eq!((tokenizer.beginning(), tokenizer.end()), (Some(1), Some(2)));
    }

    #[test]
    fn shakespeare_ids_match_the_sentencepiece_library() {
        /// Number of tokens of the first 100,000 characters without the beginning token, and the sum of position · id, with positions from 1.
        /// Printed by `peers/subwords_golden.py`.
        const TOKENS: (usize, u64) = (33_207, 4_974_306_384_604);
        let (Some(model), Some(text)) = (
            mantissa_testing::real_data("llama_tiny/llama2_tokenizer_32000.model"),
            mantissa_testing::real_data("text/tinyshakespeare.txt"),
        ) else {
            return;
        };
        let tokenizer = SentencePiece::read(&std::fs::read(model).unwrap()).unwrap();
        let text: String = std::fs::read_to_string(text)
            .unwrap()
            .chars()
            .take(100_000)
            .collect();
        let ids = tokenizer.encode(&text, true).unwrap();
        let products = (1..)
            .zip(&ids[1..])
            .map(|(position, &id)| position * u64::from(id));
        assert_eq!((ids.len() - 1, products.sum::<u64>()), TOKENS);
        assert_eq!(tokenizer.decode(&ids), text);
    }

    const UNIGRAM: &[u8] = include_bytes!("../golden/unigram.model");
    const PAIRS: &[u8] = include_bytes!("../golden/pairs.model");

    #[test]
    fn a_unigram_model_with_normalization_rules_matches_the_library() {
        let tokenizer = check_golden(UNIGRAM, include_str!("../golden/unigram.json"));
        assert!(matches!(tokenizer.model, Model::Unigram { .. }));
        assert!(tokenizer.normalizer.char_map.is_some());
        assert_eq!((tokenizer.beginning(), tokenizer.end()), (None, Some(1)));
    }

    #[test]
    fn a_unigram_model_with_user_defined_pieces_matches_the_library() {
        let tokenizer = check_golden(
            include_bytes!("../golden/unigram_user_defined.model"),
            include_str!("../golden/unigram_user_defined.json"),
        );
        assert!(matches!(tokenizer.model, Model::Unigram { .. }));
    }

    #[test]
    fn a_bpe_model_with_user_defined_pieces_matches_the_library() {
        let tokenizer = check_golden(PAIRS, include_str!("../golden/pairs.json"));
        assert!(matches!(tokenizer.model, Model::Merges));
        assert!(tokenizer.user_defined.prefixes("<sep>").count() == 1);
    }

    #[test]
    fn truncated_and_modified_models_are_rejected_or_do_not_crash() {
        for model in [UNIGRAM, PAIRS] {
            for length in (0..model.len()).step_by(3) {
                if let Ok(tokenizer) = SentencePiece::read(&model[..length]) {
                    let _ = tokenizer
                        .encode("The café, 10 ", true)
                        .map(|ids| tokenizer.decode(&ids));
                }
            }
            for at in (0..model.len()).step_by(2) {
                let mut changed = model.to_vec();
                changed[at] ^= 0x55;
                if let Ok(tokenizer) = SentencePiece::read(&changed) {
                    let _ = tokenizer
                        .encode("The café, 10 ", true)
                        .map(|ids| tokenizer.decode(&ids));
                }
            }
        }
    }

    /// Creates the message of a piece.
    fn piece_message(text: &str, score: f32, kind: u8) -> Vec<u8> {
        let mut piece = vec![0x0a, text.len() as u8];
        piece.extend(text.bytes());
        piece.push(0x15);
        piece.extend(score.to_le_bytes());
        piece.extend([0x18, kind]);
        let mut field = vec![0x0a, piece.len() as u8];
        field.extend(piece);
        field
    }

    #[test]
    fn invalid_models_are_errors() {
        let error = |pieces: &[Vec<u8>]| {
            SentencePiece::read(&pieces.concat())
                .err()
                .expect("the model must be rejected")
        };
        let unknown = || piece_message("<unk>", 0.0, 2);
        assert!(SentencePiece::read(&[unknown(), piece_message("a", -1.0, 1)].concat()).is_ok());
        assert_eq!(error(&[]), "it is not a SentencePiece model, or has no pieces");
        assert!(error(&[piece_message("a", 0.0, 1)]).starts_with("it has 0 unknown pieces"));
        let twice = [unknown(), piece_message("a", 0.0, 1), piece_message("a", 0.0, 1)];
        assert_eq!(error(&twice), "pieces 1 and 2 are identical: `a`");
        assert_eq!(
            error(&[unknown(), piece_message("", 0.0, 1)]),
            "piece 1: its text is empty"
        );
        assert!(
            error(&[unknown(), piece_message("a", f32::NAN, 1)])
                .starts_with("piece 1: expected a finite float")
        );
        assert!(error(&[unknown(), piece_message("a", 0.0, 9)]).contains("has the unknown type 9"));
        assert!(error(&[unknown(), piece_message("a", 0.0, 5)]).contains("UNUSED"));
        assert!(error(&[unknown(), piece_message("<0x41>", 0.0, 6)]).starts_with("it has 1 byte pieces"));
        let mut invalid = piece_message("a", 0.0, 1);
        invalid[4] = 0xff;
        assert_eq!(error(&[unknown(), invalid]), "piece 1: the text is not UTF-8");
        let word_model = [unknown(), vec![0x12, 2, 0x18, 3]];
        assert!(error(&word_model).starts_with("model type 3 is not supported"));
        let longer = [unknown(), vec![0x0a, 0xff, 0xff, 0xff, 0x7f, 1]];
        assert!(error(&longer).contains("a field has 268435455 bytes, but only 1 are left"));
    }
}
