//! An SMB share as the target of a load.

use super::report::Environment;
use super::storage::Storage;
use crate::error::Error;
use crate::file::{SmbFile, SmbOpenHow};
use crate::pool::PooledBytes;
use crate::tree::SmbTree;
use bytes::Bytes;
use wire::fscc::FILE_CREATE;

/// The attribute of directories. MS-FSCC 2.6.
const DIRECTORY: u32 = 0x10;

impl Storage for SmbTree {
    type File = SmbFile;
    type Data = PooledBytes;

    fn environment(&self) -> Environment {
        let client = self.client();
        let (negotiated, session) = (client.negotiated(), client.session());
        let counters = client.counters();
        let channels = client.channels();
        Environment {
            server: client.name().to_owned(),
            protocol: "SMB",
            dialect: negotiated.dialect.to_string(),
            signing: if session.signs && !session.seals {
                negotiated.signing.name()
            } else {
                "off"
            },
            cipher: negotiated.cipher.filter(|_| session.seals).map_or("off", |c| c.name()),
            channels: channels.len(),
            channel_refusal: client.refusal().map(|refusal| refusal.to_string()),
            channel_bytes: channels.iter().map(|channel| channel.bytes).collect(),
            channels_lost: counters.lost,
            requests_replayed: counters.replayed,
            read_bytes_max: negotiated.read_bytes_max,
            write_bytes_max: negotiated.write_bytes_max,
        }
    }

    fn connections(&self) -> usize {
        self.client().channels().len()
    }

    fn block_bytes_max(&self) -> u32 {
        let negotiated = self.client().negotiated();
        negotiated.read_bytes_max.min(negotiated.write_bytes_max)
    }

    async fn make_directory(&self, path: &str) -> Result<(), Error> {
        SmbTree::make_directory(self, path).await
    }

    async fn open(&self, path: &str) -> Result<SmbFile, Error> {
        SmbTree::open(self, path, &SmbOpenHow::read_write()).await
    }

    async fn close(&self, file: SmbFile) -> Result<(), Error> {
        file.close().await
    }

    async fn read(&self, file: &SmbFile, offset: u64, length: u32) -> Result<PooledBytes, Error> {
        file.read(offset, length).await
    }

    async fn write(&self, file: &SmbFile, offset: u64, data: &Bytes) -> Result<(), Error> {
        file.write(offset, data).await
    }

    async fn set_size(&self, file: &SmbFile, size: u64) -> Result<(), Error> {
        file.set_size(size).await
    }

    async fn touch(&self, path: &str) -> Result<(), Error> {
        let new = SmbOpenHow { disposition: FILE_CREATE, ..SmbOpenHow::read_write() };
        SmbTree::touch(self, path, &new).await.map(drop)
    }

    async fn stat(&self, path: &str) -> Result<(), Error> {
        SmbTree::stat(self, path).await.map(drop)
    }

    async fn list(&self, path: &str) -> Result<Vec<(String, bool)>, Error> {
        let entries = SmbTree::list(self, path).await?;
        let entry =
            |e: crate::tree::SmbDirectoryEntry| (e.name, e.record.attributes & DIRECTORY != 0);
        Ok(entries.into_iter().map(entry).collect())
    }

    async fn remove(&self, path: &str) -> Result<(), Error> {
        SmbTree::remove(self, path).await
    }
}
