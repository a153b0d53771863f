//! Tests of a thread's credentials as the kernel reports them.

use super::*;

/// File system user id and group id, and effective capabilities of the calling thread.
fn of_thread() -> (u32, u32, u64) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let field = |name: &str, at: usize| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().nth(at).unwrap().to_owned()
    };
    let effective = u64::from_str_radix(&field("CapEff:", 0), 16).unwrap();
    (field("Uid:", 3).parse().unwrap(), field("Gid:", 3).parse().unwrap(), effective)
}

fn user(uid: u32) -> Identity {
    Identity { uid, gid: uid + 1, groups: vec![uid + 2] }
}

const OF_FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD);

fn held() -> CapabilitySet {
    CapabilitySet::from_bits_retain(of_thread().2) & OF_FILES
}

#[test]
fn dropped_guard_restores_the_process_credentials() {
    if !may_switch() {
        return;
    }
    let (one, two) = (user(54_321), user(54_331));
    let before = of_thread();
    let outer = IdentityGuard::begin(one.actor()).unwrap();
    assert_eq!(of_thread().0, 54_321);
    {
        let _inner = IdentityGuard::begin(two.actor()).unwrap();
        assert_eq!((of_thread().0, of_thread().1), (54_331, 54_332));
    }
    assert_eq!((of_thread().0, held()), (54_321, CapabilitySet::empty()));
    drop(outer);
    assert_eq!(of_thread(), before);
}

/// An unprivileged process cannot have uid 0, and a failed change of credentials would abort it.
#[test]
fn unprivileged_process_survives_keep_identity() {
    use std::os::unix::process::CommandExt as _;
    // The user may lack access to the directories above the binary.
    let mut command = std::process::Command::new("/proc/self/exe");
    let name = "identity::tests::child_of_an_ordinary_user_keeps_identity";
    command.args(["--exact", name, "--ignored", "--test-threads=1"]);
    if may_switch() {
        command.uid(54_321).gid(54_321);
    }
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
}

#[test]
#[ignore = "the process of unprivileged_process_survives_keep_identity"]
fn child_of_an_ordinary_user_keeps_identity() {
    assert!(!may_switch());
    let before = of_thread();
    keep_identity(|| {
        drop(IdentityGuard::begin(user(54_331).actor()).unwrap());
        assert_eq!(of_thread(), before);
        as_server(ServerWork::Metadata, || Ok(())).unwrap();
    });
    assert_eq!(of_thread(), before);
}

#[test]
fn keep_identity_ends_with_its_scope() {
    if !may_switch() {
        return;
    }
    let one = user(54_321);
    let before = of_thread();
    keep_identity(|| {
        drop(IdentityGuard::begin(one.actor()).unwrap());
        assert_eq!(of_thread().0, 54_321);
        as_server(ServerWork::Metadata, || {
            assert_eq!(of_thread().0, 0);
            Ok(())
        })
        .unwrap();
    });
    assert_eq!(of_thread(), before);
}

#[test]
fn panic_in_keep_identity_restores_credentials() {
    if !may_switch() {
        return;
    }
    let one = user(54_321);
    let before = of_thread();
    let panicked = std::panic::catch_unwind(|| {
        keep_identity(|| {
            let _acting = IdentityGuard::begin(one.actor()).unwrap();
            panic!("a request fails");
        })
    });
    assert!(panicked.is_err());
    assert_eq!(of_thread(), before);
}

#[test]
fn invalid_ids_are_refused_and_change_nothing() {
    let before = of_thread();
    for invalid in [Identity::INVALID_ID, Identity::POWERLESS_ID] {
        for identity in [
            Identity { uid: invalid, gid: 1, groups: vec![] },
            Identity { uid: 1, gid: invalid, groups: vec![] },
            Identity { uid: 1, gid: 1, groups: vec![invalid] },
        ] {
            let denied = Some(FsError::AccessDenied);
            assert_eq!(IdentityGuard::begin(identity.actor()).err(), denied);
            assert_eq!(IdentityGuard::on_open_file(identity.actor(), || false).err(), denied);
            assert_eq!(IdentityGuard::on_names(NameActor::Granted(&identity)).err(), denied);
            assert_eq!(of_thread(), before);
        }
    }
}

