// Tests the server with the JavaScript library v9u-smb2.
//
//   v9u-smb2.js HOST PORT SHARE USER PASSWORD DIALECT plain STRANGERS-PORT
//
// The library offers 2.0.2 and 2.1, and neither signs nor encrypts. The lane's relay checks the traffic
// at PORT. The logon with a wrong password uses STRANGERS-PORT.
"use strict";
const assert = require("node:assert/strict");
const SMB2 = require("v9u-smb2");

const ENTRIES = 5000;
const SIZE = 64 << 20;
const FOLDER = "v9u-smb2";
const NEEDLE = `${FOLDER}\\anabranch-needle`;
const UNICODE = "Grüße Ω 日本 😀";
const [host, port, share, username, password, , , strangersPort] = process.argv.slice(2);

function client(toPort, withPassword) {
  return new SMB2({
    share: `\\\\${host}\\${share}`,
    port: Number(toPort),
    domain: "WORKGROUP",
    username,
    password: withPassword,
    autoCloseTimeout: 0,
  });
}

const refused = (code, call) => assert.rejects(call, { code });

async function main() {
  const stranger = client(strangersPort, "wrong");
  await refused("STATUS_LOGON_FAILURE", stranger.readdir(""));
  stranger.disconnect();
  stranger.socket.destroy();

  const smb = client(port, password);
  const names = await smb.readdir("many");
  assert.equal(new Set(names).size, ENTRIES);
  assert.ok(names.includes("entry-0000-ä") && names.includes("entry-4999-ä"));
  await smb.mkdir(FOLDER);
  const data = Buffer.alloc(SIZE);
  for (let at = 0; at < SIZE; at += 4) data.writeUInt32LE((at * 7) >>> 0, at);
  await smb.writeFile(NEEDLE, data);
  assert.ok(data.equals(await smb.readFile(NEEDLE)), "other bytes came back");
  await smb.rename(NEEDLE, `${FOLDER}\\${UNICODE}`);
  assert.equal(await smb.getSize(`${FOLDER}\\${UNICODE}`), SIZE);
  assert.deepEqual(await smb.readdir(FOLDER), [UNICODE]);
  assert.equal(await smb.exists(NEEDLE), false);
  await refused("STATUS_OBJECT_NAME_NOT_FOUND", smb.readFile(NEEDLE));
  await refused("STATUS_OBJECT_PATH_NOT_FOUND", smb.readFile(`${FOLDER}\\no\\file`));
  await refused("STATUS_OBJECT_NAME_COLLISION", smb.mkdir(FOLDER));
  await refused("STATUS_OBJECT_NAME_COLLISION", smb.rename(`${FOLDER}\\${UNICODE}`, "many\\entry-0000-ä"));
  await refused("STATUS_ACCESS_DENIED", smb.readFile("denied"));
  await refused("STATUS_DIRECTORY_NOT_EMPTY", smb.rmdir(FOLDER));
  await smb.unlink(`${FOLDER}\\${UNICODE}`);
  await smb.rmdir(FOLDER);
  smb.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
