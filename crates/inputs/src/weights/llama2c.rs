//! Checkpoints of llama2.c, as written by its `export.py` with `--version 0` and `--version 1`: a header, then every f32 tensor in a fixed
//! order. Tensors get the names that transformers uses. The rows of queries and keys stay in the order of llama2.c, whose rotary embedding
//! rotates adjacent pairs.

use safetensors::Dtype;

use super::tensors::{Mapped, Span, Spans};

/// Maximum number of blocks in a valid header.
const MAX_LAYERS: usize = 10_000;

/// Size of the seven `i32` numbers in a header, in bytes.
const NUMBERS_BYTES: usize = 7 * 4;

/// First bytes of every version except 0: "ak42" as a little-endian `u32`.
const MAGIC: [u8; 4] = 0x616b_3432_u32.to_le_bytes();

/// Supported versions of `export.py`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// The numbers, then tensors that include tables of cosines and sines.
    Zero,
    /// The magic, the version, the numbers, a flag for tied embeddings, zeros up to 256 bytes, then vectors before matrices.
    One,
}

impl Version {
    /// Returns the number of bytes before the first tensor.
    fn header_size(self) -> usize {
        match self {
            Self::Zero => NUMBERS_BYTES,
            Self::One => 256,
        }
    }
}

/// Contents of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    version: Version,
    pub dim: usize,
    pub hidden_dim: usize,
    pub n_layers: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub vocab_size: usize,
    pub seq_len: usize,
    /// True if the output head is the embedding table.
    pub tied: bool,
}

/// Returns true for the first bytes of a llama2.c checkpoint of any version.
pub(super) fn is_llama2c(head: &[u8]) -> bool {
    head.starts_with(&MAGIC) || Header::read(head).is_ok()
}

