//! Tensors in files that are mapped into memory: where each begins and ends, and its values.

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

use half::slice::HalfFloatSliceExt;
use memmap2::{Mmap, UncheckedAdvice};
use safetensors::{Dtype, SafeTensors};

/// A file that is mapped into memory.
pub(crate) struct Mapped {
    path: PathBuf,
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

    /// The values of a tensor as f32; absent if they are no floats. Its pages are given back to the system.
    pub(super) fn values(&self, place: &Place) -> Option<Vec<f32>> {
        let values = floats(place.dtype, &self.map[place.bytes.clone()]);
        self.forget(place.bytes.clone());
        values
    }

    /// Lets go of the pages that lie within a range: a tensor is read once, and a model may be as large as the memory.
    fn forget(&self, bytes: Range<usize>) {
        // SAFETY: the map is of a file and private: a page that is touched again is read again.
        #[expect(unsafe_code, reason = "advice that drops pages")]
        // An error leaves them where they are.
        let _ = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, bytes.len())
        };
    }
}

/// Little-endian floats of 16, 32 or 64 bits as f32.
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    match dtype {
        Dtype::F32 => Some(aligned(bytes)),
        Dtype::F16 => Some(widened::<half::f16>(&aligned(bytes))),
        Dtype::BF16 => Some(widened::<half::bf16>(&aligned(bytes))),
        Dtype::F64 => Some(aligned::<f64>(bytes).into_iter().map(|x| x as f32).collect()),
        _ => None,
    }
}

/// A copy of values that may lie anywhere. (Bytes are little-endian, as is every machine that burn runs on.)
fn aligned<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn widened<T>(halves: &[T]) -> Vec<f32>
where
    [T]: HalfFloatSliceExt,
{
    let mut values = vec![0.0; halves.len()];
    halves.convert_to_f32_slice(&mut values);
    values
}
