//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH. RFC 8881 18.8, 18.19 to 18.21.

use crate::exports::pseudo::ROOT;
use crate::request::place::Place;
use crate::request::run::Run;
use wire::nfs::ops::PutFhArgs;
use wire::nfs::{FileHandle, NfsStatus};

pub(crate) fn put(run: &mut Run<'_>, args: &PutFhArgs) -> Result<(), NfsStatus> {
    let (files, conn) = (run.files(), &run.call.conn);
    let place = Place::parse(files, &run.config, conn, &args.object)?;
    // The earlier charge covered another file.
    run.prepaid_attribute_ops = 0;
    run.set_current(place);
    Ok(())
}

pub(crate) fn put_root(run: &mut Run<'_>) -> Result<(), NfsStatus> {
    run.set_current(Place::Pseudo(ROOT));
    Ok(())
}

pub(crate) fn get(run: &mut Run<'_>) -> Result<FileHandle, NfsStatus> {
    let files = run.files().clone();
    run.place()?.handle(&files)
}
