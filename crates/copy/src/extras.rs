//! Copies named streams, from SMB to SMB only, and owners with access lists, between sides of one kind.

use crate::error::Error;
use crate::handle::CopyHandle;
use crate::job::CopyJob;
use crate::limits::STREAMS_MAX;
use crate::smb::ALL_OF_DESCRIPTOR;
use bytes::Bytes;
use client::{SmbOpenHow, SmbTree};
use std::sync::Arc;
use wire::codec::Reader;
use wire::fscc;

/// FileStreamInformation. MS-FSCC 2.4.49.
const STREAM_INFORMATION: u8 = 22;

/// OWNER, GROUP and DACL_SECURITY_INFORMATION. MS-DTYP 2.4.7.
const PARTS: u32 = 7;

/// Copies the requested streams and descriptor to the file under its name `temporary`.
pub(crate) async fn copy(
    job: &Arc<CopyJob>,
    from: &str,
    temporary: &str,
    target: &CopyHandle,
) -> Result<(), Error> {
    let sides = (job.source.side.as_smb(), job.target.side.as_smb());
    let (Some(source_tree), Some(target_tree)) = sides else {
        return copy_local_acl(job, from, temporary).await;
    };
    if job.options.streams {
        let file = source_tree.open(from, &SmbOpenHow::read()).await?;
        let streams = file.query_info(STREAM_INFORMATION, 64 * 1024).await;
        file.close().await?;
        for name in stream_names(&streams?)? {
            let block = job.block_bytes;
            copy_stream((source_tree, from), (target_tree, temporary), &name, block).await?;
        }
    }
    if job.options.acls {
        let descriptor = descriptor(source_tree, from).await?;
        // `target` lacks WRITE_DAC and WRITE_OWNER, so the file is opened once more.
        let _ = target;
        set_descriptor(target_tree, temporary, &descriptor).await?;
    }
    Ok(())
}

/// Copies the security descriptor of a directory.
pub(crate) async fn copy_directory(job: &Arc<CopyJob>, from: &str, to: &str) -> Result<(), Error> {
    let sides = (job.source.side.as_smb(), job.target.side.as_smb());
    let (Some(source), Some(target)) = sides else { return copy_local_acl(job, from, to).await };
    if !job.options.acls {
        return Ok(());
    }
    let descriptor = descriptor(source, from).await?;
    set_descriptor(target, to, &descriptor).await
}

/// Copies owner, group and POSIX lists, if both sides are local.
async fn copy_local_acl(job: &Arc<CopyJob>, from: &str, to: &str) -> Result<(), Error> {
    match (job.source.side.as_local(), job.target.side.as_local()) {
        (Some(source), Some(target)) if job.options.acls => source.copy_acl(from, target, to).await,
        _ => Ok(()),
    }
}

async fn descriptor(tree: &SmbTree, path: &str) -> Result<Vec<u8>, Error> {
    let how = SmbOpenHow::stat();
    let file = tree.open(path, &SmbOpenHow { access: how.access | 0x0002_0000, ..how }).await?;
    let descriptor = file.descriptor(PARTS).await;
    file.close().await?;
    Ok(descriptor?)
}

async fn set_descriptor(tree: &SmbTree, path: &str, descriptor: &[u8]) -> Result<(), Error> {
    let how = SmbOpenHow::stat();
    let file =
        tree.open(path, &SmbOpenHow { access: how.access | ALL_OF_DESCRIPTOR, ..how }).await?;
    let set = file.set_descriptor(PARTS, descriptor).await;
    file.close().await?;
    Ok(set?)
}

async fn copy_stream(
    (source, from): (&SmbTree, &str),
    (target, to): (&SmbTree, &str),
    name: &str,
    block: u32,
) -> Result<(), Error> {
    let input = source.open(&format!("{from}:{name}"), &SmbOpenHow::read()).await?;
    let how = SmbOpenHow { disposition: fscc::FILE_OVERWRITE_IF, ..SmbOpenHow::read_write() };
    let output = match target.open(&format!("{to}:{name}"), &how).await {
        Ok(output) => output,
        Err(error) => {
            input.close().await?;
            return Err(error.into());
        }
    };
    let mut at = 0;
    let copied = loop {
        let data = match input.read(at, block).await {
            Ok(data) if data.is_empty() => break Ok(()),
            Ok(data) => Bytes::from_owner(data),
            Err(error) => break Err(error),
        };
        if let Err(error) = output.write(at, &data).await {
            break Err(error);
        }
        at += data.len() as u64;
    };
    let closed = output.close().await;
    input.close().await?;
    Ok(copied.and(closed)?)
}

/// The names of all streams but the unnamed one.
fn stream_names(mut list: &[u8]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for _ in 0..STREAMS_MAX {
        if list.is_empty() {
            return Ok(names);
        }
        let bad = || Error::Refused("the server's list of streams is not valid".into());
        let mut r = Reader::new(list);
        let next = r.u32("streams").map_err(|_| bad())? as usize;
        let length = r.u32("streams").map_err(|_| bad())? as usize;
        let name = list.get(24..24 + length.min(list.len())).ok_or_else(bad)?;
        let units: Vec<u16> =
            name.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let text = String::from_utf16(&units).map_err(|_| bad())?;
        let middle = text.strip_prefix(':').and_then(|rest| rest.strip_suffix(":$DATA"));
        match middle {
            Some("") => {}
            Some(name) if !name.contains(['/', '\\', ':', '\0']) => names.push(name.to_owned()),
            _ => return Err(bad()),
        }
        if next == 0 {
            return Ok(names);
        }
        list = list.get(next..).ok_or_else(bad)?;
    }
    Err(Error::Refused("it has too many named streams".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let next = (24 + units.len()).next_multiple_of(8);
            let next_offset = if at + 1 == names.len() { 0 } else { next as u32 };
            out.extend_from_slice(&next_offset.to_le_bytes());
            out.extend_from_slice(&(units.len() as u32).to_le_bytes());
            out.extend_from_slice(&[0; 16]);
            out.extend_from_slice(&units);
            out.resize(out.len() + next - 24 - units.len(), 0);
        }
        out
    }

    #[test]
    fn stream_list_with_separators_or_foreign_types_is_refused() {
        assert_eq!(
            stream_names(&list(&["::$DATA", ":a:$DATA", ":b c:$DATA"])).unwrap(),
            ["a", "b c"]
        );
        assert!(stream_names(&[]).unwrap().is_empty());
        assert!(stream_names(&list(&[":a\\b:$DATA"])).is_err());
        assert!(stream_names(&list(&[":a:$INDEX_ALLOCATION"])).is_err());
        let whole = list(&["::$DATA", ":a:$DATA"]);
        for length in 1..whole.len() - 8 {
            let _ = stream_names(&whole[..length]);
        }
        assert!(stream_names(&whole[..30]).is_err());
    }
}
