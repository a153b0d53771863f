// Tests the dashboard like a user. `conformance/dashboard` starts a server with load.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { assertNothingIsCutOff, openPage, withBrowser } from "./browser.mjs";

const { ADMIN, BINARY, METRICS_TOKEN, PICTURES, SMB, TOKEN } = process.env;
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

/** A refused logon is seen as a figure and in a table, with the name as text; the API says the same. */
async function refusals(page) {
  const name = "<b>eve";
  const before = number(await tile(page, "Refused logons, 1 h"));
  const failed = spawnSync(BINARY, ["probe", `smb://${name}@${SMB}/data`], { env: { ...process.env, ANABRANCH_PASSWORD: "wrong" }, timeout: 20000 });
  assert.notEqual(failed.status, 0, "a wrong password is refused");
  const row = page.locator("#refused-table tbody tr", { hasText: name });
  await row.waitFor();
  assert.match(await row.innerText(), /127\./);
  await eventually("the figure", async () => number(await tile(page, "Refused logons, 1 h")) > before);
  assert.match(await page.locator(".tile.warn").innerText(), /Refused logons/);
  const { items } = await api("/v1/refused-logons");
  assert.equal(items[0].user, name);
}

/** The charts show the hour that the server retains, also to a page that was just opened. */
async function hour(page) {
  await eventually("three intervals of the server", async () => (await api("/v1/history")).samples.length >= 3);
  await page.reload();
  await page.getByRole("heading", { name: "Traffic" }).waitFor();
  await page.locator("#span").selectOption("hour");
  const chart = page.locator(".chart", { has: page.getByRole("heading", { name: "Sent to clients", exact: true }) }).first();
  await eventually("the hour's traffic", async () => (await chart.locator("path").first().getAttribute("d"))?.split("L").length > 4);
  const { series, samples } = await api("/v1/history");
  const sent = samples.flatMap(({ traffic }) => traffic).filter(([at]) => series[at][0] === "data").reduce((sum, one) => sum + one[4], 0);
  assert.ok(sent > 0, "the load's reads are in the history");
  await page.locator("#span").selectOption("minutes");
}

/**
 * In each table a column's header and cells share an edge: the right one for figures, the left one for
 * names. No table has to be scrolled at this width.
 */
async function columnsLineUp(page, where) {
  const faults = await page.evaluate(() => [...document.querySelectorAll("table")].filter((table) => table.offsetParent && table.tHead).flatMap((table) => {
    const edges = (cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const { left, right } = range.getBoundingClientRect();
      return { left, right };
    };
    const faults = [], box = table.closest(".scroll");
    if (box.scrollWidth > box.clientWidth + 1) faults.push(`${table.id} is ${box.scrollWidth} wide in ${box.clientWidth}`);
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => !row.classList.contains("channel"))) {
      [...row.cells].forEach((cell, at) => {
        const head = table.tHead.rows[0].cells[at];
        if (!head.offsetParent || !head.innerText.trim() || head.querySelector(".visually-hidden") || !cell.innerText.trim() || cell.querySelector(".rate, .pill")) return;
        const side = head.classList.contains("n") ? "right" : "left";
        const difference = Math.abs(edges(cell)[side] - edges(head)[side]);
        if (difference > 1.5) faults.push(`${table.id}, ${head.innerText}: ${difference} px beside ${cell.innerText}`);
      });
    }
    return faults;
  }));
  assert.deepEqual(faults, [], `columns, ${where}`);
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
  await page.locator("#features-summary").click();
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
    for (const summary of await page.locator("details summary").all()) if (await summary.isVisible()) await summary.click();
    await page.waitForTimeout(2500);
    await accessible(page, scheme);
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await back();
    await page.locator("#theme").selectOption(scheme === "light" ? "dark" : "light");
    assert.notEqual(await back(), before, "the switch does nothing");
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(300);
      await assertNothingIsCutOff(page);
      await columnsLineUp(page, `${width} px`);
      await accessible(page, `${scheme} switched over, ${width} px`);
      if (PICTURES) await page.screenshot({ path: `${PICTURES}/dashboard-${scheme === "light" ? "dark" : "light"}-${width}.png`, fullPage: true });
    }
    assert.deepEqual(faults, []);
    await page.context().close();
  }
}

async function screenshots(browser, folder) {
  for (const scheme of ["light", "dark"]) {
    const { page } = await openPage(browser, `${base}/#token=${TOKEN}`, { scheme, width: 1440, height: 1000 });
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
  await refusals(page);
  await keyboard(page);
  await hour(page);
  await themes(browser);
  await switching(page);
  await closing(page);
  assert.deepEqual(faults, []);
});
console.log("dashboard: done");
