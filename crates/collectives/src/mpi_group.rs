//! Ranks that are processes, connected by MPI.
#![expect(
    unsafe_code,
    reason = "MPI has a C interface, and the safe functions of the crate `mpi` ignore errors"
)]

mod counter;
mod sum;

use std::{
    ffi::{c_int, c_void},
    mem::{ManuallyDrop, MaybeUninit},
    ops::Range,
};

use mantissa_core::Format;
use mpi::{
    Threading,
    collective::UnsafeUserOperation,
    environment::{Universe, initialize_with_threading},
    ffi,
    raw::AsRaw,
};

use self::counter::Counter;
use crate::{Call, CollectiveError, Gradient, Group, Traffic};

/// Group of the processes that `mpirun` started. Without `mpirun`, the process is the only rank.
///
/// A rank that ends without [`Group::finish`] leaves MPI unfinished. `mpirun` then ends all other ranks, which would
/// otherwise wait for it forever. Only the thread that created the group can use it.
pub struct MpiGroup {
    rank: usize,
    size: usize,
    traffic: Traffic,
    /// Dropped only by [`Group::finish`], because `MPI_Finalize` waits for the other ranks.
    engine: ManuallyDrop<Engine>,
}

/// Resources of MPI in the order in which they are released.
struct Engine {
    bf16_sum: UnsafeUserOperation,
    f16_sum: UnsafeUserOperation,
    counter: Option<Counter>,
    _universe: Universe,
}

