//! Counter of the messages that this process sends, through performance variables of Open MPI's monitoring layer.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
};

use mpi::ffi;

use super::check;
use crate::{CollectiveError, Traffic};

/// Counter of the messages that this process sends.
///
/// The layer is enabled by [`crate::environment`]. It counts the messages of all operations, including those of which
/// collective operations consist.
pub(super) struct Counter {
    session: ffi::MPI_T_pvar_session,
    messages: ffi::MPI_T_pvar_handle,
    bytes: ffi::MPI_T_pvar_handle,
    ranks: usize,
}

impl Counter {
    /// Starts to count. Returns `None` if the library cannot count.
    pub(super) fn start(world: ffi::MPI_Comm, ranks: usize) -> Option<Self> {
        let mut session = ptr::null_mut();
        let mut threading = 0;
        // SAFETY: the pointers are valid for the calls.
        unsafe {
            succeeded(ffi::MPI_T_init_thread(ffi::RSMPI_THREAD_SINGLE, &mut threading))?;
            succeeded(ffi::MPI_T_pvar_session_create(&mut session))?;
        }
        let mut counter = Self {
            session,
            messages: ptr::null_mut(),
            bytes: ptr::null_mut(),
            ranks,
        };
        counter.messages = counter.variable(c"pml_monitoring_messages_count", world)?;
        counter.bytes = counter.variable(c"pml_monitoring_messages_size", world)?;
        // Reading fails if the layer's library is loaded, but the layer is off.
        counter.sent().ok()?;
        Some(counter)
    }

    /// Returns the messages that this process has sent since it started to count.
    pub(super) fn sent(&self) -> Result<Traffic, CollectiveError> {
        Ok(Traffic {
            messages: self.read(self.messages)?,
            bytes: self.read(self.bytes)?,
        })
    }

    /// Starts a variable that has one value per receiving rank.
    fn variable(&self, name: &CStr, mut world: ffi::MPI_Comm) -> Option<ffi::MPI_T_pvar_handle> {
        let index = index(name).or_else(|| {
            register_variables()?;
            index(name)
        })?;
        let (mut handle, mut values) = (ptr::null_mut(), 0);
        // SAFETY: the variable belongs to a communicator, and the pointers are valid for the calls.
        unsafe {
            let object = (&raw mut world).cast();
            succeeded(ffi::MPI_T_pvar_handle_alloc(
                self.session,
                index,
                object,
                &mut handle,
                &mut values,
            ))?;
            succeeded(ffi::MPI_T_pvar_start(self.session, handle))?;
        }
        (values as usize == self.ranks).then_some(handle)
    }

    /// Returns the sum of a variable over the receiving ranks.
    fn read(&self, handle: ffi::MPI_T_pvar_handle) -> Result<u64, CollectiveError> {
        let mut values = vec![0_u64; self.ranks];
        // SAFETY: the variable has one 64-bit value per rank.
        let code = unsafe { ffi::MPI_T_pvar_read(self.session, handle, values.as_mut_ptr().cast()) };
        check("MPI_T_pvar_read", code)?;
        Ok(values.iter().sum())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: the session is valid. Freeing it frees the handles.
        unsafe {
            ffi::MPI_T_pvar_session_free(&mut self.session);
            ffi::MPI_T_finalize();
        }
    }
}

/// Returns the number of a performance variable.
fn index(name: &CStr) -> Option<c_int> {
    let mut index = 0;
    // SAFETY: the name ends with a NUL, and the pointer is valid for the call.
    succeeded(unsafe {
        ffi::MPI_T_pvar_get_index(name.as_ptr(), ffi::MPI_T_PVAR_CLASS_SIZE as c_int, &mut index)
    })?;
    Some(index)
}

/// Registers the variables of the monitoring layer again.
///
/// `MPI_Init` of Open MPI 4 closes the components that it did not select. It removes the variables of the monitoring layer
/// with them, although the layer stays active (issue 9260 of Open MPI). The function that registers variables is part of
/// the layer's library. Returns `None` if the library is not loaded, because monitoring is off.
fn register_variables() -> Option<()> {
    // SAFETY: the names end with a NUL. `RTLD_NOLOAD` does not run code of the library. The function has this signature in
    // all versions of Open MPI 4; its argument is only stored.
    unsafe {
        let library = libc::dlopen(
            c"libmca_common_monitoring.so.50".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_NOLOAD,
        );
        if library.is_null() {
            return None;
        }
        let function = libc::dlsym(library, c"mca_common_monitoring_register".as_ptr());
        if function.is_null() {
            return None;
        }
        let register: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(function);
        register(ptr::null_mut());
    }
    Some(())
}

fn succeeded(code: c_int) -> Option<()> {
    (code == ffi::MPI_SUCCESS as c_int).then_some(())
}
