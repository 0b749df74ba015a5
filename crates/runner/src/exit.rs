//! Exit codes of worker processes, and detection of exhausted memory.

/// Exit codes of a worker. Only the parent process reads them. They differ from the exit codes of the command line and of shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum WorkerExit {
    /// The final message was sent.
    Done = 0,
    /// Memory of device or host ran out.
    OutOfMemory = 64,
    /// A thread panicked. The result of the thread is lost, even if burn returns data.
    Panicked = 65,
    /// The parent is gone.
    Orphaned = 66,
    /// The request is malformed.
    BadRequest = 67,
    /// The samples could not be written.
    NotWritten = 68,
    /// The rank sent a final message without a result. `mpirun` then ends the other ranks.
    RankFailed = 69,
}

impl WorkerExit {
    /// Every exit code.
    pub(crate) const ALL: [Self; 7] = [
        Self::Done,
        Self::OutOfMemory,
        Self::Panicked,
        Self::Orphaned,
        Self::BadRequest,
        Self::NotWritten,
        Self::RankFailed,
    ];

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Done => "the worker exited without a result",
            Self::OutOfMemory => "out of memory",
            Self::Panicked => "a thread panicked",
            Self::Orphaned => "the worker lost the connection to its parent",
            Self::BadRequest => "the worker received a malformed request",
            Self::NotWritten => "the worker cannot write the samples",
            Self::RankFailed => "the rank failed",
        }
    }
}

/// Returns true if an error text reports exhausted memory: of Rust's allocator, cubecl, CUDA or Vulkan.
pub fn is_out_of_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    [
        "memory allocation of",
        "can't allocate buffer",
        "out of memory",
        "out of device memory",
        "out_of_memory",
        "outofmemory",
        // Panic of `Vec` if a capacity exceeds the address space.
        "capacity overflow",
    ]
    .iter()
    .any(|fragment| text.contains(fragment))
}

/// Returns the number of processes that the kernel has killed for lack of memory, in this control group (cgroup) or, without one,
/// on the machine.
pub fn oom_kills() -> Option<u64> {
    let read = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
    };
    read("/sys/fs/cgroup/memory.events", "oom_kill").or_else(|| read("/proc/vmstat", "oom_kill"))
}
