//! OPEN, OPEN_DOWNGRADE. RFC 8881 18.16, 18.18.
//!
//! All opens of one owner on one file share one state and one open of the file layer. An OPEN that
//! asks for more replaces the earlier open.

use super::attributes::{RequestedAttributes, decode_requested, set_list};
use super::delegation;
use super::names::{change_before, change_info, name_of};
use crate::callback::recall::DelegationHolder;
use crate::clients::client::ClientIncarnation;
use crate::clients::held_state::HeldOpen;
use crate::exports::export::Export;
use crate::limits::OPEN_UPGRADE_TRIES_MAX;
use crate::request::place::HandleTarget;
use crate::request::run::CompoundRun;
use crate::state::stateids::{OpenState, ShareBits};
use crate::status::OrStatus;
use files::{
    Access as Rights, CacheHolder, Caller, IfExists, IfMissing, Object, ObjectChanges, ObjectOpen,
    OpenAction, OpenAt, OpenFile, OpenPlan, OpenResult as OpenedFile, RequestedKind, ShareMode,
};
use std::sync::Arc;
use vfs::{FileKey, FsError};
use wire::nfs::ops::{
    NfsCreateHow, NfsOpenHow, NfsOpenResult, OpenArgs, OpenClaim, OpenDelegation,
    OpenDowngradeArgs, OpenResultFlags, ShareAccess, ShareDeny,
};
use wire::nfs::{Bitmap4, ChangeInfo, NfsStatus, StateId};

/// Decoded arguments of OPEN.
struct OpenRequest {
    at: OpenAt,
    caller: Arc<Caller>,
    export: Arc<Export>,
    share: ShareBits,
    plan: OpenPlan,
    verifier: Option<[u8; 8]>,
    requested: RequestedAttributes,
}

impl OpenRequest {
    /// Whether the creation itself sets all requested attributes.
    fn changes_nothing_more(&self) -> bool {
        self.requested.list.is_none() && self.rest().is_none()
    }

    /// Whether a new file has only its name and the usual metadata.
    fn stores_nothing_more(&self) -> bool {
        self.verifier.is_none() && self.changes_nothing_more()
    }

    /// Attributes that a new file still needs.
    fn rest(&self) -> Option<ObjectChanges> {
        let mut changes = ObjectChanges { mode: None, ..self.requested.changes };
        if changes.size_bytes == Some(0) {
            changes.size_bytes = None;
        }
        Some(changes).filter(|changes| *changes != ObjectChanges::default())
    }
}

/// Rights that the share access bits stand for.
fn rights(share: ShareBits) -> Rights {
    let mut rights = Rights::READ_ATTRIBUTES;
    if share.access & ShareAccess::READ.0 != 0 {
        rights |= Rights::READ_DATA;
    }
    if share.access & ShareAccess::WRITE.0 != 0 {
        rights |= Rights::WRITE_DATA | Rights::APPEND_DATA;
    }
    rights
}

/// Share mode that the share deny bits leave to others.
fn tolerated(share: ShareBits) -> ShareMode {
    let mut tolerated = ShareMode::ALL.0;
    if share.deny & ShareDeny::READ.0 != 0 {
        tolerated &= !ShareMode::READ.0;
    }
    if share.deny & ShareDeny::WRITE.0 != 0 {
        tolerated &= !ShareMode::WRITE.0;
    }
    ShareMode(tolerated)
}

pub(crate) async fn open(
    run: &mut CompoundRun<'_>,
    args: &OpenArgs<'_>,
) -> Result<NfsOpenResult<'static>, NfsStatus> {
    let client = run.client()?;
    check_claim(run, &client, &args.claim)?;
    run.server().make_room(&client, args.owner.owner.len())?;
    let wish = decode_open(run, args).await?;
    delegation::check_claim(&client, &args.claim)?;
    let directory = match &wish.at {
        OpenAt::Name(directory, _) => Some(directory.clone()),
        OpenAt::Object(_) => None,
    };
    let before = directory.as_ref().map_or(0, |directory| change_before(run, directory));
    let (opened, state_id, place) = open_for_owner(run, &client, args, &wish).await?;
    let attributes_set = match initialise(run, &wish, &opened).await {
        Ok(set) => set,
        Err(status) => {
            let undone = client.with_states(|states| states.undo_open(&state_id));
            undone.opens.into_iter().for_each(|held| run.server().close(run.files(), held));
            return Err(status);
        }
    };
    let change = match &directory {
        Some(directory) => change_info(run, directory, before),
        None => ChangeInfo::default(),
    };
    if opened.action == OpenAction::Created {
        run.server().delegations.end_cooling(opened.open.key());
    }
    note_changed(run, &wish, &opened, directory.as_ref());
    let by = (args.share_access, &args.claim);
    let delegation = delegation::grant(run, &client, by, (&opened.open, &wish.export));
    run.set_current(place);
    run.current_id = Some(state_id);
    // With a delegation the client caches the attributes, so they must be read after the grant.
    if matches!(delegation, OpenDelegation::None | OpenDelegation::NoneWhy(_))
        && wish.changes_nothing_more()
    {
        run.seen = Some((opened.open.key(), opened.attributes));
    }
    let mut flags = OpenResultFlags::LOCKTYPE_POSIX;
    if client.answers_callbacks() {
        flags |= OpenResultFlags::MAY_NOTIFY_LOCK;
    }
    Ok(NfsOpenResult { state_id, change, flags, attributes_set, delegation })
}

