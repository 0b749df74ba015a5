//! Tensors in files: where each begins and ends, from a header that is mapped into memory, and its values, which are read.

use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path};

use half::slice::HalfFloatSliceExt;
use mantissa_core::Values;
use mantissa_core::open_regular;
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

/// A file that is mapped into memory.
pub(crate) struct Mapped {
    file: File,
    map: Mmap,
}

/// A tensor's place in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub shape: Vec<usize>,
    pub dtype: Dtype,
    pub bytes: Range<usize>,
}

/// The places of tensors by name, in the order of the file.
pub(super) type Spans = Vec<(String, Span)>;

impl Mapped {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = open_regular(path)?;
        // SAFETY: as everywhere, somebody else may change the file while it is read. Numbers are all that can come of
        // that: offsets are checked against the length of the map, and a file that is cut off ends the process by a signal.
        #[expect(unsafe_code, reason = "a map is no slice like others")]
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self { file, map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The tensors of a safetensors file by name, in the order of the file.
    pub(super) fn safetensors(&self) -> Result<Spans, String> {
        // It checks that the header is within the file, and that tensors fill the rest without a gap or an overlap.
        SafeTensors::deserialize(&self.map).map_err(|error| error.to_string())?;
        let (header, metadata) = SafeTensors::read_metadata(&self.map).map_err(|error| error.to_string())?;
        /// Bytes of the header's length, before it.
        const LENGTH: usize = 8;
        let begin = header + LENGTH;
        let mut tensors: Vec<_> = metadata
            .tensors()
            .into_iter()
            .map(|(name, info)| {
                let (from, to) = info.data_offsets;
                let place = Span {
                    shape: info.shape.clone(),
                    dtype: info.dtype,
                    bytes: begin + from..begin + to,
                };
                (name, place)
            })
            .collect();
        tensors.sort_by_key(|(_, place)| place.bytes.start);
        Ok(tensors)
    }

    /// The values of a tensor: those that are stored in f64 in f64 if they are wanted `wide`, all others as f32.
    ///
    /// # Errors
    /// They are no floats, or cannot be read.
    pub(super) fn values(&self, place: &Span, wide: bool) -> Result<Values, String> {
        let bytes = &place.bytes;
        let values = match place.dtype {
            Dtype::F32 => self.read(bytes).map(Values::F32),
            Dtype::F16 => self.read(bytes).map(|halves| widened::<half::f16>(&halves)),
            Dtype::BF16 => self.read(bytes).map(|halves| widened::<half::bf16>(&halves)),
            Dtype::F64 => self.read(bytes).map(|values| narrowed(values, wide)),
            _ => return Err("no floats".to_owned()),
        };
        values.map_err(|error| error.to_string())
    }

    /// What lies at these bytes, read to where it stays, and not by way of the map: no page is resident twice.
    fn read<T: bytemuck::Pod>(&self, bytes: &Range<usize>) -> std::io::Result<Vec<T>> {
        /// Bytes at a time, on every core.
        const PIECE: usize = 8 << 20;
        let mut values: Vec<T> = bytemuck::zeroed_vec(bytes.len() / size_of::<T>());
        let pieces = bytemuck::cast_slice_mut(&mut values).par_chunks_mut(PIECE);
        pieces.enumerate().try_for_each(|(number, piece)| {
            let begin = bytes.start + number * PIECE;
            self.file.read_exact_at(piece, begin as u64)
        })?;
        Ok(values)
    }
}

/// Little-endian floats of 16, 32 or 64 bits; see [`Mapped::values`].
pub(super) fn floats(dtype: Dtype, bytes: &[u8], wide: bool) -> Option<Values> {
    match dtype {
        Dtype::F32 => Some(Values::F32(aligned(bytes))),
        Dtype::F16 => Some(widened::<half::f16>(&aligned(bytes))),
        Dtype::BF16 => Some(widened::<half::bf16>(&aligned(bytes))),
        Dtype::F64 => Some(narrowed(aligned(bytes), wide)),
        _ => None,
    }
}

/// A copy of values that may lie anywhere. (Bytes are little-endian, as is every machine that burn runs on.)
fn aligned<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn narrowed(values: Vec<f64>, wide: bool) -> Values {
    match wide {
        true => Values::F64(values),
        false => Values::F32(values.into_iter().map(|x| x as f32).collect()),
    }
}

fn widened<T>(halves: &[T]) -> Values
where
    [T]: HalfFloatSliceExt,
{
    let mut values = vec![0.0; halves.len()];
    halves.convert_to_f32_slice(&mut values);
    Values::F32(values)
}
