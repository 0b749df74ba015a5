//! Tensors in files: where each begins and ends, from a header that is mapped into memory, and its values, which are read.

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use half::slice::HalfFloatSliceExt;
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

/// A file that is mapped into memory.
pub(crate) struct Mapped {
    path: PathBuf,
    file: File,
    map: Mmap,
}

/// A tensor's place in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub shape: Vec<usize>,
    pub dtype: Dtype,
    pub bytes: Range<usize>,
}

/// The places of tensors by name, in the order of the file.
pub(super) type Places = Vec<(String, Place)>;

impl Mapped {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: as everywhere, somebody else may change the file while it is read. Numbers are all that can come of
        // that: offsets are checked against the length of the map, and a file that is cut off ends the process by a signal.
        #[expect(unsafe_code, reason = "a map is no slice like others")]
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self {
            path: path.to_owned(),
            file,
            map,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The tensors of a safetensors file by name, in the order of the file.
    pub(super) fn safetensors(&self) -> Result<Places, String> {
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
                let place = Place {
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

    /// The values of a tensor as f32.
    ///
    /// # Errors
    /// They are no floats, or cannot be read.
    pub(super) fn values(&self, place: &Place) -> Result<Vec<f32>, String> {
        let bytes = &place.bytes;
        let values = match place.dtype {
            Dtype::F32 => self.read(bytes),
            Dtype::F16 => self.read::<half::f16>(bytes).map(|halves| widened(&halves)),
            Dtype::BF16 => self.read::<half::bf16>(bytes).map(|halves| widened(&halves)),
            Dtype::F64 => self.read(bytes).map(narrowed),
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

/// Little-endian floats of 16, 32 or 64 bits as f32.
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    match dtype {
        Dtype::F32 => Some(aligned(bytes)),
        Dtype::F16 => Some(widened::<half::f16>(&aligned(bytes))),
        Dtype::BF16 => Some(widened::<half::bf16>(&aligned(bytes))),
        Dtype::F64 => Some(narrowed(aligned(bytes))),
        _ => None,
    }
}

/// A copy of values that may lie anywhere. (Bytes are little-endian, as is every machine that burn runs on.)
fn aligned<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn narrowed(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|x| x as f32).collect()
}

fn widened<T>(halves: &[T]) -> Vec<f32>
where
    [T]: HalfFloatSliceExt,
{
    let mut values = vec![0.0; halves.len()];
    halves.convert_to_f32_slice(&mut values);
    values
}