#[test]
fn elevated_user_keeps_its_id_and_named_capabilities() {
    if !may_switch() {
        return;
    }
    let one = user(54_321);
    let begin = |power| match power {
        Power::Node(elevated) => IdentityGuard::begin(Actor::elevate(&one, elevated)),
        Power::Names => IdentityGuard::on_names(NameActor::Granted(&one)),
        Power::Link => IdentityGuard::on_link(one.actor()).map(Option::unwrap),
    };
    for power in
        ElevationReason::ALL.map(Power::Node).into_iter().chain([Power::Names, Power::Link])
    {
        let acting = begin(power).unwrap();
        assert_eq!(of_thread().0, 54_321, "{power:?}");
        assert_eq!(held(), capabilities_of(power), "{power:?}");
        let never = CapabilitySet::FSETID | CapabilitySet::MKNOD;
        assert!(!held().intersects(never), "{power:?}");
        // Without the elevation again, though the user is the same.
        let plain = IdentityGuard::begin(one.actor()).unwrap();
        assert_eq!(held(), CapabilitySet::empty());
        drop((plain, acting));
    }
}

#[test]
fn link_elevation_excludes_other_elevations() {
    let one = user(54_321);
    let others = ElevationReason::ALL.map(|elevated| Actor::elevate(&one, elevated));
    let server = Actor::server(ServerWork::Metadata);
    for actor in others.into_iter().chain([Actor::SUPERUSER, server]) {
        assert!(IdentityGuard::on_link(actor).unwrap().is_none(), "{actor:?}");
    }
}

#[test]
fn elevated_actor_resolves_no_path() {
    let (one, before) = (user(54_321), of_thread());
    let powers = ElevationReason::ALL.map(|elevated| Actor::elevate(&one, elevated));
    for actor in powers.into_iter().chain([Actor::server(ServerWork::OpenChecked)]) {
        assert_eq!(IdentityGuard::on_path(actor).err(), Some(FsError::AccessDenied), "{actor:?}");
        assert_eq!(of_thread(), before);
    }
    assert!(IdentityGuard::on_path(one.actor()).is_ok() || !may_switch());
    assert!(IdentityGuard::on_path(Actor::server(ServerWork::LocateNode)).is_ok());
}

const AT_REST: (u32, u32) = (Identity::POWERLESS_ID, Identity::POWERLESS_ID);

/// Runs `test` on a thread that rests without privileges.
fn at_rest(test: impl FnOnce() + Send + 'static) {
    if !may_switch() {
        return;
    }
    let thread = std::thread::spawn(|| {
        rest_without_power();
        test();
    });
    thread.join().unwrap();
}

fn assert_at_rest() {
    let (uid, gid, _) = of_thread();
    assert_eq!((uid, gid, held()), (AT_REST.0, AT_REST.1, CapabilitySet::empty()));
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
    assert_eq!(groups.trim(), "");
}

#[test]
fn resting_thread_has_no_privileges_between_guards() {
    let private = tempfile::NamedTempFile::new().unwrap();
    let path = private.path().to_owned();
    at_rest(move || {
        assert_at_rest();
        let denied = std::fs::read(&path).unwrap_err();
        assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
        drop(IdentityGuard::begin(user(54_321).actor()).unwrap());
        assert_at_rest();
        as_server(ServerWork::Metadata, || {
            assert_eq!(std::fs::read(&path).unwrap(), b"");
            Ok(())
        })
        .unwrap();
        assert_at_rest();
        let powers = IdentityGuard::on_names(NameActor::Granted(&user(54_321))).unwrap();
        drop(powers);
        assert_at_rest();
    });
}

