//! Checkpoints of llama2.c (`export.py --version 0`): a header of seven numbers, then every tensor of f32 in a fixed order. Names are
//! those of Hugging Face; the rows of queries and keys are in llama2.c's order, that of neighbouring pairs.

use safetensors::Dtype;

use super::tensors::{Mapped, Place, Places};

/// More blocks than any model has.
const MOST_LAYERS: usize = 10_000;

/// The header's numbers, all `i32`, and their bytes.
const HEADER: usize = 7 * 4;

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub dim: usize,
    pub hidden_dim: usize,
    pub n_layers: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub vocab_size: usize,
    pub seq_len: usize,
    /// Whether the embedding is the head too.
    pub tied: bool,
}

impl Header {
    /// Reads the first bytes of a file.
    ///
    /// # Errors
    /// Numbers that no model has.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let Some(head) = bytes.get(..HEADER) else {
            return Err("it is shorter than the header of a llama2.c checkpoint".to_owned());
        };
        let numbers: Vec<i32> = bytemuck::pod_collect_to_vec(head);
        let number = |index: usize| {
            let number = usize::try_from(numbers[index].unsigned_abs()).unwrap_or(0);
            let sane = (1..1 << 24).contains(&number) && (index == 5 || numbers[index] > 0);
            sane.then_some(number)
                .ok_or_else(|| format!("{} is no size of a llama2.c checkpoint", numbers[index]))
        };
        let header = Self {
            dim: number(0)?,
            hidden_dim: number(1)?,
            n_layers: number(2)?,
            n_heads: number(3)?,
            n_kv_heads: number(4)?,
            vocab_size: number(5)?,
            seq_len: number(6)?,
            // Where the head is another matrix, the number is negative.
            tied: numbers[5] > 0,
        };
        if header.n_layers > MOST_LAYERS {
            return Err(format!("{} layers are no llama2.c checkpoint", header.n_layers));
        }
        if !(header.dim.is_multiple_of(header.n_heads) && header.n_heads.is_multiple_of(header.n_kv_heads)) {
            return Err(format!(
                "a width of {} with {} heads over {} is no llama2.c checkpoint",
                header.dim, header.n_heads, header.n_kv_heads
            ));
        }
        Ok(header)
    }

    /// Bytes of a file that begins with it.
    fn bytes(&self) -> u128 {
        let [dim, hidden, layers, vocabulary, positions] = [
            self.dim,
            self.hidden_dim,
            self.n_layers,
            self.vocab_size,
            self.seq_len,
        ]
        .map(|n| n as u128);
        let head = dim / self.n_heads as u128;
        let shared = head * self.n_kv_heads as u128;
        let tables = if self.tied { 1 } else { 2 };
        let of_layer = 2 * dim + 2 * dim * dim + 2 * shared * dim + 3 * hidden * dim;
        let values = tables * vocabulary * dim + layers * of_layer + dim + 2 * positions * (head / 2);
        HEADER as u128 + 4 * values
    }

    /// Every tensor in the order of the file; those without a name are not read.
    fn tensors(&self) -> Vec<(Option<String>, Vec<usize>)> {
        let (dim, hidden, kv) = (
            self.dim,
            self.hidden_dim,
            self.dim / self.n_heads * self.n_kv_heads,
        );
        let mut tensors = vec![(
            Some("model.embed_tokens.weight".to_owned()),
            vec![self.vocab_size, dim],
        )];
        let mut of_layers = |part: &str, shape: &[usize]| {
            for layer in 0..self.n_layers {
                let name = format!("model.layers.{layer}.{part}.weight");
                tensors.push((Some(name), shape.to_vec()));
            }
        };
        of_layers("input_layernorm", &[dim]);
        of_layers("self_attn.q_proj", &[dim, dim]);
        of_layers("self_attn.k_proj", &[kv, dim]);
        of_layers("self_attn.v_proj", &[kv, dim]);
        of_layers("self_attn.o_proj", &[dim, dim]);
        of_layers("post_attention_layernorm", &[dim]);
        of_layers("mlp.gate_proj", &[hidden, dim]);
        of_layers("mlp.down_proj", &[dim, hidden]);
        of_layers("mlp.up_proj", &[hidden, dim]);
        tensors.push((Some("model.norm.weight".to_owned()), vec![dim]));
        // Cosines and sines that are computed anew.
        let angles = vec![self.seq_len, dim / self.n_heads / 2];
        tensors.extend([(None, angles.clone()), (None, angles)]);
        if !self.tied {
            tensors.push((Some("lm_head.weight".to_owned()), vec![self.vocab_size, dim]));
        }
        tensors
    }
}

/// Where each tensor of a file is.
pub(super) fn tensors(file: &Mapped) -> Result<Places, String> {
    let header = Header::read(file.bytes())?;
    if header.bytes() != file.bytes().len() as u128 {
        return Err(format!(
            "a llama2.c checkpoint with this header has {} bytes, and it has {}",
            header.bytes(),
            file.bytes().len()
        ));
    }
    let mut at = HEADER;
    let mut found = vec![];
    for (name, shape) in header.tensors() {
        let bytes = shape.iter().product::<usize>() * 4;
        let end = at + bytes;
        if let Some(name) = name {
            let place = Place {
                shape,
                dtype: Dtype::F32,
                bytes: at..end,
            };
            found.push((name, place));
        }
        at = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(numbers: [i32; 7]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn a_file_has_the_tensors_that_its_header_says_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.bin");
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            tensors(&Mapped::open(&path).unwrap())
        };
        // Width 4, inner 3, one layer, two heads over one, five words, two positions; tied, and not.
        let count = 5 * 4 + (4 + 16 + 8 + 8 + 16) + (4 + 12 + 12 + 12) + 4 + 2 * 2;
        let file = |words: i32, values: usize| {
            let mut bytes = header([4, 3, 1, 2, 1, words, 2]);
            bytes.extend((0..values).flat_map(|value| (value as f32).to_le_bytes()));
            bytes
        };
        let tied = found(&file(5, count)).unwrap();
        assert_eq!(tied.len(), 11);
        let (name, place) = &tied[2];
        assert_eq!(
            (name.as_str(), &place.shape[..]),
            ("model.layers.0.self_attn.q_proj.weight", &[4, 4][..])
        );
        assert_eq!(place.bytes.start, HEADER + 4 * (20 + 4));
        let own_head = found(&file(-5, count + 20)).unwrap();
        assert_eq!(own_head.last().unwrap().0, "lm_head.weight");
        let error = found(&file(5, count - 1)).unwrap_err();
        assert!(
            error.contains("a llama2.c checkpoint with this header has"),
            "{error}"
        );
        assert!(found(&[0; 20]).unwrap_err().contains("shorter than the header"));
        for numbers in [
            [0, 3, 1, 2, 1, 5, 2],
            [4, -3, 1, 2, 1, 5, 2],
            [4, 3, 1, 3, 1, 5, 2],
            [4, 3, i32::MAX, 2, 1, 5, 2],
            [4, 3, 1, 2, 1, i32::MIN, 2],
        ] {
            assert!(found(&header(numbers)).is_err(), "{numbers:?}");
        }
    }
}
