//! Storage of token ids: in memory, or in a file that is mapped into memory.

use std::{
    fmt,
    ops::{Deref, Range},
    sync::Arc,
};

use crate::weights::Mapped;

/// Token ids of consecutive texts.
#[derive(Clone)]
pub(super) enum Ids {
    Owned(Vec<u32>),
    /// Ids in this byte range of a file. Both bounds are multiples of four.
    Mapped(Arc<Mapped>, Range<usize>),
}

impl Ids {
    /// Appends ids. Ids of a file are copied into memory first.
    pub fn extend(&mut self, more: &[u32]) {
        if let Self::Mapped(..) = self {
            *self = Self::Owned(self.to_vec());
        }
        if let Self::Owned(ids) = self {
            ids.extend_from_slice(more);
        }
    }
}

impl Deref for Ids {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::Owned(ids) => ids,
            // The file is little-endian, like every machine that burn supports.
            Self::Mapped(file, bytes) => bytemuck::cast_slice(&file.bytes()[bytes.clone()]),
        }
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::Owned(vec![])
    }
}

impl PartialEq for Ids {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Ids {}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ids", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_file_equal_those_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        let bytes: Vec<u8> = [9_u32, 1, 70_000, 3]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        std::fs::write(&path, bytes).unwrap();
        let mut ids = Ids::Mapped(Arc::new(Mapped::open(&path).unwrap()), 4..16);
        assert_eq!(ids, Ids::Owned(vec![1, 70_000, 3]));
        assert_eq!(ids.clone()[1], 70_000);
        ids.extend(&[4, 5]);
        assert_eq!(*ids, [1, 70_000, 3, 4, 5]);
    }
}
