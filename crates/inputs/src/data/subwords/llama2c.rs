//! llama2.c tokenizer (`tok*.bin`): the length of the longest piece, then the score, length and bytes of every piece. Encoding and decoding match
//! `run.c`.

use std::collections::HashMap;

use super::{merging::merge_pieces, tokenizer_trait::Subwords};

/// Beginning token.
const BEGIN_ID: u32 = 1;
/// End token.
const END_ID: u32 = 2;
/// Id of byte 0. The other bytes follow in order.
const FIRST_BYTE_ID: u32 = 3;
/// `run.c` only merges pairs with a score above this.
const SCORE_LIMIT: f32 = -1e10;

/// Pieces by id.
#[derive(Debug)]
pub(super) struct Llama2c {
    pieces: Vec<(String, f32)>,
    ids: HashMap<String, u32>,
}

impl Llama2c {
    /// Reads a file from its bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let truncated = |piece: usize| format!("it is truncated or damaged at piece {piece}");
        let (_longest, mut rest) = bytes.split_at_checked(4).ok_or_else(|| truncated(0))?;
        let mut pieces: Vec<(String, f32)> = vec![];
        let mut ids = HashMap::new();
        while !rest.is_empty() {
            let index = pieces.len();
            let (head, after) = rest.split_first_chunk::<8>().ok_or_else(|| truncated(index))?;
            let [a, b, c, d, e, f, g, h] = *head;
            let score = f32::from_le_bytes([a, b, c, d]);
            let length = i32::from_le_bytes([e, f, g, h]);
            let parts = usize::try_from(length)
                .ok()
                .and_then(|length| after.split_at_checked(length));
            let (piece, after) = parts.ok_or_else(|| {
                format!(
                    "piece {index} has a declared length of {length} bytes, but only {} are left",
                    after.len()
                )
            })?;
            let piece = str::from_utf8(piece).map_err(|_| format!("piece {index} is not UTF-8"))?;
            if piece.is_empty() {
                return Err(format!("piece {index} is empty"));
            }
            if !score.is_finite() {
                return Err(format!("piece {index} has the invalid score {score}"));
            }
            if let Some(other) = ids.insert(piece.to_owned(), index as u32) {
                return Err(format!("pieces {other} and {index} are identical"));
            }
            pieces.push((piece.to_owned(), score + 0.0)); // Converts -0.0 to 0.0, so that both compare as equal.
            rest = after;
        }
        let bytes = (0..=u8::MAX).zip(pieces.iter().skip(FIRST_BYTE_ID as usize));
        let matching = bytes.filter(|(byte, (piece, _))| *piece == format!("<0x{byte:02X}>"));
        if matching.count() != 256 {
            return Err(format!(
                "it has {} pieces, but the pieces from {FIRST_BYTE_ID} on are not the bytes `<0x00>` to `<0xFF>`",
                pieces.len()
            ));
        }
        Ok(Self { pieces, ids })
    }
}

impl Subwords for Llama2c {
    fn vocabulary(&self) -> u32 {
        self.pieces.len() as u32
    }

    fn beginning(&self) -> Option<u32> {
        Some(BEGIN_ID)
    }

    fn end(&self) -> Option<u32> {
        Some(END_ID)
    }

