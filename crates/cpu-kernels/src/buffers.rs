//! Reusable buffers for the converted operands of matmuls. Page faults in a new buffer would cost as much as the
//! conversion.

use std::{cell::RefCell, sync::Arc};

use burn::tensor::Bytes;

/// Maximum number of buffers per thread: one for each operand of a matmul.
const MAX_BUFFERS: usize = 2;

thread_local! {
    static BUFFERS: RefCell<Vec<Arc<Bytes>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer of at least `values` f32 values. `fill` writes the first `values` of them.
pub(crate) fn fill_buffer(values: usize, fill: impl FnOnce(&mut [f32])) -> Arc<Bytes> {
    let mut buffer = take_unshared(values).unwrap_or_else(|| Bytes::from_elems(vec![0f32; values]).into());
    let bytes = Arc::get_mut(&mut buffer).expect("the buffer is not shared");
    fill(&mut bytemuck::cast_slice_mut(bytes)[..values]);
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() == MAX_BUFFERS {
            buffers.remove(0);
        }
        buffers.push(buffer.clone());
    });
    buffer
}

/// Removes and returns a buffer of this thread that is large enough and that no tensor uses.
fn take_unshared(values: usize) -> Option<Arc<Bytes>> {
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

    fn address(buffer: &Arc<Bytes>) -> *const Bytes {
        Arc::as_ptr(buffer)
    }

    #[test]
    fn a_buffer_is_reused_once_it_is_not_shared() {
        let first = fill_buffer(8, |values| values.fill(1.0));
        let second = fill_buffer(8, |values| values.fill(2.0));
        assert_ne!(address(&first), address(&second));
        let before = address(&first);
        drop(first);
        let third = fill_buffer(4, |values| values.fill(3.0));
        assert_eq!(address(&third), before);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&second), [2.0; 8]);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&third)[..4], [3.0; 4]);
        let larger = fill_buffer(9, |values| assert_eq!(values.len(), 9));
        assert_eq!(larger.len(), 36);
    }

    #[test]
    fn at_most_two_buffers_are_kept() {
        let buffers: Vec<_> = (0..5).map(|_| fill_buffer(3, |_| {})).collect();
        assert_eq!(BUFFERS.with_borrow(Vec::len), MAX_BUFFERS);
        drop(buffers);
        fill_buffer(0, |values| assert!(values.is_empty()));
    }
}