impl MpiGroup {
    /// Initializes MPI, which is possible once per process.
    ///
    /// Operations of the group return errors of MPI. During the initialization, MPI ends the process on an error, and waits
    /// forever for a rank that exits with status 0 before its own initialization.
    pub fn initialize() -> Result<Self, CollectiveError> {
        let function = "MPI_Init_thread";
        let failed = |message: &str| CollectiveError::Mpi {
            function,
            message: message.to_owned(),
        };
        let (universe, threading) = initialize_with_threading(Threading::Funneled)
            .ok_or_else(|| failed("MPI was already initialized in this process"))?;
        // After an error, `MPI_Finalize` would wait for the other ranks.
        let universe = ManuallyDrop::new(universe);
        if threading < Threading::Funneled {
            return Err(failed("the library does not support processes with threads"));
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialized, and the pointers are valid for the calls.
        unsafe {
            check(
                "MPI_Comm_set_errhandler",
                ffi::MPI_Comm_set_errhandler(world(), ffi::RSMPI_ERRORS_RETURN),
            )?;
            check("MPI_Comm_rank", ffi::MPI_Comm_rank(world(), &mut rank))?;
            check("MPI_Comm_size", ffi::MPI_Comm_size(world(), &mut size))?;
        }
        let engine = Engine {
            bf16_sum: sum::of_bf16(),
            f16_sum: sum::of_f16(),
            counter: Counter::start(world(), size as usize),
            _universe: ManuallyDrop::into_inner(universe),
        };
        Ok(Self {
            rank: rank as usize,
            size: size as usize,
            traffic: Traffic::default(),
            engine: ManuallyDrop::new(engine),
        })
    }

    /// Returns the calls of all ranks, in the order of the ranks, if they belong to the same operation.
    fn agree(&self, call: Call) -> Result<Vec<Call>, CollectiveError> {
        let own = call.encode();
        let mut all = vec![[0_u64; Call::WORDS]; self.size];
        // SAFETY: `own` has the words of one call, and `all` those of one call per rank.
        let code = unsafe {
            ffi::MPI_Allgather(
                own.as_ptr().cast(),
                Call::WORDS as c_int,
                ffi::RSMPI_UINT64_T,
                all.as_mut_ptr().cast(),
                Call::WORDS as c_int,
                ffi::RSMPI_UINT64_T,
                world(),
            )
        };
        check("MPI_Allgather", code)?;
        let calls: Vec<Call> = all.into_iter().map(Call::decode).collect();
        Call::check(&calls)?;
        Ok(calls)
    }

    /// Runs a function of MPI on gradients with `len` values, and counts its messages. Does nothing without values: MPI
    /// rejects a call whose buffers have the same address, and the buffers of empty vectors do.
    fn counted(
        &mut self,
        function: &'static str,
        len: usize,
        call: impl FnOnce(&Engine, c_int) -> c_int,
    ) -> Result<(), CollectiveError> {
        match len {
            0 => Ok(()),
            len => self.counted_even_if_empty(function, len, call),
        }
    }

    /// Runs a function of MPI on `len` elements, and counts its messages.
    fn counted_even_if_empty(
        &mut self,
        function: &'static str,
        len: usize,
        call: impl FnOnce(&Engine, c_int) -> c_int,
    ) -> Result<(), CollectiveError> {
        let count = count(len)?;
        let Some(counter) = &self.engine.counter else {
            return check(function, call(&self.engine, count));
        };
        let before = counter.sent()?;
        check(function, call(&self.engine, count))?;
        self.traffic += counter.sent()? - before;
        Ok(())
    }
}

impl Group for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        self.agree(Call::AllReduce { format, len })?;
        let own = gradient.clone();
        self.counted("MPI_Allreduce", len, |engine, count| {
            // SAFETY: both buffers have `count` values of the type, and the operation adds values of this type.
            unsafe {
                let operation = match format {
                    Format::Bf16 => engine.bf16_sum.as_raw(),
                    Format::F16 => engine.f16_sum.as_raw(),
                    Format::F64 | Format::F32 | Format::Tf32 => ffi::RSMPI_SUM,
                };
                ffi::MPI_Allreduce(
                    pointer(&own),
                    pointer_mut(gradient),
                    count,
                    datatype(format),
                    operation,
                    world(),
                )
            }
        })
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        let calls = self.agree(Call::AllGather { len: bytes.len() })?;
        let lengths: Vec<usize> = calls.into_iter().map(Call::len).collect();
        let total = lengths.iter().sum();
        count(total)?;
        let ends = lengths.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        });
        let parts: Vec<Range<usize>> = ends.zip(&lengths).map(|(end, len)| end - len..end).collect();
        let starts: Vec<c_int> = parts.iter().map(|part| part.start as c_int).collect();
        let counts: Vec<c_int> = lengths.iter().map(|len| *len as c_int).collect();
        // The address of an empty vector of bytes is 1, which is `MPI_IN_PLACE`. An unused byte prevents empty vectors.
        let own = [bytes, &[0]].concat();
        let mut all = vec![0_u8; total + 1];
        // SAFETY: `own` has the bytes of this rank, and `all` has place for those of all ranks.
        let code = unsafe {
            ffi::MPI_Allgatherv(
                own.as_ptr().cast(),
                counts[self.rank],
                ffi::RSMPI_UINT8_T,
                all.as_mut_ptr().cast(),
                counts.as_ptr(),
                starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                world(),
            )
        };
        check("MPI_Allgatherv", code)?;
        Ok(parts.into_iter().map(|part| all[part].to_vec()).collect())
    }

    fn broadcast(&mut self, root: usize, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        self.agree(Call::Broadcast { root, format, len })?;
        self.counted("MPI_Bcast", len, |_, count| {
            // SAFETY: the buffer has `count` values of the type.
            unsafe {
                ffi::MPI_Bcast(
                    pointer_mut(gradient),
                    count,
                    datatype(format),
                    root as c_int,
                    world(),
                )
            }
        })
    }

    fn gather(&mut self, root: usize, gradient: &Gradient) -> Result<Option<Vec<Gradient>>, CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        self.agree(Call::Gather { root, format, len })?;
        let is_root = self.rank == root;
        // Other ranks than the root receive nothing.
        let received = if is_root { self.size * len } else { 0 };
        let mut all = Gradient::zeros(format, received);
        self.counted("MPI_Gather", len, |_, count| {
            let datatype = datatype(format);
            // SAFETY: `gradient` and, on the root, the part of `all` for each rank have `count` values of the type.
            unsafe {
                ffi::MPI_Gather(
                    pointer(gradient),
                    count,
                    datatype,
                    pointer_mut(&mut all),
                    count,
                    datatype,
                    root as c_int,
                    world(),
                )
            }
        })?;
        Ok(is_root.then(|| {
            (0..self.size)
                .map(|rank| all.slice(rank * len..(rank + 1) * len))
                .collect()
        }))
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), CollectiveError> {
        let size = self.size;
        if to >= size || to == self.rank {
            return Err(CollectiveError::NoRank { rank: to, size });
        }
        self.counted_even_if_empty("MPI_Send", bytes.len(), |_, count| {
            // SAFETY: the buffer has `count` bytes.
            unsafe {
                ffi::MPI_Send(
                    bytes.as_ptr().cast(),
                    count,
                    ffi::RSMPI_UINT8_T,
                    to as c_int,
                    TAG,
                    world(),
                )
            }
        })
    }

    fn receive(&mut self) -> Result<(usize, Vec<u8>), CollectiveError> {
        if self.size == 1 {
            return Err(CollectiveError::NoSender);
        }
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        let mut count = 0;
        // SAFETY: the pointers are valid for the calls, and `MPI_Probe` initializes the status.
        let status = unsafe {
            let code = ffi::MPI_Probe(ffi::RSMPI_ANY_SOURCE, TAG, world(), status.as_mut_ptr());
            check("MPI_Probe", code)?;
            let code = ffi::MPI_Get_count(status.as_ptr(), ffi::RSMPI_UINT8_T, &mut count);
            check("MPI_Get_count", code)?;
            status.assume_init()
        };
        let mut bytes = vec![0_u8; count as usize];
        // SAFETY: the buffer has the bytes of the message that was found.
        let code = unsafe {
            ffi::MPI_Recv(
                bytes.as_mut_ptr().cast(),
                count,
                ffi::RSMPI_UINT8_T,
                status.MPI_SOURCE,
                TAG,
                world(),
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
        check("MPI_Recv", code)?;
        Ok((status.MPI_SOURCE as usize, bytes))
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        // A rank returns only after it has received the calls of all others.
        self.agree(Call::Barrier).map(drop)
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        self.engine.counter.as_ref()?;
        Some(std::mem::take(&mut self.traffic))
    }

    fn finish(self: Box<Self>) -> Result<(), CollectiveError> {
        drop(ManuallyDrop::into_inner(self.engine));
        Ok(())
    }
}

/// Tag of the messages between two ranks.
const TAG: c_int = 0;

/// Returns the communicator of all ranks.
fn world() -> ffi::MPI_Comm {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// Returns the type of a gradient's values. MPI 3 has no 16-bit floating-point types, so these values travel as integers.
fn datatype(format: Format) -> ffi::MPI_Datatype {
    // SAFETY: constants of the library.
    unsafe {
        match format {
            Format::F64 => ffi::RSMPI_DOUBLE,
            Format::F32 | Format::Tf32 => ffi::RSMPI_FLOAT,
            Format::Bf16 | Format::F16 => ffi::RSMPI_UINT16_T,
        }
    }
}

fn pointer(gradient: &Gradient) -> *const c_void {
    match gradient {
        Gradient::F64(values) => values.as_ptr().cast(),
        Gradient::F32(values) => values.as_ptr().cast(),
        Gradient::Bf16(values) => values.as_ptr().cast(),
        Gradient::F16(values) => values.as_ptr().cast(),
    }
}

fn pointer_mut(gradient: &mut Gradient) -> *mut c_void {
    match gradient {
        Gradient::F64(values) => values.as_mut_ptr().cast(),
        Gradient::F32(values) => values.as_mut_ptr().cast(),
        Gradient::Bf16(values) => values.as_mut_ptr().cast(),
        Gradient::F16(values) => values.as_mut_ptr().cast(),
    }
}

/// Converts a number of elements to the type that MPI uses.
fn count(len: usize) -> Result<c_int, CollectiveError> {
    c_int::try_from(len).map_err(|_| CollectiveError::TooLong { len })
}

/// Converts the code that a function of MPI returned.
fn check(function: &'static str, code: c_int) -> Result<(), CollectiveError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0_u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut len = 0;
    // SAFETY: the buffer has the maximum length of a message.
    let described = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len) };
    let message = if described == ffi::MPI_SUCCESS as c_int {
        String::from_utf8_lossy(&text[..len as usize]).into_owned()
    } else {
        format!("error code {code}")
    };
    Err(CollectiveError::Mpi { function, message })
}