impl Header {
    /// Reads the header from the first bytes of a file.
    ///
    /// # Errors
    /// Implausible numbers, or an unsupported version.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let short = || "it is shorter than the header of a llama2.c checkpoint".to_owned();
        let (version, numbers, tied) = match bytes.strip_prefix(&MAGIC) {
            None => (Version::Zero, bytes.get(..NUMBERS_BYTES).ok_or_else(short)?, None),
            Some(rest) => {
                let (version, rest) = rest.split_first_chunk().ok_or_else(short)?;
                match i32::from_le_bytes(*version) {
                    1 => {}
                    2 => {
                        return Err("llama2.c checkpoints of version 2 (8-bit integer weights) are not supported\n  hint: export \
                                    f32 weights with `export.py --version 1`"
                            .to_owned());
                    }
                    other => {
                        return Err(format!(
                            "llama2.c checkpoints of version {other} are not supported"
                        ));
                    }
                }
                let numbers = rest.get(..NUMBERS_BYTES).ok_or_else(short)?;
                (
                    Version::One,
                    numbers,
                    Some(*rest.get(NUMBERS_BYTES).ok_or_else(short)?),
                )
            }
        };
        let numbers: Vec<i32> = bytemuck::pod_collect_to_vec(numbers);
        let number = |index: usize| {
            let number = usize::try_from(numbers[index].unsigned_abs()).unwrap_or(0);
            // In version 0, a negative vocabulary size means that the head is a separate matrix.
            let signed = index == 5 && version == Version::Zero;
            let is_valid = (1..1 << 24).contains(&number) && (signed || numbers[index] > 0);
            is_valid
                .then_some(number)
                .ok_or_else(|| format!("the llama2.c header contains the invalid size {}", numbers[index]))
        };
        let header = Self {
            version,
            dim: number(0)?,
            hidden_dim: number(1)?,
            n_layers: number(2)?,
            n_heads: number(3)?,
            n_kv_heads: number(4)?,
            vocab_size: number(5)?,
            seq_len: number(6)?,
            tied: tied.map_or(numbers[5] > 0, |flag| flag != 0),
        };
        if header.n_layers > MAX_LAYERS {
            return Err(format!(
                "the llama2.c header has {} layers; the maximum is {MAX_LAYERS}",
                header.n_layers
            ));
        }
        if !(header.dim.is_multiple_of(header.n_heads) && header.n_heads.is_multiple_of(header.n_kv_heads)) {
            return Err(format!(
                "invalid llama2.c header: width {} with {} heads and {} key-value heads, which do not divide evenly",
                header.dim, header.n_heads, header.n_kv_heads
            ));
        }
        Ok(header)
    }

    /// Returns the size of a file with this header, in bytes.
    fn file_size(&self) -> u128 {
        let [dim, hidden, layers, vocabulary, positions] = [
            self.dim,
            self.hidden_dim,
            self.n_layers,
            self.vocab_size,
            self.seq_len,
        ]
        .map(|n| n as u128);
        let head = dim / self.n_heads as u128;
        let kv = head * self.n_kv_heads as u128;
        let tables = if self.tied { 1 } else { 2 };
        let layer_values = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * hidden * dim;
        let angles = match self.version {
            Version::Zero => 2 * positions * (head / 2),
            Version::One => 0,
        };
        let values = tables * vocabulary * dim + layers * layer_values + dim + angles;
        self.version.header_size() as u128 + 4 * values
    }

    /// Returns every tensor in the order of the file. Tensors without a name are not read.
    fn tensors(&self) -> Vec<(Option<String>, Vec<usize>)> {
        let (dim, hidden, kv) = (
            self.dim,
            self.hidden_dim,
            self.dim / self.n_heads * self.n_kv_heads,
        );
        let single = |name: &str, shape: &[usize]| vec![(Some(format!("{name}.weight")), shape.to_vec())];
        let per_layer = |part: &str, shape: &[usize]| {
            let layer = |layer| {
                let name = format!("model.layers.{layer}.{part}.weight");
                (Some(name), shape.to_vec())
            };
            (0..self.n_layers).map(layer).collect::<Vec<_>>()
        };
        let table = single("model.embed_tokens", &[self.vocab_size, dim]);
        let head = match self.tied {
            true => vec![],
            false => single("lm_head", &[self.vocab_size, dim]),
        };
        let last_norm = single("model.norm", &[dim]);
        let norms = ["input_layernorm", "post_attention_layernorm"].map(|part| per_layer(part, &[dim]));
        let attention = [("q", dim, dim), ("k", kv, dim), ("v", kv, dim), ("o", dim, dim)]
            .map(|(part, rows, columns)| per_layer(&format!("self_attn.{part}_proj"), &[rows, columns]))
            .concat();
        let feed_forward = [("gate", hidden, dim), ("down", dim, hidden), ("up", hidden, dim)]
            .map(|(part, rows, columns)| per_layer(&format!("mlp.{part}_proj"), &[rows, columns]))
            .concat();
        let [before_attention, before_feed_forward] = norms;
        match self.version {
            Version::Zero => {
                // Not read: cosines and sines are recomputed.
                let angles = vec![(None, vec![self.seq_len, dim / self.n_heads / 2]); 2];
                [
                    table,
                    before_attention,
                    attention,
                    before_feed_forward,
                    feed_forward,
                    last_norm,
                    angles,
                    head,
                ]
                .concat()
            }
            Version::One => [
                before_attention,
                before_feed_forward,
                last_norm,
                table,
                attention,
                feed_forward,
                head,
            ]
            .concat(),
        }
    }
}

