//! Stand-in for [turso](https://crates.io/crates/turso) 0.8, an SQL database.
//!
//! The feature `persistence` of cubecl-environment keeps compiled kernels and autotune results in a turso database.
//! Mantissa needs the types of that feature, but stores kernels in its own files
//! (`crates/precision/src/kernel_cache.rs`). The real turso 0.8.3 would add 215 packages to `Cargo.lock`, so
//! `[patch.crates-io]` in the workspace's `Cargo.toml` replaces it by this crate.
//!
//! This crate declares only the types and methods that cubecl-environment 0.11.3 uses on a native target. It
//! is not a database: [`Builder::build`] always returns an error, and the types of an open database
//! have no values, so code after a successful `build` never runs. cubecl-environment logs the error and keeps
//! its caches in memory.

use std::convert::Infallible;
use std::fmt;
use std::io::ErrorKind;
use std::marker::PhantomData;

use transaction::{Transaction, TransactionBehavior};

/// Result of a call to the database.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of the database, restricted to those that cubecl-environment constructs or matches.
///
/// [`Builder::build`] returns [`Error::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Another process holds the lock.
    Busy(String),
    /// Another process has written since the snapshot was taken.
    BusySnapshot(String),
    /// Any other failure.
    Error(String),
    /// Failed I/O, with the name of the operation.
    IoError(ErrorKind, &'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(message) | Self::BusySnapshot(message) | Self::Error(message) => f.write_str(message),
            Self::IoError(kind, operation) => write!(f, "I/O error ({operation}): {kind}"),
        }
    }
}

impl std::error::Error for Error {}

/// Builder of a [`Database`].
pub struct Builder(());

impl Builder {
    /// Ignores the path: the database file is neither read nor created.
    #[must_use]
    pub fn new_local(_path: &str) -> Self {
        Self(())
    }

    /// Ignores the setting.
    #[must_use]
    pub fn read_only(self, _read_only: bool) -> Self {
        self
    }

    /// Ignores the setting.
    #[must_use]
    pub fn experimental_multiprocess_wal(self, _enable: bool) -> Self {
        self
    }

    /// Ignores the setting.
    #[must_use]
    pub fn experimental_vacuum(self, _enable: bool) -> Self {
        self
    }

    /// Returns an error.
    ///
    /// # Errors
    ///
    /// Always [`Error::Error`].
    pub async fn build(self) -> Result<Database> {
        Err(Error::Error("Mantissa is built without turso".to_owned()))
    }
}

/// An open database; it has no values.
#[derive(Clone, Debug)]
pub struct Database(Infallible);

impl Database {
    /// Never runs.
    pub fn connect(&self) -> Result<Connection> {
        match self.0 {}
    }
}

/// A connection to a [`Database`]; it has no values.
#[derive(Clone, Debug)]
pub struct Connection(Infallible);

impl Connection {
    /// Never runs.
    pub fn busy_timeout(&self, _timeout: std::time::Duration) -> Result<()> {
        match self.0 {}
    }

    /// Never runs.
    pub async fn execute<P>(&self, _sql: &str, _parameters: P) -> Result<u64> {
        match self.0 {}
    }

    /// Never runs.
    pub async fn query<P>(&self, _sql: &str, _parameters: P) -> Result<Rows> {
        match self.0 {}
    }

    /// Never runs.
    pub async fn pragma_query(&self, _pragma: &str, _visit: impl FnMut(&Row) -> Result<()>) -> Result<()> {
        match self.0 {}
    }

    /// Never runs.
    pub async fn transaction_with_behavior(
        &mut self,
        _behavior: TransactionBehavior,
    ) -> Result<Transaction<'_>> {
        match self.0 {}
    }
}

/// The rows of a query; it has no values.
#[derive(Debug)]
pub struct Rows(Infallible);

impl Rows {
    /// Never runs.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        match self.0 {}
    }
}

/// A row of a query; it has no values.
#[derive(Debug)]
pub struct Row(Infallible);

impl Row {
    /// Never runs.
    pub fn get<T>(&self, _column: usize) -> Result<T> {
        match self.0 {}
    }
}

/// Transactions.
pub mod transaction {
    use super::{Connection, Infallible, PhantomData, Result};

    /// Point at which a transaction acquires the write lock.
    #[derive(Clone, Copy, Debug)]
    pub enum TransactionBehavior {
        /// At the first write.
        Deferred,
        /// At the start.
        Immediate,
    }

    /// A transaction on a [`Connection`]; it has no values.
    #[derive(Debug)]
    pub struct Transaction<'a>(Infallible, PhantomData<&'a Connection>);

    impl Transaction<'_> {
        /// Never runs.
        pub async fn commit(self) -> Result<()> {
            match self.0 {}
        }
    }

    impl std::ops::Deref for Transaction<'_> {
        type Target = Connection;

        fn deref(&self) -> &Connection {
            match self.0 {}
        }
    }
}