#[test]
fn resting_thread_is_restored_after_keep_identity() {
    at_rest(|| {
        keep_identity(|| {
            drop(IdentityGuard::begin(user(54_321).actor()).unwrap());
            assert_eq!(of_thread().0, 54_321);
            as_server(ServerWork::Metadata, || Ok(())).unwrap();
            assert_eq!(of_thread().0, 0);
            let acting = IdentityGuard::begin(user(54_331).actor()).unwrap();
            as_server(ServerWork::Metadata, || Ok(())).unwrap();
            assert_eq!((of_thread().0, held()), (54_331, CapabilitySet::empty()));
            drop(acting);
        });
        assert_at_rest();
    });
}

/// The kernel lets a caller with CAP_FSETID keep set-user-ID bits across a write.
#[test]
fn write_to_open_file_is_unprivileged_except_for_root() {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    // This thread removes the file, because a resting thread has no permission to.
    let named = tempfile::NamedTempFile::new().unwrap();
    let (mut file, path) = (named.reopen().unwrap(), named.path().to_owned());
    at_rest(move || {
        let mut mode_after = |who: Actor<'_>| {
            as_server(ServerWork::Metadata, || {
                let mode = std::fs::Permissions::from_mode(0o6777);
                std::fs::set_permissions(&path, mode).unwrap();
                Ok(())
            })
            .unwrap();
            let acting = IdentityGuard::on_open_file(who, || false).unwrap();
            let uid = of_thread().0;
            file.write_all(b"data").unwrap();
            drop(acting);
            (uid, file.metadata().unwrap().permissions().mode() & 0o7777)
        };
        let one = user(54_321);
        assert_eq!(mode_after(one.actor()), (Identity::POWERLESS_ID, 0o777));
        let elevated = Actor::elevate(&one, ElevationReason::StoredData);
        assert_eq!(mode_after(elevated), (Identity::POWERLESS_ID, 0o777));
        assert_eq!(mode_after(Actor::SUPERUSER), (0, 0o6777));
    });
    named.close().unwrap();
}

#[test]
fn write_to_open_file_never_runs_as_another_user() {
    at_rest(|| {
        keep_identity(|| {
            drop(IdentityGuard::begin(user(54_321).actor()).unwrap());
            drop(IdentityGuard::on_open_file(user(54_331).actor(), || false).unwrap());
            assert_eq!(of_thread().0, 54_331);
        });
    });
}

#[test]
fn owner_of_directory_without_groups_gets_user_id_alone() {
    at_rest(|| {
        let one = user(54_321);
        let own = NameActor::Own(one.actor());
        keep_identity(|| {
            let acting = IdentityGuard::on_own_directory(own, || Some(54_321)).unwrap().unwrap();
            let (uid, gid, _) = of_thread();
            assert_eq!((uid, gid, held()), (54_321, AT_REST.1, CapabilitySet::empty()));
            as_server(ServerWork::Metadata, || Ok(())).unwrap();
            assert_eq!(of_thread().0, 54_321, "back from the server's own work");
            drop(acting);
            drop(IdentityGuard::begin(one.actor()).unwrap());
            assert_eq!((of_thread().0, of_thread().1), (54_321, 54_322), "with its groups again");
            assert!(
                IdentityGuard::on_own_directory(own, || Some(54_321)).unwrap().is_none(),
                "it has them"
            );
        });
        assert_at_rest();
    });
}

#[test]
fn user_id_alone_is_refused_to_all_but_ordinary_owner() {
    at_rest(|| {
        let (one, root) = (user(54_321), Actor::SUPERUSER);
        let invalid = Identity { uid: 1, gid: Identity::INVALID_ID, groups: vec![] };
        let others = [
            (NameActor::Own(one.actor()), Some(54_331)),
            (NameActor::Own(one.actor()), None),
            (NameActor::Granted(&one), Some(54_321)),
            (NameActor::Own(Actor::elevate(&one, ElevationReason::Attributes)), Some(54_321)),
            (NameActor::Own(Actor::server(ServerWork::Metadata)), Some(0)),
            (NameActor::Own(root), Some(0)),
            (NameActor::Own(invalid.actor()), Some(1)),
        ];
        for (actor, owner) in others {
            assert!(
                IdentityGuard::on_own_directory(actor, || owner).unwrap().is_none(),
                "{actor:?}"
            );
            assert_at_rest();
        }
    });
}
