//! The first user from the environment, as containers set it.

use crate::support::client::{LOGON_FAILURE, RawSmbClient, SUCCESS};
use crate::support::{ServerProcess, Setup, anabranch_by, text, user};

/// A server without users of its command line, with the variables of a container.
fn setup_with(name: &str, password: &str) -> Setup {
    let mut setup = Setup::new();
    setup.arguments.clear();
    let file = setup.folder.path().join("password");
    std::fs::write(&file, password).unwrap();
    setup.launcher = vec![
        "env".into(),
        format!("ANABRANCH_USER={name}"),
        format!("ANABRANCH_PASSWORD_FILE={}", file.display()),
    ];
    setup
}

#[test]
fn first_user_comes_from_the_environment_and_stays() {
    let mut server = setup_with(&user(), "from a secret\n").start();
    let log_on = |server: &ServerProcess, password: &str| {
        let mut client = RawSmbClient::connect(server.smb);
        client.negotiate();
        client.log_on(&user(), password)
    };
    assert_eq!(log_on(&server, "from a secret"), SUCCESS);
    let log = server.logged("first user created from ANABRANCH_USER");
    assert!(!log.contains("secret"), "{log}");
    assert!(!server.printed.contains("password"), "{}", server.printed);
    // A changed secret does not overwrite a password that the user may have changed since.
    let again = server.kill();
    std::fs::write(again.folder.path().join("password"), "another").unwrap();
    let server = again.start();
    assert_eq!(log_on(&server, "another"), LOGON_FAILURE);
    assert_eq!(log_on(&server, "from a secret"), SUCCESS);
}

#[test]
fn user_without_password_file_prevents_the_start() {
    let setup = setup_with("alice", "");
    let config = setup.folder.path().join("config.toml");
    std::fs::write(&config, setup.config()).unwrap();
    // A server that starts would run for ever.
    let mut command = anabranch_by("timeout", &["20"]);
    command.env("ANABRANCH_USER", "alice").args(["serve", "--config"]).arg(&config);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(error.contains("also set ANABRANCH_PASSWORD_FILE"), "{error}");
    assert!(!setup.folder.path().join("users.toml").exists(), "no user was created");
}
