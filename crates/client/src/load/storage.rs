//! The target of a load: files of a share, over either protocol.

use super::report::Environment;
use crate::error::Error;
use bytes::Bytes;
use std::ops::Deref;

/// A share of a server. Clones refer to the same share.
pub trait Storage: Clone + Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync + 'static;
    /// Data of a read.
    type Data: Deref<Target = [u8]> + Send;

    /// The environment of the measurement, as found.
    fn environment(&self) -> Environment;

    /// Number of live connections.
    fn connections(&self) -> usize;

    /// Maximum length of a read and write, in bytes.
    fn block_bytes_max(&self) -> u32;

    /// Creates a directory.
    fn make_directory(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Opens a file for reading and writing, creating it if necessary.
    fn open(&self, path: &str) -> impl Future<Output = Result<Self::File, Error>> + Send;

    /// Closes a file.
    fn close(&self, file: Self::File) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reads; returns fewer bytes at the end of the file.
    fn read(
        &self,
        file: &Self::File,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> impl Future<Output = Result<Self::Data, Error>> + Send;

    /// Writes all of `data`.
    fn write(
        &self,
        file: &Self::File,
        offset_bytes: u64,
        data: &Bytes,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Sets the size of a file.
    fn set_size(
        &self,
        file: &Self::File,
        size_bytes: u64,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Creates a new file, and closes it.
    fn touch(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Gets a file's attributes.
    fn stat(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Lists a directory: names, each with whether it is a directory. The request also asks for the
    /// attributes of all entries.
    fn list(&self, path: &str) -> impl Future<Output = Result<Vec<(String, bool)>, Error>> + Send;

    /// Removes a file or an empty directory.
    fn remove(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;
}
