//! Hugging Face `tokenizer.json`, read with the `tokenizers` library.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokenizers::Tokenizer;

use super::tokenizer_trait::Subwords;

/// Common names of the end token, which a `tokenizer.json` does not mark.
const END_TOKENS: [&str; 5] = ["</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]"];
/// Common names of the mask token.
const MASK_TOKENS: [&str; 2] = ["[MASK]", "<mask>"];

/// Maximum length of a token of a unigram model, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;

/// Hugging Face tokenizer.
pub(super) struct HuggingFace {
    inner: Tokenizer,
    /// Tokens that the post-processor inserts before a text.
    before: Vec<u32>,
    end: Option<u32>,
    mask: Option<u32>,
    vocabulary: u32,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`. Ignores its settings for truncation and padding.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        // Parse as JSON first, because errors of `serde_json` contain the position. Then catch panics, because the library may panic on valid JSON
        // with invalid content.
        let json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_token_lengths(&json)?;
        catch_panic(|| Self::parse(bytes))?
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut inner = Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        let vocabulary = inner.get_vocab(true).into_values().max();
        let vocabulary = vocabulary.ok_or("it contains no tokens")?.saturating_add(1);

        // Encode a probe to find the special tokens around a text.
        let probe = inner.encode_fast("a", true).map_err(|error| error.to_string())?;
        let ids = probe.get_ids();
        let is_text = probe.get_special_tokens_mask().iter().map(|&mask| mask == 0);
        let first = is_text.clone().position(|is_text| is_text).unwrap_or(ids.len());
        let last = is_text.clone().rposition(|is_text| is_text).unwrap_or(ids.len());
        let by_name = || END_TOKENS.iter().find_map(|name| inner.token_to_id(name));
        let end = ids[first..].get(last - first + 1..).and_then(<[u32]>::last);
        Ok(Self {
            before: ids[..first].to_vec(),
            end: end.copied().or_else(by_name),
            mask: MASK_TOKENS.iter().find_map(|name| inner.token_to_id(name)),
            vocabulary,
            inner,
        })
    }
}

/// Rejects long tokens of a unigram model: the library frees its trie recursively, which overflows the stack.
fn check_token_lengths(json: &serde_json::Value) -> Result<(), String> {
    let vocabulary = json.pointer("/model/vocab").and_then(serde_json::Value::as_array);
    for (number, entry) in vocabulary.into_iter().flatten().enumerate() {
        let bytes = entry
            .get(0)
            .and_then(serde_json::Value::as_str)
            .map_or(0, str::len);
        if bytes > MAX_TOKEN_BYTES {
            return Err(format!(
                "token {number} of the vocabulary has {bytes} bytes, the maximum is {MAX_TOKEN_BYTES}"
            ));
        }
    }
    Ok(())
}

/// Returns a canonical form of a tokenizer file, without truncation and padding, for comparing two files. Returns `None` for a file that is not a
/// tokenizer.
pub(crate) fn normal_form(bytes: &[u8]) -> Option<String> {
    let normal = || {
        check_token_lengths(&serde_json::from_slice(bytes).ok()?).ok()?;
        let mut tokenizer = Tokenizer::from_bytes(bytes).ok()?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).ok()?;
        tokenizer.to_string(false).ok()
    };
    catch_panic(normal).ok().flatten()
}

/// Calls the library and converts a panic to an error. The library does not validate its files and may panic.
fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let panicked = |_| "the `tokenizers` library panicked; the tokenizer file may be inconsistent".to_owned();
    catch_unwind(AssertUnwindSafe(call)).map_err(panicked)
}

impl Subwords for HuggingFace {
    fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    fn beginning(&self) -> Option<u32> {
        self.before.last().copied()
    }

    fn end(&self) -> Option<u32> {
        self.end
    }

    fn mask(&self) -> Option<u32> {
        self.mask
    }

    fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String> {
        let encoding = catch_panic(|| self.inner.encode_fast(part, false))?;
        let encoding = encoding.map_err(|error| error.to_string())?;
        let before = if begins { &self.before[..] } else { &[] };
        Ok([before, encoding.get_ids()].concat())
    }

    fn decode(&self, ids: &[u32]) -> String {
        // Decoding fails for ids that are not in the model. Return an empty text then.
        let text = catch_panic(|| self.inner.decode(ids, true));
        text.ok().and_then(Result::ok).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        tokenizer: serde_json::Value,
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        text: String,
        ids: Vec<u32>,
        decoded: String,
    }

    fn golden() -> Golden {
        serde_json::from_str(include_str!("../golden/bytes_bpe.json")).unwrap()
    }

    fn read(tokenizer: &serde_json::Value) -> Result<HuggingFace, String> {
        HuggingFace::read(tokenizer.to_string().as_bytes())
    }

    #[test]
    fn edge_case_ids_match_the_python_package() {
        let golden = golden();
        let tokenizer = read(&golden.tokenizer).unwrap();
        assert!(golden.cases.len() > 10);
        for Case { text, ids, decoded } in golden.cases {
            assert_eq!(tokenizer.encode(&text, true).unwrap(), ids, "{text}");
            assert_eq!(tokenizer.decode(&ids), decoded, "{text}");
        }
        assert_eq!((tokenizer.beginning(), tokenizer.end()), (None, Some(0)));
    }

    #[test]
    fn only_special_tokens_before_a_text_are_kept() {
        let mut json = golden().tokenizer;
        let mut special = json["added_tokens"][0].clone();
        special["id"] = 1.into();
        special["content"] = "!".into();
        json["added_tokens"].as_array_mut().unwrap().push(special);
        let token = |name: &str| serde_json::json!({"SpecialToken": {"id": name, "type_id": 0}});
        let text = serde_json::json!({"Sequence": {"id": "A", "type_id": 0}});
        let ids = |name: &str, id: u32| serde_json::json!({"id": name, "ids": [id], "tokens": [name]});
        let plain = read(&json).unwrap().encode("a b", true).unwrap();
        let mut around = |single: Vec<serde_json::Value>| {
            json["post_processor"] = serde_json::json!({
                "type": "TemplateProcessing",
                "single": single,
                "pair": [text.clone()],
                "special_tokens": {"!": ids("!", 1), "<|endoftext|>": ids("<|endoftext|>", 0)},
            });
            read(&json).unwrap()
        };
        let both = around(vec![token("!"), text.clone(), token("<|endoftext|>")]);
        assert_eq!((both.beginning(), both.end()), (Some(1), Some(0)));
        assert_eq!(both.encode("a b", true).unwrap(), [&[1][..], &plain].concat());
        assert_eq!(both.encode("a b", false).unwrap(), plain);
        assert_eq!(both.encode("", true).unwrap(), [1]);
        assert_eq!(both.decode(&[&[1][..], &plain, &[0]].concat()), "a b");
        let after = around(vec![text.clone(), token("!")]);
        assert_eq!((after.beginning(), after.end()), (None, Some(1)));
        assert_eq!(after.encode("a b", true).unwrap(), plain);
    }

    #[test]
    fn truncation_and_padding_of_the_file_are_ignored() {
        let mut json = golden().tokenizer;
        let whole = read(&json).unwrap().encode("the quick brown fox", true).unwrap();
        assert!(whole.len() > 2);
        json["truncation"] = serde_json::json!(
            {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
        );
        json["padding"] = serde_json::json!({
            "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>",
        });
        let tokenizer = read(&json).unwrap();
        assert_eq!(tokenizer.encode("the quick brown fox", true).unwrap(), whole);
    }

    #[test]
    fn the_vocabulary_size_is_one_more_than_the_highest_id() {
        let mut json = golden().tokenizer;
        let vocabulary = read(&json).unwrap().vocabulary();
        assert_eq!(
            vocabulary as usize,
            json["model"]["vocab"].as_object().unwrap().len()
        );
        json["model"]["vocab"]["far"] = 70_000.into();
        assert_eq!(read(&json).unwrap().vocabulary(), 70_001);
        json["model"]["vocab"] = serde_json::json!({});
        assert!(read(&json).is_err());
    }

    #[test]
    fn long_tokens_of_a_unigram_model_are_rejected() {
        let read_with_token_of = |length: usize| {
            let json = serde_json::json!({
                "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": null, "post_processor": null, "decoder": null,
                "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["a".repeat(length), -1.0]]},
            });
            let bytes = serde_json::to_vec(&json).unwrap();
            // Loading a token of 50,000 bytes without the check would overflow a stack of 2 MiB.
            let read = move || (HuggingFace::read(&bytes).map(drop), normal_form(&bytes).is_some());
            std::thread::Builder::new()
                .stack_size(2 << 20)
                .spawn(read)
                .unwrap()
                .join()
                .unwrap()
        };
        assert_eq!(read_with_token_of(MAX_TOKEN_BYTES), (Ok(()), true));
        let error = "token 1 of the vocabulary has 50000 bytes, the maximum is 4096";
        assert_eq!(read_with_token_of(50_000), (Err(error.to_owned()), false));
    }
}
