#!/usr/bin/env python3
"""Creates accounts of a Samba domain directly in its database, since `samba-tool` takes a second for each.

domain_accounts.py SMB.CONF STEP...

user=NAME:PASSWORD          creates a user
service=NAME:SPN,SPN        creates a service account with AES keys only
groups=NAME,NAME:COUNT      creates groups with these users as members
script=NAME:CHARACTERS      sets a logon script with a long name, which enlarges every PAC of the user
sid=NAME                    prints the SID
"""

import os
import sys

from samba.auth import system_session
from samba.dcerpc import security
from samba.ndr import ndr_unpack
from samba.param import LoadParm
from samba.samdb import SamDB

# AES of 128 and 256 bits. MS-KILE 2.2.7.
AES = "24"


class Domain:
    def __init__(self, conf):
        parameters = LoadParm()
        parameters.load(conf)
        path = os.path.join(parameters.get("private dir"), "sam.ldb")
        self.database = SamDB(url=path, session_info=system_session(), lp=parameters)
        self.users = "CN=Users,%s" % self.database.domain_dn()

    def user(self, name, password):
        self.database.newuser(name, password)

    def service(self, name, principals):
        self.database.newuser(name, "Long.enough.0")
        self.replace(name, "msDS-SupportedEncryptionTypes", [AES])
        self.replace(name, "servicePrincipalName", principals.split(","))
        # The keys of these types come of the next password.
        self.database.setpassword("(sAMAccountName=%s)" % name, "Long.enough.1", False)

    def groups(self, names, count):
        members = ["CN=%s,%s" % (name, self.users) for name in names.split(",")]
        for number in range(int(count)):
            group = "group-%d" % number
            self.database.add({"dn": "CN=%s,%s" % (group, self.users), "objectClass": "group",
                               "sAMAccountName": group, "member": members})

    def script(self, name, characters):
        self.replace(name, "scriptPath", ["x" * int(characters)])

    def sid(self, name):
        found = self.database.search(expression="(sAMAccountName=%s)" % name, attrs=["objectSid"])
        print(ndr_unpack(security.dom_sid, found[0]["objectSid"][0]))

    def replace(self, name, attribute, values):
        lines = ["%s: %s" % (attribute, value) for value in values]
        head = ["dn: CN=%s,%s" % (name, self.users), "changetype: modify", "replace: " + attribute]
        self.database.modify_ldif("\n".join(head + lines) + "\n")


def main():
    domain = Domain(sys.argv[1])
    steps = [step.partition("=") for step in sys.argv[2:]]
    domain.database.transaction_start()
    for what, _, arguments in steps:
        getattr(domain, what)(*arguments.split(":", 1))
    domain.database.transaction_commit()


if __name__ == "__main__":
    main()