/// Notes the changes of an OPEN: a created name, and attributes or a truncation of the file.
fn note_changed(
    run: &mut CompoundRun<'_>,
    wish: &OpenRequest,
    opened: &OpenedFile,
    directory: Option<&Object>,
) {
    let (has_made, file) = match opened.action {
        OpenAction::Created => (true, !wish.stores_nothing_more()),
        OpenAction::Overwritten | OpenAction::Superseded => (false, true),
        // An earlier transmission of the exclusive create made the file, and its reply was lost,
        // perhaps while it waited.
        OpenAction::Opened if wish.verifier.is_some() => (true, true),
        OpenAction::Opened => return,
    };
    if let Some(directory) = directory.filter(|_| has_made) {
        run.note_changed(&[directory]);
    }
    if file {
        run.note_changed_by(&opened.open);
    }
}

/// Checks the claim against the grace period. RFC 8881 8.4.2.1, 18.16.3.
fn check_claim(
    run: &CompoundRun<'_>,
    client: &ClientIncarnation,
    claim: &OpenClaim<'_>,
) -> Result<(), NfsStatus> {
    match claim {
        OpenClaim::Previous(_) => run.server().check_grace(client, true),
        OpenClaim::DelegatePrevious(_) | OpenClaim::DelegatePreviousFileHandle => {
            Err(NfsStatus::NOTSUPP)
        }
        _ => run.server().check_grace(client, false),
    }
}

async fn decode_open(
    run: &mut CompoundRun<'_>,
    args: &OpenArgs<'_>,
) -> Result<OpenRequest, NfsStatus> {
    let share = ShareBits { access: args.share_access.access().0, deny: args.share_deny.0 };
    if share.access == 0 || share.deny & !ShareDeny::BOTH.0 != 0 {
        return Err(NfsStatus::INVAL);
    }
    let mut plan = OpenPlan::posix(rights(share), tolerated(share));
    plan.kind = RequestedKind::File;
    let (mut verifier, mut requested) = (None, RequestedAttributes::default());
    if let NfsOpenHow::Create(how) = &args.how {
        let (if_exists, attributes) = match how {
            NfsCreateHow::Unchecked(attributes) => (IfExists::Open, Some(attributes)),
            NfsCreateHow::Guarded(attributes) => (IfExists::Fail, Some(attributes)),
            NfsCreateHow::Exclusive(given) => {
                verifier = Some(given.0);
                (IfExists::Fail, None)
            }
            NfsCreateHow::ExclusiveWithAttributes(given, attributes) => {
                verifier = Some(given.0);
                (IfExists::Fail, Some(attributes))
            }
        };
        if let Some(attributes) = attributes {
            requested = decode_requested(run, attributes)?;
        }
        plan.if_missing = IfMissing::Create;
        let cuts = if_exists == IfExists::Open && requested.changes.size_bytes == Some(0);
        plan.if_exists = if cuts { IfExists::Overwrite } else { if_exists };
    }
    let at = match &args.claim {
        OpenClaim::Null(name) | OpenClaim::DelegateCurrent(_, name) => {
            let name = name_of(name)?;
            OpenAt::Name(run.object().await?.0, name)
        }
        _ => OpenAt::Object(run.object().await?.0),
    };
    let export = run.object_place()?.export.clone();
    let caller = run.caller(&export);
    requested.complete_mode(|| Some(export.volume.options.file_mode));
    plan.mode = requested.new_mode(export.volume.options.file_mode);
    Ok(OpenRequest { at, caller, export, share, plan, verifier, requested })
}

