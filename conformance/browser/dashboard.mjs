// Tests the dashboard like a user. `conformance/dashboard` starts a server with load.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { assertNothingIsCutOff, openPage, withBrowser } from "./browser.mjs";

const { ADMIN, TOKEN, METRICS_TOKEN } = process.env;
const base = `http://${ADMIN}`;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function api(path, method = "GET", token = TOKEN) {
  const answer = await fetch(base + path, { method, headers: { Authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 200, `${method} ${path}`);
  return answer.headers.get("content-type").startsWith("application/json") ? answer.json() : answer.text();
}

const tile = (page, name) => page.locator(".tile", { has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) }).locator("dd").innerText();

/** The number that a figure of the page shows. */
function number(text) {
  const [, figure, unit] = /^([\d.]+)\s*(\S*?)(\/s)?$/.exec(text.trim()) ?? assert.fail(`no figure: ${text}`);
  const units = { "": 1, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, k: 1e3, M: 1e6, G: 1e9 };
  assert.ok(unit in units, text);
  return Number(figure) * units[unit];
}

async function eventually(what, probe) {
  let last;
  for (let at = 0; at < 100; at++) {
    last = await probe();
    if (last) return last;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  assert.fail(`waited in vain for ${what}`);
}

async function accessible(page, where) {
  // By the debugger, because the page's policy forbids foreign scripts.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe });
  const { result } = await session.send("Runtime.evaluate", { expression: "axe.run(document, { resultTypes: ['violations'] }).then((found) => JSON.stringify(found.violations.map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? ''))])))", awaitPromise: true });
  assert.deepEqual(JSON.parse(result.value), [], `accessibility, ${where}`);
}

/** Without the token the page shows nothing and requests it; it also accepts it in the address. */
async function tokens(browser) {
  for (const token of ["", "wrong"]) {
    const answer = await fetch(`${base}/v1/status`, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
    assert.equal(answer.status, 401);
  }
  const { page, faults } = await openPage(browser, `${base}/`);
  await page.getByRole("textbox", { name: "Token" }).fill("wrong");
  await page.getByRole("button", { name: "Show the server" }).click();
  await page.getByText("The server refused this token.").waitFor();
  await accessible(page, "the door");
  await page.getByRole("textbox", { name: "Token" }).fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Traffic" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Traffic" }).waitFor();
  // The browser logs the expected refusal.
  assert.deepEqual(faults.filter((fault) => !fault.includes("401")), []);
  await page.context().close();
}

/** Figures change, and equal those of the API and the metrics. */
async function live(page) {
  assert.equal(new URL(page.url()).hash, "", "the token stays in the address");
  await eventually("traffic", async () => number(await tile(page, "Sent")) > 0);
  const seen = new Set();
  await eventually("figures that move", async () => seen.add(await tile(page, "Sent")).size > 2);
  const before = await api("/v1/status"), begun = performance.now();
  await page.waitForTimeout(4000);
  const after = await api("/v1/status"), seconds = (performance.now() - begun) / 1000;
  const real = (after.sent_bytes - before.sent_bytes) / seconds;
  const shown = number(await tile(page, "Sent"));
  assert.ok(shown > real / 4 && shown < real * 4, `${shown} B/s shown, ${real} B/s sent`);
  assert.equal(number(await tile(page, "Sessions")), after.sessions_total);
  const metrics = await api("/metrics", "GET", METRICS_TOKEN);
  const metric = (name) => Number(new RegExp(`^${name.replace(/[{}]/g, "\\$&")} (\\d+)$`, "m").exec(metrics)?.[1] ?? assert.fail(name));
  assert.equal(metric('anabranch_sessions{protocol="SMB"}'), after.sessions_total);
  assert.ok(metric("anabranch_sent_bytes_total") >= after.sent_bytes);
  for (const name of ["Sent to clients", "Operations per second"]) {
    // The first row is for all shares; each share has its own below.
    const chart = page.locator(".chart", { has: page.getByRole("heading", { name, exact: true }) }).first();
    const drawn = await chart.locator("path").first().getAttribute("d");
    assert.ok(drawn.length > 30, `${name}: nothing is drawn`);
    const label = await chart.locator("svg.plot").getAttribute("aria-label");
    assert.match(label, /\d/, name);
  }
}

/** The page cuts a channel and closes a session after a confirmation. */
async function closing(page) {
  const sessions = async () => (await api("/v1/sessions")).items;
  const victim = (await sessions())[0];
  const close = page.locator(`tbody[data-key="smb ${victim.id}"]`).getByRole("button", { name: /^Close the session/ });
  await close.click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.ok((await sessions()).some(({ id }) => id === victim.id), "it was left");
  await close.click();
  await page.getByRole("dialog").getByRole("button", { name: "Close the session" }).click();
  await eventually("the session's end", async () => !(await sessions()).some(({ id }) => id === victim.id));
  await page.getByRole("status").getByText("is closed").waitFor({ state: "attached" });
  await page.locator(`tbody[data-key="smb ${victim.id}"]`).waitFor({ state: "detached" });
  const other = (await sessions())[0], connection = other.channels[0].connection;
  await page.getByRole("button", { name: /^Cut the channel/ }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Cut the channel" }).click();
  await eventually("the channel's end", async () => !(await api("/v1/connections")).items.some(({ id }) => id === connection));
}

/** The page switches a feature and shows its new state. */
async function switching(page) {
  const off = page.getByRole("button", { name: "Switch off metadata-cache for media" });
  await off.click();
  await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
  await page.getByRole("button", { name: "Switch on metadata-cache for media" }).waitFor();
  const shares = (await api("/v1/features"))[0].Shares;
  assert.equal(shares.find(({ Share }) => Share === "media").State, "NotRegistered");
}

/** The keyboard reaches every control in order, and the focused one is highlighted. */
async function keyboard(page) {
  await page.reload();
  await page.getByRole("heading", { name: "Traffic" }).waitFor();
  const reached = [];
  for (let at = 0; at < 40; at++) {
    await page.keyboard.press("Tab");
    const [what, outline] = await page.evaluate(() => {
      const { activeElement: element } = document;
      // After the last control the focus leaves the page.
      if (element === document.body) return [""];
      return [element.id || element.getAttribute("aria-label") || element.textContent.trim(), getComputedStyle(element).outlineStyle];
    });
    if (!what) break;
    if (at > 0) assert.notEqual(outline, "none", `${what} does not show its focus`);
    reached.push(what);
  }
  for (const wanted of ["Skip to the figures", "Traffic", "pause", "theme"]) {
    assert.ok(reached.includes(wanted), `${wanted} was not reached: ${reached.join("; ")}`);
  }
  assert.ok(reached.some((name) => name.startsWith("Sent to clients")), "charts are read by keyboard, too");
  const chart = page.locator("svg.plot").first();
  await chart.focus();
  // Figures appear shortly after the page.
  await eventually("a figure of some seconds ago", async () => {
    await page.keyboard.press("ArrowLeft");
    return /s ago/.test(await page.locator(".chart .tip").first().innerText());
  });
}

async function themes(browser) {
  for (const scheme of ["light", "dark"]) {
    const { page, faults } = await openPage(browser, `${base}/#token=${TOKEN}`, { scheme });
    await page.getByRole("heading", { name: "Health" }).waitFor();
    if (await page.locator("details summary").isVisible()) await page.locator("details summary").click();
    await page.waitForTimeout(2500);
    await accessible(page, scheme);
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await back();
    await page.locator("#theme").selectOption(scheme === "light" ? "dark" : "light");
    assert.notEqual(await back(), before, "the switch does nothing");
    await page.setViewportSize({ width: 380, height: 800 });
    await page.waitForTimeout(300);
    await assertNothingIsCutOff(page);
    await accessible(page, `${scheme} switched over, narrow`);
    assert.deepEqual(faults, []);
    await page.context().close();
  }
}

async function screenshots(browser, folder) {
  for (const scheme of ["light", "dark"]) {
    const { page } = await openPage(browser, `${base}/#token=${TOKEN}`, { scheme, width: 1360, height: 1000 });
    await page.waitForTimeout(Number(process.env.SECONDS ?? 30) * 1000);
    await page.screenshot({ path: `${folder}/dashboard-${scheme}.png` });
    await page.screenshot({ path: `${folder}/dashboard-${scheme}-all.png`, fullPage: true });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${folder}/dashboard-${scheme}-narrow.png` });
    await page.context().close();
  }
}

await withBrowser(async (browser) => {
  const [option, folder] = process.argv.slice(2);
  if (option === "--screenshots") return screenshots(browser, folder);
  await tokens(browser);
  const { page, faults } = await openPage(browser, `${base}/#token=${TOKEN}`);
  await page.getByRole("heading", { name: "Traffic" }).waitFor();
  await live(page);
  await keyboard(page);
  await themes(browser);
  await switching(page);
  await closing(page);
  assert.deepEqual(faults, []);
});
console.log("dashboard: done");
