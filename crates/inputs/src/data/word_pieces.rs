//! WordPiece tokenizer of the `tokenizers` library with a vocabulary.

use tokenizers::{
    AddedToken, TokenizerImpl, decoders::wordpiece::WordPiece as Decoder, models::wordpiece::WordPiece,
    normalizers::BertNormalizer, pre_tokenizers::bert::BertPreTokenizer, processors::bert::BertProcessing,
    tokenizer::Model,
};

use super::{DataError, vocabulary::Vocabulary};

/// Tokenizer type of the `tokenizers` library.
pub(super) type WordPieces =
    TokenizerImpl<WordPiece, BertNormalizer, BertPreTokenizer, BertProcessing, Decoder>;

/// Creates a WordPiece tokenizer with this vocabulary and without truncation.
pub(super) fn word_pieces(vocabulary: &Vocabulary) -> Result<WordPieces, DataError> {
    let ids = WordPiece::read_bytes(vocabulary.text().as_bytes()).map_err(tokenizer_error)?;
    let model = WordPiece::builder().vocab(ids).build().map_err(tokenizer_error)?;
    let special = |token: &str| {
        let id = model.token_to_id(token);
        (
            token.to_owned(),
            id.expect("every vocabulary contains the special tokens"),
        )
    };
    let processing = BertProcessing::new(special("[SEP]"), special("[CLS]"));

    let mut inner = TokenizerImpl::new(model);
    inner.with_normalizer(Some(vocabulary.casing.normalizer()));
    inner.with_pre_tokenizer(Some(BertPreTokenizer));
    inner.with_post_processor(Some(processing));
    inner.with_decoder(Some(Decoder::default()));
    // As in Hugging Face tokenizers, the text of a special token is encoded as the token.
    let special = vocabulary
        .special_tokens()
        .map(|token| AddedToken::from(token, true));
    inner.add_special_tokens(&special.collect::<Vec<_>>());
    Ok(inner)
}

/// Converts an error of the library.
pub(super) fn tokenizer_error(error: tokenizers::Error) -> DataError {
    DataError::Tokenizer(error.to_string())
}