/// Opens the file, and creates or upgrades the owner's state.
async fn open_for_owner(
    run: &mut CompoundRun<'_>,
    client: &Arc<ClientIncarnation>,
    args: &OpenArgs<'_>,
    wish: &OpenRequest,
) -> Result<(OpenedFile, StateId, HandleTarget), NfsStatus> {
    let holder: Arc<dyn CacheHolder> = DelegationHolder::new(run.server(), client);
    let owner_open = OwnerOpen { client, owner: &args.owner.owner, wish, holder };
    let key = match owner_open.open(run, &wish.at, wish.plan.clone(), None).await {
        Ok(mut opened) => {
            let mut place = HandleTarget::of(wish.export.clone(), opened.open.object());
            if let Some(id) = owner_open.bind_state(run, &mut opened, &mut place)? {
                return Ok((opened, id, place));
            }
            return owner_open.upgrade(run, opened.open.key(), Some(opened)).await;
        }
        Err(FsError::ShareViolation) => match key_of(run, wish).await {
            // The conflicting name is gone meanwhile; the client should retry its create.
            Err(NfsStatus::NOENT) => return Err(run.open_refused(FsError::ShareViolation)),
            key => key?,
        },
        Err(error) => return Err(run.open_refused(error)),
    };
    // The conflicting open may be of the same owner.
    owner_open.upgrade(run, key, None).await
}

/// One OPEN with its owner.
struct OwnerOpen<'a> {
    client: &'a Arc<ClientIncarnation>,
    owner: &'a [u8],
    wish: &'a OpenRequest,
    holder: Arc<dyn CacheHolder>,
}

impl OwnerOpen<'_> {
    async fn open(
        &self,
        run: &CompoundRun<'_>,
        at: &OpenAt,
        plan: OpenPlan,
        instead_of: Option<Arc<OpenFile>>,
    ) -> Result<OpenedFile, FsError> {
        let holder = Some(self.holder.clone());
        let with = ObjectOpen { instead_of, verifier: self.wish.verifier, holder };
        run.files().open_object(&self.wish.caller, at, plan, with).await
    }

    /// Creates the owner's state for a new open, or advances the existing one. None if the existing
    /// open must be upgraded. Atomic, since OPENs of one owner may be concurrent.
    fn bind_state(
        &self,
        run: &CompoundRun<'_>,
        opened: &mut OpenedFile,
        place: &mut HandleTarget,
    ) -> Result<Option<StateId>, NfsStatus> {
        let key = opened.open.key();
        let handle = place.handle(run.files())?;
        if let HandleTarget::Object(place) = place {
            run.files().note_open(place.handle(run.files())?, &opened.open);
        }
        self.client.with_states(|states| {
            let Some(number) = states.open_of(key, self.owner) else {
                let charge = Some(Arc::new(run.server().charge_open(self.client)?));
                let holds = HeldOpen { open: opened.open.clone(), handle, charge };
                let state = OpenState { owner: self.owner.into(), share: self.wish.share, holds };
                let number = states.add_open(key, state).map_err(|_| NfsStatus::DELAY)?;
                return Ok(Some(states.id(number)));
            };
            let held = states.open(number)?;
            if !self.wish.share.is_within(held.share) {
                return Ok(None);
            }
            opened.open = held.holds.open.clone();
            Ok(Some(states.advance(number)))
        })
    }

    /// Upgrades the owner's open: one open for both accesses replaces it. `opened` is None if the
    /// earlier open conflicts with the new one.
    ///
    /// Upgrades are serialised, because the locks move to the replacing open. An open that lost the
    /// race would lose them.
    async fn upgrade(
        &self,
        run: &mut CompoundRun<'_>,
        key: FileKey,
        mut opened: Option<OpenedFile>,
    ) -> Result<(OpenedFile, StateId, HandleTarget), NfsStatus> {
        let _turn = self.client.open_upgrades.lock((key, self.owner.into())).await;
        for _ in 0..OPEN_UPGRADE_TRIES_MAX {
            let Some((number, held, had)) = open_of_owner(self.client, key, self.owner) else {
                // The earlier open was closed meanwhile.
                let first = self.open_first(run, opened.take()).await;
                let mut first = first.map_err(|error| run.open_refused(error))?;
                let mut place = HandleTarget::of(self.wish.export.clone(), first.open.object());
                if let Some(id) = self.bind_state(run, &mut first, &mut place)? {
                    return Ok((first, id, place));
                }
                opened = Some(first);
                continue;
            };
            let mut share = had.with(self.wish.share);
            let both = self.open_combined(run, (&held, share), opened.as_ref()).await;
            let mut both = both.map_err(|error| run.open_refused(error))?;
            let files = run.files();
            let id = self.client.with_states(|states| {
                let open = states.open_mut(number)?;
                let now = open.share.with(self.wish.share);
                if now != share && files.downgrade(&both.open, rights(now), tolerated(now)).is_ok()
                {
                    // A concurrent OPEN_DOWNGRADE.
                    share = now;
                }
                open.share = share;
                open.holds.open = both.open.clone();
                Some(states.advance(number))
            });
            // Dropped and not closed: READs and WRITEs in flight may use it. It has no rights and
            // no locks any more.
            drop(held);
            if let Some(id) = id {
                let place = HandleTarget::of(self.wish.export.clone(), both.open.object());
                if let Some(opened) = opened {
                    both = OpenedFile { open: both.open, ..opened };
                }
                return Ok((both, id, place));
            }
        }
        Err(NfsStatus::DELAY)
    }

    /// Opens the file if the owner has no open after all. The access of an earlier open may have
    /// been reduced for an upgrade.
    async fn open_first(
        &self,
        run: &CompoundRun<'_>,
        before: Option<OpenedFile>,
    ) -> Result<OpenedFile, FsError> {
        let Some(before) = before else {
            return self.open(run, &self.wish.at, self.wish.plan.clone(), None).await;
        };
        if before.open.granted().contains(rights(self.wish.share)) {
            return Ok(before);
        }
        let plan = OpenPlan::posix(rights(self.wish.share), tolerated(self.wish.share));
        let at = OpenAt::Object(before.open.object());
        let again = self.open(run, &at, plan, None).await?;
        Ok(OpenedFile { open: again.open, ..before })
    }

    /// Opens for `share` in place of the owner's open.
    async fn open_combined(
        &self,
        run: &CompoundRun<'_>,
        (held, share): (&HeldOpen, ShareBits),
        opened: Option<&OpenedFile>,
    ) -> Result<OpenedFile, FsError> {
        let instead_of = Some(held.open.clone());
        let Some(opened) = opened else {
            let mut plan = self.wish.plan.clone();
            (plan.desired, plan.share) = (rights(share), tolerated(share));
            return self.open(run, &self.wish.at, plan, instead_of).await;
        };
        // Its share deny bits would conflict with the combined open.
        run.files().downgrade(&opened.open, Rights::READ_ATTRIBUTES, ShareMode::ALL)?;
        let plan = OpenPlan::posix(rights(share), tolerated(share));
        let at = OpenAt::Object(opened.open.object());
        self.open(run, &at, plan, instead_of).await
    }
}

