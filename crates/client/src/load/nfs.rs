//! An NFS export as the target of a load.

use super::report::Environment;
use super::storage::Storage;
use crate::error::Error;
use crate::nfs::{Disposition, NfsExport, NfsFile};
use bytes::Bytes;

impl Storage for NfsExport {
    type File = NfsFile;
    type Data = Bytes;

    fn environment(&self) -> Environment {
        let client = self.client();
        let channel_bytes = client.connection_bytes();
        Environment {
            server: client.name().to_owned(),
            protocol: "NFS",
            dialect: client.version(),
            signing: "off",
            cipher: "off",
            channels: channel_bytes.len(),
            channel_refusal: None,
            channel_bytes,
            channels_lost: 0,
            requests_replayed: 0,
            read_bytes_max: client.io_bytes_max(),
            write_bytes_max: client.io_bytes_max(),
        }
    }

    fn connections(&self) -> usize {
        self.client().connection_bytes().len()
    }

    fn block_bytes_max(&self) -> u32 {
        self.client().io_bytes_max()
    }

    async fn make_directory(&self, path: &str) -> Result<(), Error> {
        NfsExport::make_directory(self, path).await
    }

    async fn open(&self, path: &str) -> Result<NfsFile, Error> {
        self.open_file(path, Disposition::OpenOrCreate).await
    }

    async fn close(&self, file: NfsFile) -> Result<(), Error> {
        NfsExport::close(self, file).await
    }

    async fn read(&self, file: &NfsFile, offset: u64, length: u32) -> Result<Bytes, Error> {
        NfsExport::read(self, file, offset, length).await
    }

    async fn write(&self, file: &NfsFile, offset: u64, data: &Bytes) -> Result<(), Error> {
        NfsExport::write(self, file, offset, data).await
    }

    async fn set_size(&self, file: &NfsFile, size: u64) -> Result<(), Error> {
        NfsExport::set_size(self, file, size).await
    }

    async fn touch(&self, path: &str) -> Result<(), Error> {
        let file = self.open_file(path, Disposition::Create).await?;
        NfsExport::close(self, file).await
    }

    async fn stat(&self, path: &str) -> Result<(), Error> {
        NfsExport::stat(self, path).await.map(drop)
    }

    async fn list(&self, path: &str) -> Result<Vec<(String, bool)>, Error> {
        let entries = NfsExport::list(self, path).await?;
        Ok(entries.iter().map(|entry| (entry.name_text(), entry.is_directory)).collect())
    }

    async fn remove(&self, path: &str) -> Result<(), Error> {
        NfsExport::remove(self, path).await
    }
}