    fn id_of(&self, token: &str) -> Option<u32> {
        match token {
            "<unk>" => Some(0),
            "<s>" => Some(BEGIN_ID),
            "</s>" => Some(END_ID),
            token => self.ids.get(token).copied(),
        }
    }

    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String> {
        let mut ids = vec![];
        let spaced;
        let mut text = part;
        if begins {
            ids.push(BEGIN_ID);
            if !part.is_empty() && self.ids.contains_key(" ") {
                spaced = format!(" {part}");
                text = &spaced;
            }
        }
        // Characters without a piece are encoded as bytes, which are never merged.
        let symbols = text.chars().map(|character| {
            let known = self.ids.contains_key(&*character.encode_utf8(&mut [0; 4]));
            (character.len_utf8(), !known)
        });
        let score = |piece: &str| {
            let (_, score) = self.pieces[*self.ids.get(piece)? as usize];
            (score > SCORE_LIMIT).then_some(score)
        };
        for range in merge_pieces(text, symbols, score) {
            let piece = &text[range];
            match self.ids.get(piece) {
                Some(&id) => ids.push(id),
                None => ids.extend(piece.bytes().map(|byte| FIRST_BYTE_ID + u32::from(byte))),
            }
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = vec![];
        let mut previous = None;
        for &id in ids {
            let piece = self
                .pieces
                .get(id as usize)
                .map_or("", |(piece, _)| piece.as_str());
            match id.checked_sub(FIRST_BYTE_ID).map(u8::try_from) {
                None if id != 0 => {} // Beginning and end token.
                Some(Ok(byte)) => bytes.push(byte),
                _ if previous == Some(BEGIN_ID) => {
                    bytes.extend(piece.strip_prefix(' ').unwrap_or(piece).bytes());
                }
                _ => bytes.extend(piece.bytes()),
            }
            previous = Some(id);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a file with the special pieces, the bytes and these pieces.
    pub fn file(more: &[(&str, f32)]) -> Vec<u8> {
        let bytes: Vec<String> = (0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")).collect();
        let special = ["<unk>", "\n<s>\n", "\n</s>\n"].into_iter();
        let usual = special
            .chain(bytes.iter().map(String::as_str))
            .map(|piece| (piece, 0.0));
        let mut file = 27_u32.to_le_bytes().to_vec();
        for (piece, score) in usual.chain(more.iter().copied()) {
            file.extend(score.to_le_bytes());
            file.extend((piece.len() as i32).to_le_bytes());
            file.extend(piece.bytes());
        }
        file
    }

    const MORE: [(&str, f32); 8] = [
        (" a", -0.0),
        ("ab", -1.0),
        (" ab", -2.0),
        (" ", -3.0),
        ("a", -4.0),
        ("b", -5.0),
        ("é", -6.0),
        ("<0x41>", -7.0),
    ];
    /// Id of the first additional piece.
    const FIRST: u32 = 259;

    #[test]
    fn encoding_and_decoding_match_run_c() {
        let tokenizer = Llama2c::read(&file(&MORE[..7])).unwrap();
        let encoded = |text: &str| tokenizer.encode(text, true).unwrap();
        assert_eq!(encoded(""), [1]);
        assert_eq!(
            encoded("ab"),
            [1, FIRST + 2],
            "a space must be inserted before the text"
        );
        assert_eq!(encoded("ab ab"), [1, FIRST + 2, FIRST + 2]);
        assert_eq!(tokenizer.encode("ab", false).unwrap(), [FIRST + 1]);
        assert_eq!(encoded("é"), [1, FIRST + 3, FIRST + 6]);
        assert_eq!(
            encoded("中a"),
            [1, FIRST + 3, 3 + 0xe4, 3 + 0xb8, 3 + 0xad, FIRST + 4]
        );
        for text in ["ab  b", "中é\0\n", "a  ", "🎬"] {
            assert_eq!(tokenizer.decode(&encoded(text)), text);
        }
        assert_eq!(tokenizer.decode(&[1, FIRST, FIRST, 2]), "a a");
        assert_eq!(tokenizer.decode(&[FIRST]), " a");
        assert_eq!(tokenizer.decode(&[3 + 0xe4, FIRST + 5]), "\u{fffd}b");
        assert_eq!(tokenizer.decode(&[9_999]), "");
    }

    #[test]
    fn damaged_files_are_rejected_with_the_reason() {
        let error = |bytes: &[u8]| Llama2c::read(bytes).unwrap_err();
        let whole = file(&MORE[..7]);
        let mut ends = vec![4];
        let mut at = 4;
        while at < whole.len() {
            at += 8 + whole[at + 4] as usize;
            ends.push(at);
        }
        for length in 0..whole.len() {
            let read = Llama2c::read(&whole[..length]);
            let has_all_bytes = ends
                .iter()
                .position(|&end| end == length)
                .is_some_and(|n| n >= 259);
            assert_eq!(read.is_ok(), has_all_bytes, "{length} bytes");
        }
        let with = |length: i32| {
            let mut bytes = whole.clone();
            bytes[8..12].copy_from_slice(&length.to_le_bytes());
            error(&bytes)
        };
        assert!(with(-1).contains("piece 0 has a declared length of -1 bytes"));
        assert!(with(i32::MAX).contains("piece 0 has a declared length of 2147483647 bytes"));
        assert!(with(0).contains("piece 0 is empty"));
        assert_eq!(error(&file(&MORE)), "pieces 68 and 266 are identical");
        assert!(error(&file(&[("x", f32::NAN)])).contains("has the invalid score NaN"));
        let mut bytes = whole.clone();
        bytes[12] = 0xff;
        assert_eq!(error(&bytes), "piece 0 is not UTF-8");
        assert!(
            error(&27_u32.to_le_bytes())
                .starts_with("it has 0 pieces, but the pieces from 3 on are not the bytes")
        );
    }

    /// For each story of `tinystories_sample_cs336.txt`, the number of tokens and the sum of position · id, with positions from 1. Computed by
    /// `peers/pytorch/golden/stories.py`.
    const STORIES: [(usize, u64); 5] = [
        (374, 24_993_298),
        (330, 18_976_377),
        (223, 8_663_584),
        (425, 31_759_511),
        (457, 37_020_688),
    ];

    #[test]
    fn story_ids_match_the_python_script() {
        let [file, text] =
            ["tok512.bin", "stories.txt"].map(|file| mantissa_testing::shipped(&format!("stories/{file}")));
        let tokenizer = Llama2c::read(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(tokenizer.vocabulary(), 512);
        let text = std::fs::read_to_string(text).unwrap();
        let stories = text
            .split("<|endoftext|>")
            .map(str::trim)
            .filter(|story| !story.is_empty());
        let found: Vec<(usize, u64)> = stories
            .map(|story| {
                let ids = tokenizer.encode(story, true).unwrap();
                assert_eq!(tokenizer.decode(&ids), story);
                let products = (1..).zip(&ids).map(|(position, &id)| position * u64::from(id));
                (ids.len(), products.sum::<u64>())
            })
            .collect();
        assert_eq!(found, STORIES);
    }

    #[derive(serde::Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        llama2c: Vec<u32>,
    }

    #[test]
    fn edge_case_ids_match_the_python_script() {
        let Some(file) = mantissa_testing::real_data("llama_tiny/llama2_tokenizer_32000.bin") else {
            return;
        };
        let golden: Golden = serde_json::from_str(include_str!("../golden/llama2_tokenizer.json")).unwrap();
        let tokenizer = Llama2c::read(&std::fs::read(file).unwrap()).unwrap();
        assert!(golden.cases.len() > 10);
        for Case { text, llama2c } in golden.cases {
            let ids = tokenizer.encode(&text, true).unwrap();
            assert_eq!(ids, llama2c, "{text}");
            assert_eq!(tokenizer.decode(&ids), text);
        }
    }
}
