// Tests the server with the JavaScript library node-smb2.
//
//   node-smb2.js HOST PORT SHARE USER PASSWORD DIALECT plain STRANGERS-PORT
//
// The library offers 2.0.2 and 2.1, and neither signs nor encrypts; the flags of its AUTHENTICATE are
// zero. It reads one reply of a listing only, so it cannot list 5,000 names. The lane's relay checks
// the traffic at PORT. The logon with a wrong password uses STRANGERS-PORT.
"use strict";
const assert = require("node:assert/strict");
const path = require("node:path");
const smb2 = require("node-smb2").default;

const SIZE = 64 << 20;
const FOLDER = "node-smb2";
const UNICODE = "Grüße Ω 日本 😀";
const [host, port, share, username, password, , , strangersPort] = process.argv.slice(2);
const LOGON_FAILURE = 0xc000006d;
const COLLISION = 0xc0000035;
const NOT_FOUND = 0xc0000034;
const ACCESS_DENIED = 0xc0000022;
// The library prints a message at each logon.
console.log = () => {};

// By default the library uses NTLMv1.
const as = (withPassword) => ({ domain: "WORKGROUP", username, password: withPassword, forceNtlmVersion: "v2" });

async function refused(status, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.header && error.header.status >>> 0, status, String(error));
    return true;
  });
}

async function main() {
  const stranger = new smb2.Client(host, { port: Number(strangersPort) });
  await refused(LOGON_FAILURE, stranger.authenticate(as("wrong")));
  await stranger.close();

  const client = new smb2.Client(host, { port: Number(port) });
  const session = await client.authenticate(as(password));
  const tree = await session.connectTree(share);
  await tree.createDirectory(`/${FOLDER}`);
  const data = Buffer.alloc(SIZE);
  for (let at = 0; at < SIZE; at += 4) data.writeUInt32LE((at * 7) >>> 0, at);
  await tree.createFile(`/${FOLDER}/anabranch-needle`, data);
  assert.ok(data.equals(await tree.readFile(`/${FOLDER}/anabranch-needle`)), "other bytes came back");
  await tree.renameFile(`/${FOLDER}/anabranch-needle`, `${FOLDER}/${UNICODE}`);
  const entries = await tree.readDirectory(`/${FOLDER}`);
  const names = entries.map((entry) => path.posix.basename(entry.filename));
  assert.ok(names.includes(UNICODE), names.join());
  await refused(NOT_FOUND, tree.readFile(`/${FOLDER}/anabranch-needle`));
  await refused(ACCESS_DENIED, tree.readFile("/denied"));
  await refused(COLLISION, tree.createDirectory(`/${FOLDER}`));
  await tree.removeFile(`/${FOLDER}/${UNICODE}`);
  await tree.removeDirectory(`/${FOLDER}`);
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
