//! Symbolic links of an export.

use super::client::refused;
use super::export::{NfsExport, for_put, put};
use crate::error::Error;
use wire::nfs::attributes::NfsAttributes;
use wire::nfs::ops::{CreateArgs, CreateResult, CreateType, LookupArgs};
use wire::nfs::{Operation, OperationNumber};

impl NfsExport {
    /// The target of a symbolic link, as it is stored. RFC 8881 18.24.
    ///
    /// # Errors
    /// The server's refusal, of READLINK for another kind of file.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let operations =
            [put(&parent), Operation::Lookup(LookupArgs { name }), Operation::ReadLink];
        let answer = self.client().compound(&operations).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::LOOKUP;
        results.succeed::<()>(number).map_err(refused(number))?;
        let number = OperationNumber::READLINK;
        let target: &[u8] = results.succeed(number).map_err(refused(number))?;
        Ok(target.to_vec())
    }

    /// Creates a symbolic link to `target`, which is not interpreted. RFC 8881 18.4.
    ///
    /// # Errors
    /// The server's refusal, as of a name that exists.
    pub async fn make_link(&self, path: impl AsRef<[u8]>, target: &[u8]) -> Result<(), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let mut buffer = Vec::new();
        let attributes = NfsAttributes::default().to_fattr(&mut buffer);
        let object_type = CreateType::Link(target);
        let create = Operation::Create(CreateArgs { object_type, name, attributes });
        let answer = self.client().compound(&[put(&parent), create]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::CREATE;
        results.succeed::<CreateResult>(number).map_err(refused(number)).map(drop)
    }
}