/// The owner's open of a file.
fn open_of_owner(
    client: &ClientIncarnation,
    key: FileKey,
    owner: &[u8],
) -> Option<(u64, HeldOpen, ShareBits)> {
    let states = client.states.lock();
    let number = states.open_of(key, owner)?;
    let open = states.open(number).ok()?;
    Some((number, open.holds.clone(), open.share))
}

/// The file of the OPEN.
async fn key_of(run: &CompoundRun<'_>, wish: &OpenRequest) -> Result<FileKey, NfsStatus> {
    match &wish.at {
        OpenAt::Object(object) => Ok(object.key()),
        OpenAt::Name(directory, name) => {
            let found = run.files().lookup(&wish.caller, directory, name).await;
            Ok(found.or_status()?.key())
        }
    }
}

/// Sets the remaining attributes of a new file. Returns those that were set.
async fn initialise(
    run: &CompoundRun<'_>,
    wish: &OpenRequest,
    opened: &OpenedFile,
) -> Result<Bitmap4, NfsStatus> {
    match opened.action {
        OpenAction::Created => {}
        OpenAction::Overwritten => {
            return Ok(wish.requested.mask & Bitmap4::of(&[wire::nfs::attributes::attribute::SIZE]));
        }
        OpenAction::Opened | OpenAction::Superseded => return Ok(Bitmap4::EMPTY),
    }
    if let Some(changes) = wish.rest() {
        let files = run.files();
        let object = opened.open.object();
        let by = Some(&opened.open);
        let caller = &wish.caller;
        files.initialise_object_attributes(caller, &object, by, &changes).await.or_status()?;
    }
    set_list(run, (&opened.open.object(), &wish.caller), wish.requested.list.as_ref()).await?;
    Ok(wish.requested.mask)
}

pub(crate) fn downgrade(
    run: &mut CompoundRun<'_>,
    args: &OpenDowngradeArgs,
) -> Result<StateId, NfsStatus> {
    let share = ShareBits { access: args.share_access.access().0, deny: args.share_deny.0 };
    if share.access == 0 || share.deny & !ShareDeny::BOTH.0 != 0 {
        return Err(NfsStatus::INVAL);
    }
    let id = run.resolve_id(args.state_id)?;
    let held = run.open_by(&id, Rights::READ_ATTRIBUTES)?;
    let client = run.client()?;
    let files = run.files().clone();
    let id = client.with_states(|states| {
        let (number, open) = states.find_open(&id)?;
        if !share.is_within(open.share) {
            return Err(NfsStatus::INVAL);
        }
        files.downgrade(&held.open, rights(share), tolerated(share)).or_status()?;
        open.share = share;
        Ok(states.advance(number))
    })?;
    run.current_id = Some(id);
    Ok(id)
}
