"""Runs tests of Microsoft's file server suites. Arguments: `BUILT WORK REPORT SHARE SEED TESTS SERVERS...`.

BUILT has .NET and the compiled suites. SERVERS are addresses `SERVER,SECOND,CLIENT,SECOND`. The servers get
parts of the tests concurrently, because most tests wait. One of SHARE tests runs, chosen by SEED. TESTS are
comma-separated parts of names. The report has an outcome and a reason for each test.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading

SUITES = {
    "fsa": "MS-FSA_ServerTestSuite",
    "smb2": "MS-SMB2_ServerTestSuite",
    "smb2model": "MS-SMB2Model_ServerTestSuite",
}
# Tests that wait longer than the other tests of a share take.
SLOW = {"ResilientOpenScavengerTimer_ReconnectAfterTimeout", "ResilientOpenScavengerTimer_ReconnectBeforeTimeout"}
# The slowest test waits 1.5 times the maximum lifetime of a resilient open, 460 seconds.
TEST_SECONDS_MAX = 600
# Settings of the suites for the server: a workgroup, NTLM, not Windows.
PROPERTIES = {
    "DCServerComputerName": "",
    "AdminUserName": "root",
    "NonAdminUserName": "alice",
    "GuestUserName": "",
    "PasswordForAllUsers": "secret.0",
    "CompressedFileShare": "",
    "Platform": "NonWindows",
    # For a second logon the suite requires the mechanism in the server's last token. RFC 4178 4.2.2 specifies
    # it for the first token only.
    "UseServerGssToken": "false",
    "IsRequireMessageSigning": "false",
    "UnsupportedIoCtlCodes": "FSCTL_OFFLOAD_READ;FSCTL_OFFLOAD_WRITE;"
    "FSCTL_GET_INTEGRITY_INFORMATION;FSCTL_SET_INTEGRITY_INFORMATION",
    "FileShareSupportingIntegrityInfo": "",
    "ClusteredInfrastructureFileServerName": "",
    "InfrastructureRootShare": "",
    "DisableVerifySignature": "false",
    "VolumnClusterSize": "4",
    "ShareWithForceLevel2AndSOFS": "",
    "ShareWithoutForceLevel2WithSOFS": "",
    "ShareWithForceLevel2WithoutSOFS": "ShareForceLevel2",
}
PROPERTY = re.compile(r'(<Property name="([^"]+)"\s+value=")([^"]*)(")')
# The scripts in PowerShell also have a managed edition.
SCRIPTS = re.compile(r'xsi:type="powershell" name="ISutCommonControlAdapter" scriptdir="[^"]*"')
MANAGED = (
    'xsi:type="managed" name="ISutCommonControlAdapter" '
    'adaptertype="Microsoft.Protocols.TestSuites.FileSharing.Common.Adapter.SutCommonControlAdapter"'
)


def configure(built, folder, addresses):
    """Writes the suites' configuration for one server."""
    server, second, client, second_client = addresses.split(",")
    values = {
        **PROPERTIES,
        "SutComputerName": server,
        "SutIPAddress": server,
        # Without a server name its tests of domains do not apply.
        "DomainName": "",
        "CAShareServerName": server,
        "SutAlternativeIPAddress": second,
        "ClientNic1IPAddress": client,
        "ClientNic2IPAddress": second_client,
        "SharePath": rf"\\{server}\SMBBasic",
        # In the models of conflicts each of two clients uses its own address.
        "ScaleOutFileServerName": server,
        "ScaleOutFileServerIP1": server,
        "ScaleOutFileServerIP2": second,
    }

    def value(match):
        before, name, old, after = match.groups()
        return before + values.get(name, old) + after

    folder.mkdir(parents=True)
    # The suites search their files in the current directory.
    for suite in SUITES.values():
        (folder / f"{suite}.dll").symlink_to(built / f"bin/{suite}.dll")
    for path in built.glob("bin/*.ptfconfig"):
        text = PROPERTY.sub(value, path.read_text(encoding="utf-8-sig"))
        (folder / path.name).write_text(SCRIPTS.sub(MANAGED, text), encoding="utf-8")


class Host:
    """Starts the program that runs tests."""

    def __init__(self, built):
        self.bin = built / "bin"
        self.command = [built / "dotnet/dotnet", self.bin / "WptsHost.dll"]
        self.environment = {
            **os.environ,
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            "LD_LIBRARY_PATH": str(built / "ssl"),
        }

    def start(self, suite, *arguments, **options):
        command = [*self.command, self.bin / f"{SUITES[suite]}.dll", *arguments]
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, check=False, **options)

    def tests(self, suite):
        listed = self.start(suite, "list", stdout=subprocess.PIPE, text=True)
        return sorted(set(listed.stdout.split()))


def read_outcomes(path):
    outcomes = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        name, outcome, milliseconds, reason = line.split("\t", 3)
        reason = reason.split("===== Stack Trace")[0].strip()
        outcomes[name] = {"outcome": outcome, "seconds": int(milliseconds) / 1000, "reason": reason}
    return outcomes


def run_part(host, folder, suite, names, report):
    """Runs tests against one server. A hung test ends its process, and a new one continues with the next test."""
    left = set(names)
    path = folder / f"{suite}.outcomes"
    while left:
        arguments = [str(folder), str(path), str(TEST_SECONDS_MAX), *sorted(left)]
        with open(folder / f"{suite}.log", "a", encoding="utf-8") as log:
            host.start(suite, *arguments, cwd=folder, stdout=log, stderr=log)
        outcomes = read_outcomes(path)
        if not left & outcomes.keys():
            break
        left -= outcomes.keys()
    for name in names:
        none = {"outcome": "failed", "seconds": 0, "reason": "it did not run"}
        report[f"{suite}.{name}"] = read_outcomes(path).get(name, none)


def selected(host, share, seed, parts):
    """The tests of each suite that are to run."""
    chosen = {}
    for suite in SUITES:
        names = host.tests(suite)
        if parts:
            names = [name for name in names if any(part in f"{suite}.{name}" for part in parts)]
        if share > 1:
            names = [name for name in names if name not in SLOW]
            names = sorted(random.Random(seed).sample(names, max(1, len(names) // share)))
        chosen[suite] = names
    return chosen


def main(built, work, report_path, share, seed, parts, *servers):
    built, work = pathlib.Path(built).resolve(), pathlib.Path(work).resolve()
    host = Host(built)
    chosen = selected(host, int(share), seed, list(filter(None, parts.split(","))))
    report = {}

    def run_all(number, addresses):
        folder = work / str(number)
        configure(built, folder, addresses)
        for suite, names in chosen.items():
            run_part(host, folder, suite, names[number :: len(servers)], report)

    threads = [threading.Thread(target=run_all, args=arguments) for arguments in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(report_path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1, sort_keys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
