//! What a load is put on: files of a share, over either protocol.

use super::report::Environment;
use crate::error::Error;
use bytes::Bytes;
use std::ops::Deref;

/// A share of a server. Copies are the same share.
pub trait Storage: Clone + Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync + 'static;
    /// What was read.
    type Data: Deref<Target = [u8]> + Send;

    /// What was measured against, as it turned out.
    fn environment(&self) -> Environment;

    /// Connections that stand.
    fn connections(&self) -> usize;

    /// The largest read and write, in bytes.
    fn block_bytes_max(&self) -> u32;

    /// Makes a directory.
    fn make_directory(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Opens a file to read and write, and makes it.
    fn open(&self, path: &str) -> impl Future<Output = Result<Self::File, Error>> + Send;

    /// Closes a file.
    fn close(&self, file: Self::File) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reads; fewer bytes at the end of the file.
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

    /// Makes a file that is not there, and closes it.
    fn touch(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Looks at a file.
    fn stat(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Names in a directory, each with whether it is one itself. Attributes of
    /// all entries are asked for, too.
    fn list(&self, path: &str) -> impl Future<Output = Result<Vec<(String, bool)>, Error>> + Send;

    /// Removes a file or an empty directory.
    fn remove(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send;
}