/// Returns the positions of the named tensors in a file.
pub(super) fn tensors(file: &Mapped) -> Result<Spans, String> {
    let header = Header::read(file.bytes())?;
    if header.file_size() != file.bytes().len() as u128 {
        return Err(format!(
            "a llama2.c checkpoint with this header has {} bytes, but the file has {}",
            header.file_size(),
            file.bytes().len()
        ));
    }
    let mut start = header.version.header_size();
    let mut spans = vec![];
    for (name, shape) in header.tensors() {
        let bytes = shape.iter().product::<usize>() * 4;
        let end = start + bytes;
        if let Some(name) = name {
            let span = Span {
                shape,
                dtype: Dtype::F32,
                bytes: start..end,
            };
            spans.push((name, span));
        }
        start = end;
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(numbers: [i32; 7]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn version_0_tensors_follow_from_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.bin");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            tensors(&Mapped::open(&path).unwrap())
        };
        // Width 4, feed-forward width 3, one layer, two heads with one key-value head, five tokens, two positions; tied and untied.
        let count = 5 * 4 + (4 + 16 + 8 + 8 + 16) + (4 + 12 + 12 + 12) + 4 + 2 * 2;
        let file = |vocabulary: i32, values: usize| {
            let mut bytes = header([4, 3, 1, 2, 1, vocabulary, 2]);
            bytes.extend((0..values).flat_map(|value| (value as f32).to_le_bytes()));
            bytes
        };
        let tied = read(&file(5, count)).unwrap();
        assert_eq!(tied.len(), 11);
        let (name, span) = &tied[2];
        assert_eq!(
            (name.as_str(), &span.shape[..]),
            ("model.layers.0.self_attn.q_proj.weight", &[4, 4][..])
        );
        assert_eq!(span.bytes.start, NUMBERS_BYTES + 4 * (20 + 4));
        let untied = read(&file(-5, count + 20)).unwrap();
        assert_eq!(untied.last().unwrap().0, "lm_head.weight");
        let error = read(&file(5, count - 1)).unwrap_err();
        assert!(
            error.contains("a llama2.c checkpoint with this header has"),
            "{error}"
        );
        assert!(read(&[0; 20]).unwrap_err().contains("shorter than the header"));
        for numbers in [
            [0, 3, 1, 2, 1, 5, 2],
            [4, -3, 1, 2, 1, 5, 2],
            [4, 3, 1, 3, 1, 5, 2],
            [4, 3, i32::MAX, 2, 1, 5, 2],
            [4, 3, 1, 2, 1, i32::MIN, 2],
        ] {
            assert!(read(&header(numbers)).is_err(), "{numbers:?}");
        }
    }

    #[test]
    fn version_1_stores_vectors_first_without_rope_tables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.bin");
        let file = |version: i32, tied_flag: u8, values: usize| {
            let mut bytes = [
                &MAGIC[..],
                &version.to_le_bytes(),
                &header([4, 3, 1, 2, 1, 5, 2]),
                &[tied_flag],
            ]
            .concat();
            bytes.resize(256, 0);
            bytes.extend((0..values).flat_map(|value| (value as f32).to_le_bytes()));
            std::fs::write(&path, bytes).unwrap();
            tensors(&Mapped::open(&path).unwrap())
        };
        let count = 5 * 4 + (4 + 16 + 8 + 8 + 16) + (4 + 12 + 12 + 12) + 4;
        let tied = file(1, 1, count).unwrap();
        let offset = |name: &str| {
            let (_, span) = tied.iter().find(|(other, _)| other == name).unwrap();
            (span.bytes.start - 256) / 4
        };
        assert_eq!(tied.len(), 11);
        assert_eq!(offset("model.layers.0.input_layernorm.weight"), 0);
        assert_eq!(offset("model.layers.0.post_attention_layernorm.weight"), 4);
        assert_eq!(offset("model.norm.weight"), 8);
        assert_eq!(offset("model.embed_tokens.weight"), 12);
        assert_eq!(offset("model.layers.0.self_attn.q_proj.weight"), 32);
        assert_eq!(
            file(1, 0, count + 20).unwrap().last().unwrap().0,
            "lm_head.weight"
        );
        assert!(file(1, 0, count).unwrap_err().contains("with this header has"));
        assert!(file(2, 1, count).unwrap_err().contains("version 2"));
        assert!(file(7, 1, count).unwrap_err().contains("version 7"));
    }
}
