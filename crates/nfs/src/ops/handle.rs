//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH. RFC 8881 18.8, 18.19 to 18.21.

use crate::exports::pseudo::ROOT;
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use wire::nfs::ops::PutFhArgs;
use wire::nfs::{FileHandle, NfsStatus};

pub(crate) fn put(run: &mut CompoundRun<'_>, args: &PutFhArgs) -> Result<(), NfsStatus> {
    let (files, conn) = (run.files(), &run.call.conn);
    let place = HandleTarget::parse(files, &run.config, conn, &args.object)?;
    // The earlier charge covered another file.
    run.prepaid_attribute_ops = 0;
    run.set_current(place);
    Ok(())
}

pub(crate) fn put_root(run: &mut CompoundRun<'_>) -> Result<(), NfsStatus> {
    run.set_current(HandleTarget::Pseudo(ROOT));
    Ok(())
}

pub(crate) fn get(run: &mut CompoundRun<'_>) -> Result<FileHandle, NfsStatus> {
    let files = run.files().clone();
    run.place()?.handle(&files)
}
