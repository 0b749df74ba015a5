//! Interface of the tokenizers.

/// Common interface of the tokenizers.
pub(super) trait Subwords: Send + Sync {
    /// Returns one more than the highest id.
    fn vocabulary(&self) -> u32;

    /// Returns the beginning-of-text token, which precedes every text.
    fn beginning(&self) -> Option<u32>;

    /// Returns the end-of-text token, which follows a complete text.
    fn end(&self) -> Option<u32>;

    /// Returns the mask token.
    fn mask(&self) -> Option<u32> {
        None
    }

    /// Returns the id of a token.
    fn id_of(&self, token: &str) -> Option<u32>;

    /// Encodes a part of a text. `begins` is true for the first part, which gets the beginning token.
    fn encode(&self, part: &str, begins: bool) -> Result<Vec<u32>, String>;

    /// Decodes ids. Bytes that are not UTF-8 become replacement characters, and special tokens are removed.
    fn decode(&self, ids: &[u32]) -> String;
}
