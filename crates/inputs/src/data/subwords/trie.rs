//! Prefix tree of pieces.

use std::collections::HashMap;

/// Byte-wise prefix tree.
#[derive(Default)]
pub(super) struct Trie {
    /// Child of a node, by the node and the next byte. The root is node 0.
    next: HashMap<(u32, u8), u32>,
    /// Id of the piece that ends in each node.
    ids: Vec<Option<u32>>,
}

impl Trie {
    /// Creates a trie from pieces and their ids.
    pub fn new<'a>(pieces: impl Iterator<Item = (&'a str, u32)>) -> Self {
        let mut trie = Self {
            next: HashMap::new(),
            ids: vec![None],
        };
        for (piece, id) in pieces {
            let mut node = 0;
            for byte in piece.bytes() {
                let fresh = trie.ids.len() as u32;
                node = *trie.next.entry((node, byte)).or_insert(fresh);
                if node == fresh {
                    trie.ids.push(None);
                }
            }
            trie.ids[node as usize] = Some(id);
        }
        trie
    }

    /// Returns the length in bytes and the id of every piece that is a prefix of a text, the shortest first.
    pub fn prefixes(&self, text: &str) -> impl Iterator<Item = (usize, u32)> {
        let mut node = 0;
        let nodes = text.bytes().map_while(move |byte| {
            node = *self.next.get(&(node, byte))?;
            Some(node)
        });
        let ids = nodes.map(move |node| self.ids[node as usize]);
        ids.enumerate().filter_map(|(index, id)| Some((index + 1, id?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces_that_are_prefixes_of_a_text_are_found() {
        let trie = Trie::new([("a", 0), ("abc", 1), ("b", 2), ("é", 3)].into_iter());
        let found = |text| trie.prefixes(text).collect::<Vec<_>>();
        assert_eq!(found("abcd"), [(1, 0), (3, 1)]);
        assert_eq!(found("ab"), [(1, 0)]);
        assert_eq!(found("éa"), [(2, 3)]);
        assert!(found("x").is_empty());
        assert!(found("").is_empty());
        assert_eq!(Trie::default().prefixes("a").count(), 0);
    }
}
