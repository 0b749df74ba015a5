//! Reusable buffers for the converted operands of matmuls. Page faults in a new buffer would cost as much as the
//! conversion.

use std::{cell::RefCell, sync::Arc};

use burn::tensor::Bytes;

/// Buffers kept per thread: a matmul has two operands.
const KEPT: usize = 2;

thread_local! {
    static BUFFERS: RefCell<Vec<Arc<Bytes>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer of at least `values` values, the first of which are filled by `fill`.
pub(crate) fn filled(values: usize, fill: impl FnOnce(&mut [f32])) -> Arc<Bytes> {
    let mut buffer = free(values).unwrap_or_else(|| Bytes::from_elems(vec![0f32; values]).into());
    let bytes = Arc::get_mut(&mut buffer).expect("the buffer is not shared");
    fill(&mut bytemuck::cast_slice_mut(bytes)[..values]);
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() == KEPT {
            buffers.remove(0);
        }
        buffers.push(buffer.clone());
    });
    buffer
}

/// Returns a kept buffer that is large enough and no longer used by a tensor.
fn free(values: usize) -> Option<Arc<Bytes>> {
    BUFFERS.with_borrow_mut(|buffers| {
        let fits = |bytes: &mut Bytes| bytes.len() >= values * size_of::<f32>();
        let index = buffers
            .iter_mut()
            .position(|buffer| Arc::get_mut(buffer).is_some_and(fits))?;
        Some(buffers.remove(index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(buffer: &Arc<Bytes>) -> *const Bytes {
        Arc::as_ptr(buffer)
    }

    #[test]
    fn a_buffer_is_reused_once_it_is_not_shared() {
        let first = filled(8, |values| values.fill(1.0));
        let second = filled(8, |values| values.fill(2.0));
        assert_ne!(place(&first), place(&second));
        let before = place(&first);
        drop(first);
        let third = filled(4, |values| values.fill(3.0));
        assert_eq!(place(&third), before);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&second), [2.0; 8]);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&third)[..4], [3.0; 4]);
        let larger = filled(9, |values| assert_eq!(values.len(), 9));
        assert_eq!(larger.len(), 36);
    }

    #[test]
    fn at_most_two_buffers_are_kept() {
        let buffers: Vec<_> = (0..5).map(|_| filled(3, |_| {})).collect();
        assert_eq!(BUFFERS.with_borrow(Vec::len), KEPT);
        drop(buffers);
        filled(0, |values| assert!(values.is_empty()));
    }
}
