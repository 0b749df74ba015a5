//! Tensors in files. The file is memory-mapped to find the position of each tensor; values are read with ordinary reads.

use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path};

use half::slice::HalfFloatSliceExt;
use mantissa_core::Values;
use mantissa_core::open_regular;
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

/// Memory-mapped file.
pub(crate) struct Mapped {
    file: File,
    map: Mmap,
}

/// Position of a tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub shape: Vec<usize>,
    pub dtype: Dtype,
    pub bytes: Range<usize>,
}

/// Positions of tensors by name, in the order of the file.
pub(super) type Spans = Vec<(String, Span)>;

impl Mapped {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = open_regular(path)?;
        // SAFETY: another process may modify the file while it is mapped. A modification only changes values, because offsets are checked
        // against the length of the map. Truncation kills the process with a signal.
        #[expect(unsafe_code, reason = "another process may modify a mapped file")]
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self { file, map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns the tensors of a safetensors file by name, in the order of the file.
    pub(super) fn safetensors(&self) -> Result<Spans, String> {
        // `deserialize` checks that the header is within the file, and that the tensors fill the rest without gaps and overlaps.
        SafeTensors::deserialize(&self.map).map_err(|error| error.to_string())?;
        let (header, metadata) = SafeTensors::read_metadata(&self.map).map_err(|error| error.to_string())?;
        /// Size of the header's length field, which precedes the header.
        const LENGTH_BYTES: usize = 8;
        let begin = header + LENGTH_BYTES;
        let mut tensors: Vec<_> = metadata
            .tensors()
            .into_iter()
            .map(|(name, info)| {
                let (from, to) = info.data_offsets;
                let span = Span {
                    shape: info.shape.clone(),
                    dtype: info.dtype,
                    bytes: begin + from..begin + to,
                };
                (name, span)
            })
            .collect();
        tensors.sort_by_key(|(_, span)| span.bytes.start);
        Ok(tensors)
    }

    /// Reads the values of a tensor: in f64 if it is stored in f64 and `wide` is true, otherwise in f32.
    ///
    /// # Errors
    /// The values are not floats, or cannot be read.
    pub(super) fn values(&self, span: &Span, wide: bool) -> Result<Values, String> {
        let bytes = &span.bytes;
        let values = match span.dtype {
            Dtype::F32 => self.read(bytes).map(Values::F32),
            Dtype::F16 => self.read(bytes).map(|values| widen::<half::f16>(&values)),
            Dtype::BF16 => self.read(bytes).map(|values| widen::<half::bf16>(&values)),
            Dtype::F64 => self.read(bytes).map(|values| f64_or_f32(values, wide)),
            _ => return Err("the dtype is not a supported float".to_owned()),
        };
        values.map_err(|error| error.to_string())
    }

    /// Reads bytes directly into the result. A copy from the map would need the memory twice.
    fn read<T: bytemuck::Pod>(&self, bytes: &Range<usize>) -> std::io::Result<Vec<T>> {
        /// Number of bytes in one read. The cores read in parallel.
        const CHUNK_BYTES: usize = 8 << 20;
        let mut values: Vec<T> = bytemuck::zeroed_vec(bytes.len() / size_of::<T>());
        let chunks = bytemuck::cast_slice_mut(&mut values).par_chunks_mut(CHUNK_BYTES);
        chunks.enumerate().try_for_each(|(number, chunk)| {
            let begin = bytes.start + number * CHUNK_BYTES;
            self.file.read_exact_at(chunk, begin as u64)
        })?;
        Ok(values)
    }
}

/// Converts bytes of little-endian floats to f64 or f32, by the rule of [`Mapped::values`]. Returns `None` for other dtypes.
pub(super) fn floats(dtype: Dtype, bytes: &[u8], wide: bool) -> Option<Values> {
    match dtype {
        Dtype::F32 => Some(Values::F32(copy_values(bytes))),
        Dtype::F16 => Some(widen::<half::f16>(&copy_values(bytes))),
        Dtype::BF16 => Some(widen::<half::bf16>(&copy_values(bytes))),
        Dtype::F64 => Some(f64_or_f32(copy_values(bytes), wide)),
        _ => None,
    }
}

/// Copies values from bytes of any alignment. The bytes are little-endian, like every machine that burn supports.
fn copy_values<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

/// Keeps f64 if `wide` is true, otherwise rounds to f32.
fn f64_or_f32(values: Vec<f64>, wide: bool) -> Values {
    match wide {
        true => Values::F64(values),
        false => Values::F32(values.into_iter().map(|x| x as f32).collect()),
    }
}

fn widen<T>(stored: &[T]) -> Values
where
    [T]: HalfFloatSliceExt,
{
    let mut values = vec![0.0; stored.len()];
    stored.convert_to_f32_slice(&mut values);
    Values::F32(values)
}
