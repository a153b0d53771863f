// The dashboard: polls the API once a second, retains five minutes of samples and draws them, or the
// hour that the server retains. Names that clients chose are only set as text, never parsed as HTML.

import { Chart, HOUR, WINDOW, make } from "./charts.js";

const $ = (id) => document.getElementById(id);
const EVERY_MS = 1000;
/** Resources below /v1 of each poll. Traffic is split by share and operation only if "metrics" is among them. */
const ASKED = ["status", "metrics", "shares", "cache", "top", "features", "health", "refused-logons"];
/** Interval of the server's samples of the last hour. */
const HISTORY_EVERY_MS = 10_000;
/** Upper bounds of the latencies' buckets, in seconds; one more bucket counts longer ones. */
const BOUNDS = [25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 5e5, 1e6, 2.5e6, 5e6, 1e7].map((us) => us / 1e6);
/** Number of series with a name of their own; the others are summed. */
const NAMED = 5;

// ---- figures as text

const scaled = (value, step, units, places = 1) => {
  let at = 0;
  while (Math.abs(value) >= step * 0.9995 && at < units.length - 1) { value /= step; at++; }
  const digits = at === 0 ? (Math.abs(value) < 10 && value % 1 ? 1 : 0) : Math.abs(value) < 100 ? places : 0;
  return `${value.toFixed(digits).replace(/\.0$/, "")}${units[at]}`;
};
const bytes = (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
const perSecond = (value) => `${bytes(value)}/s`;
const count = (value) => scaled(value, 1000, ["", " k", " M", " G", " T"]);
const latency = (seconds) => seconds === undefined || seconds === null ? "–"
  : seconds < 1e-3 ? `${(seconds * 1e6).toFixed(0)} µs` : seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 1)} ms` : `${seconds.toFixed(2)} s`;
const duration = (seconds) => {
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${seconds} s`;
};

// ---- the API

let token = "";
const fragment = new URLSearchParams(location.hash.slice(1)).get("token");
if (fragment) {
  sessionStorage.setItem("token", fragment);
  history.replaceState(null, "", location.pathname);
}
token = sessionStorage.getItem("token") ?? "";

/** Sends a request; undefined for an unknown resource. Throws the server's description of the problem. */
async function ask(path, method = "GET", body) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10000) });
  if (answer.status === 401) throw new DOMException("the server refused the token", "NotAllowedError");
  if (answer.status === 404 && method === "GET") return undefined;
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.detail ?? answer.statusText);
  return data;
}

// ---- retained samples

const samples = []; // { time, pairs: Map of deltas, seconds, hits, credits }
let before; // the last answers
let paused = false;
let shown = {};

/** Counters of every share and operation: key → figures. */
function counters(status, metrics) {
  const pairs = new Map();
  if (!metrics) {
    pairs.set("\tall", { share: "", api: "all", ops: status.requests + status.nfs.operations, received: status.received_bytes, sent: status.sent_bytes, failed: 0, buckets: [], sum: 0 });
    return pairs;
  }
  for (const { share, apis } of metrics.shares) {
    for (const one of apis) {
      const api = `${one.protocol} ${one.api}`, key = `${share}\t${api}`;
      const sum = pairs.get(key) ?? { share, api, ops: 0, received: 0, sent: 0, failed: 0, buckets: [], sum: 0 };
      for (const [response, number] of Object.entries(one.responses)) {
        sum.ops += number;
        if (response !== "Success") sum.failed += number;
      }
      sum.received += one.ingress_bytes;
      sum.sent += one.egress_bytes;
      sum.sum += one.server_latency.sum_nanoseconds / 1e9;
      one.server_latency.buckets.forEach((number, at) => { sum.buckets[at] = (sum.buckets[at] ?? 0) + number; });
      pairs.set(key, sum);
    }
  }
  return pairs;
}

/** Increments between two polls. The counters of a restarted server begin at zero. */
function since(now, then) {
  const deltas = new Map();
  for (const [key, one] of now) {
    const old = then.get(key);
    const less = (a, b) => Math.max(0, a - (b ?? 0));
    const delta = { share: one.share, api: one.api, buckets: one.buckets.map((number, at) => less(number, old?.buckets[at])) };
    for (const name of ["ops", "received", "sent", "failed", "sum"]) delta[name] = less(one[name], old?.[name]);
    if (delta.ops || delta.received || delta.sent) deltas.set(key, delta);
  }
  return deltas;
}

/** Latency that the fraction `part` of all requests does not exceed. */
function quantile(buckets, part) {
  const all = buckets.reduce((sum, number) => sum + number, 0);
  if (!all) return undefined;
  let passed = 0;
  for (let at = 0; at < BOUNDS.length; at++) {
    const number = buckets[at] ?? 0, lower = at ? BOUNDS[at - 1] : 0;
    if (number && passed + number >= part * all) return lower + (BOUNDS[at] - lower) * (part * all - passed) / number;
    passed += number;
  }
  return BOUNDS.at(-1);
}

/** The server's samples of the last hour, in the form of `samples`. */
const hour = { samples: [], asked: 0, last: 0 };

/** Fetches what the server added to its history since the last time. */
async function followHistory() {
  if (performance.now() - hour.asked < HISTORY_EVERY_MS && hour.asked) return;
  const history = await ask(hour.last ? `/v1/history/${hour.last}` : "/v1/history");
  hour.asked = performance.now();
  if (!history) return;
  for (const { time_ms: ended, seconds, traffic, logons_failed: refused } of history.samples) {
    const pairs = new Map();
    for (const [at, ops, failed, received, sent, measured, sum] of traffic) {
      const [share, api] = history.series[at];
      pairs.set(`${share}\t${api}`, { share, api, ops, failed, received, sent, measured, sum: sum / 1e6 });
    }
    hour.samples.push({ time: ended / 1000, seconds, pairs, refused });
    hour.last = ended;
  }
  while (hour.samples.length && hour.samples[0].time < hour.last / 1000 - HOUR) hour.samples.shift();
}

const isHour = () => $("span").value === "hour";
/** The samples that the charts of the traffic show. */
const drawn = () => isHour() ? hour.samples : samples;

// ---- tables that keep their rows, and with them the focus

function keyed(body, items, keyOf, build) {
  const rows = new Map([...body.children].map((row) => [row.dataset.key, row]));
  let last = null;
  for (const item of items) {
    const key = keyOf(item);
    let row = rows.get(key);
    if (!row) {
      row = build(item);
      row.dataset.key = key;
    }
    rows.delete(key);
    const next = last ? last.nextElementSibling : body.firstElementChild;
    if (next !== row) body.insertBefore(row, next);
    row.update?.(item);
    last = row;
  }
  for (const row of rows.values()) row.remove();
}

/** Clients choose some names: invisible characters and those that change the direction of text are escaped. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function text(element, value) {
  const string = String(value).replace(unsafe, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  if (element.textContent !== string) element.textContent = string;
}

/** Sets a cell: a text, or a text and a second, dimmer line, `[text, line, class of the line]`. */
function fill(cell, value) {
  if (!Array.isArray(value)) return text(cell, value);
  const [main, line, kind = ""] = value;
  if (cell.childElementCount !== 2) cell.replaceChildren(make("span"), make("small", { class: kind }));
  text(cell.firstElementChild, main);
  text(cell.lastElementChild, line);
}

/** A table row whose cells are texts: `cells` gives them, see `fill`. The first one names the row. */
function row(cells, classes = []) {
  const element = make("tr");
  element.update = (item) => {
    const texts = cells(item);
    texts.forEach((value, at) => {
      let cell = element.cells[at];
      if (!cell) {
        cell = at === 0 ? make("th", { scope: "row" }) : make("td");
        if (classes[at]) cell.className = classes[at];
        element.append(cell);
      }
      fill(cell, value);
    });
  };
  return element;
}

// ---- actions

function confirmed(title, explanation, yes) {
  const dialog = $("ask"), opener = document.activeElement;
  text($("ask-title"), title);
  text($("ask-text"), explanation);
  text($("ask-yes"), yes);
  dialog.showModal();
  $("ask-no").focus();
  return new Promise((resolve) => {
    const settle = (answer) => () => { dialog.close(); resolve(answer); };
    $("ask-yes").onclick = settle(true);
    $("ask-no").onclick = settle(false);
    dialog.onclose = () => {
      resolve(false);
      if (opener?.isConnected) opener.focus();
      else $("main").focus();
    };
  });
}

async function change(path, method, done) {
  try {
    await ask(path, method);
    text($("said"), done);
    await look();
  } catch (error) {
    trouble(`The request failed: ${error.message}`);
  }
}

function trouble(what) {
  $("trouble").hidden = !what;
  text($("trouble"), what ?? "");
}

function button(label, name, act, kind = "quiet danger") {
  const element = make("button", { type: "button", class: kind, "aria-label": name }, label);
  element.addEventListener("click", act);
  return element;
}

async function closeSession({ id, user, channels }) {
  const from = channels[0]?.client ?? "nowhere";
  const sure = await confirmed("Close this session?", `All opens of ${user} from ${from} are closed. The client may log on again.`, "Close the session");
  if (sure) await change(`/v1/sessions/${id}`, "DELETE", `The session of ${user} is closed.`);
}

async function closeClient({ id, owner }) {
  const sure = await confirmed("Remove this NFS client?", `All opens and locks of ${owner} are released.`, "Remove the client");
  if (sure) await change(`/v1/nfs-clients/${id}`, "DELETE", `The NFS client ${owner} is removed.`);
}

async function cut({ connection, client }) {
  const sure = await confirmed("Cut this channel?", `The connection from ${client} is reset. The session continues on its other channels.`, "Cut the channel");
  if (sure) await change(`/v1/connections/${connection}`, "DELETE", `The channel from ${client} is cut.`);
}

// ---- sessions

const moved = new Map(); // connection → bytes at the last look

function rates(channel, seconds) {
  const old = moved.get(channel.connection);
  const of = (name) => old && seconds ? Math.max(0, channel[name] - old[name]) / seconds : 0;
  return { received: of("received_bytes"), sent: of("sent_bytes") };
}

const SESSION_COLUMNS = ["name", "name wide", "wide", "wide", "name wide", "n wide", "n", "n", "n wide"];

function sessionBody(session) {
  const body = make("tbody");
  const main = row((item) => item.cells, SESSION_COLUMNS);
  const close = make("td", { class: "n" }, button("Close", `Close the session of ${session.user}`, () => closeSession(body.item)));
  body.append(main);
  body.update = (item) => {
    body.item = item;
    main.update(item);
    if (!close.isConnected) main.append(close);
    const channels = item.channels.length > 1 || item.opens.length ? item.channels : [];
    keyed(channelRows, channels, (channel) => String(channel.connection), channelRow);
  };
  // Channels are rows of the same body, which offers `keyed` the interface of a parent.
  const channelRows = {
    get children() { return [...body.rows].slice(1); },
    get firstElementChild() { return body.rows[1] ?? null; },
    insertBefore: (element, next) => body.insertBefore(element, next),
  };
  return body;
}

function channelRow(channel) {
  const element = row((item) => [["channel", item.client, "narrow"], item.client, `${item.credits} credits`, item.server, "", "", perSecond(item.rates.received), perSecond(item.rates.sent), item.core ?? "–"], SESSION_COLUMNS);
  element.className = "channel";
  const update = element.update, act = make("td", { class: "n" }, button("Cut", `Cut the channel from ${channel.client}`, () => cut(channel)));
  element.update = (item) => { update(item); if (!act.isConnected) element.append(act); };
  return element;
}

function clientBody(client) {
  const body = make("tbody"), main = row((item) => item.cells, SESSION_COLUMNS);
  const close = make("td", { class: "n" }, button("Forget", `Remove the NFS client ${client.owner}`, () => closeClient(body.item)));
  body.append(main);
  body.update = (item) => { body.item = item; main.update(item); if (!close.isConnected) main.append(close); };
  return body;
}

function showSessions(status, seconds) {
  const smb = status.sessions.map((session) => {
    const channels = session.channels.map((channel) => ({ ...channel, rates: rates(channel, seconds) }));
    const total = (name) => perSecond(channels.reduce((sum, channel) => sum + channel.rates[name], 0));
    const cores = [...new Set(channels.map((channel) => channel.core ?? "–"))].join(", ");
    const from = channels.length > 1 ? `${channels.length} channels` : channels[0]?.client ?? "–";
    const protection = session.encrypted ? session.cipher : session.signing;
    const cells = [[session.user, [from, `SMB ${session.dialect}`, protection, ...session.shares, `${session.opens_total} open`].join(" · "), "narrow"], from, `SMB ${session.dialect}`, protection, session.shares.join(", "), session.opens_total, total("received"), total("sent"), cores];
    return { ...session, channels, cells, key: `smb ${session.id}`, build: sessionBody };
  });
  const nfs = status.nfs.clients.map((client) => {
    const tls = client.sessions.some((session) => session.tls_connections) ? "TLS" : "–";
    const calls = client.sessions.reduce((sum, session) => sum + session.calls, 0);
    const cells = [[client.owner, [client.client, "NFS 4", tls].join(" · "), "narrow"], client.client, "NFS 4", tls, `${count(calls)} calls`, client.states, "–", "–", "–"];
    return { ...client, cells, key: `nfs ${client.id}`, build: clientBody };
  });
  const table = $("session-table");
  const bodies = {
    get children() { return table.tBodies; },
    get firstElementChild() { return table.tBodies[0] ?? null; },
    insertBefore: (element, next) => table.insertBefore(element, next),
  };
  const all = [...smb, ...nfs];
  keyed(bodies, all, (item) => item.key, (item) => item.build(item));
  table.hidden = !all.length;
  $("sessions-none").hidden = all.length > 0;
  const more = status.sessions_total - status.sessions.length;
  text($("sessions-count"), `${status.sessions_total + status.nfs.clients_total}${more > 0 ? ` (${more} not shown)` : ""}`);
  moved.clear();
  for (const { channels } of status.sessions) for (const channel of channels) moved.set(channel.connection, channel);
}

// ---- traffic

const charts = {
  sent: new Chart({ title: "Sent to clients", format: perSecond, step: 1024, stacked: true, floor: 1024 }),
  received: new Chart({ title: "Received from clients", format: perSecond, step: 1024, stacked: true, floor: 1024 }),
  ops: new Chart({ title: "Operations per second", format: count, step: 1000, stacked: true, floor: 1 }),
  latency: new Chart({ title: "Latency in the server, mean", format: latency, step: 1000, floor: 1e-5 }),
};
for (const chart of Object.values(charts)) $("charts").append(chart.element);

const groupOf = (pair) => $("by").value === "api" ? pair.api : pair.share || (shown.metrics ? "(no share)" : "all shares");
const wanted = (pair) => $("only").value === "" || pair.share === $("only").value;

/** The groups with the most operations in the window; each keeps its colour. */
const colors = new Map();
function groups() {
  const totals = new Map();
  for (const { pairs } of drawn()) {
    for (const pair of pairs.values()) {
      if (wanted(pair)) totals.set(groupOf(pair), (totals.get(groupOf(pair)) ?? 0) + pair.ops + (pair.received + pair.sent) / 65536);
    }
  }
  const names = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, NAMED);
  for (const [name] of colors) if (!names.includes(name)) colors.delete(name);
  for (const name of names) {
    if (!colors.has(name)) colors.set(name, [0, 1, 2, 3, 4].find((color) => ![...colors.values()].includes(color)));
  }
  return { names: names.sort((a, b) => colors.get(a) - colors.get(b)), more: totals.size > NAMED };
}

function showTraffic() {
  const { names, more } = groups(), times = drawn().map((sample) => sample.time);
  const all = more ? [...names, "others"] : names;
  const series = Object.fromEntries(Object.keys(charts).map((chart) => [chart, all.map((name) => ({ name, color: colors.get(name) ?? 5, values: [] }))]));
  for (const { pairs, seconds } of drawn()) {
    const sums = all.map(() => ({ ops: 0, received: 0, sent: 0, sum: 0, measured: 0 }));
    for (const pair of pairs.values()) {
      if (!wanted(pair)) continue;
      const at = names.indexOf(groupOf(pair)), sum = sums[at < 0 ? all.length - 1 : at];
      for (const name of ["ops", "received", "sent", "sum"]) sum[name] += pair[name];
      sum.measured += pair.measured ?? pair.buckets.reduce((all, number) => all + number, 0);
    }
    sums.forEach((sum, at) => {
      for (const name of ["ops", "received", "sent"]) series[name][at].values.push(sum[name] / seconds);
      series.latency[at].values.push(sum.measured ? sum.sum / sum.measured : null);
    });
  }
  for (const [name, chart] of Object.entries(charts)) chart.update(times, series[name], undefined, isHour() ? HOUR : WINDOW);
  charts.latency.element.hidden = !shown.metrics;
  for (const element of document.querySelectorAll("#traffic .controls, #traffic details")) element.hidden = !shown.metrics;
}

/** Sums over the last `seconds` of the pairs that `choose` accepts. */
function recent(seconds, choose = () => true) {
  const end = samples.at(-1)?.time ?? 0, sums = new Map();
  let passed = 0;
  for (const sample of samples) {
    if (sample.time <= end - seconds) continue;
    passed += sample.seconds;
    for (const [key, pair] of sample.pairs) {
      if (!choose(pair)) continue;
      const sum = sums.get(key) ?? { share: pair.share, api: pair.api, ops: 0, received: 0, sent: 0, failed: 0, sum: 0, buckets: [] };
      for (const name of ["ops", "received", "sent", "failed", "sum"]) sum[name] += pair[name];
      pair.buckets.forEach((number, at) => { sum.buckets[at] = (sum.buckets[at] ?? 0) + number; });
      sums.set(key, sum);
    }
  }
  return { sums: [...sums.entries()].map(([key, sum]) => ({ key, ...sum })), seconds: passed || 1 };
}

function showApis() {
  const { sums, seconds } = recent(10, wanted);
  sums.sort((a, b) => b.ops - a.ops);
  keyed($("apis").tBodies[0], sums.slice(0, 40), (sum) => sum.key, () => row((sum) => {
    const number = sum.buckets.reduce((all, one) => all + one, 0);
    const share = sum.share || "(no share)";
    return [[sum.api, share, "narrow"], share, count(sum.ops / seconds), perSecond(sum.received / seconds), perSecond(sum.sent / seconds), latency(number ? sum.sum / number : undefined), latency(quantile(sum.buckets, 0.99)), count(sum.failed)];
  }, ["", "name wide", "n", "n wide", "n wide", "n wide", "n", "n wide"]));
}

/** Refused logons of the retained hour, and those since its last interval. */
let refusedAtInterval;
function refusedInHour({ logons_failed: all }) {
  const newest = hour.samples.at(-1)?.time;
  if (refusedAtInterval?.time !== newest) refusedAtInterval = { time: newest, all };
  const inHour = hour.samples.reduce((sum, { refused }) => sum + refused, 0);
  return inHour + Math.max(0, all - refusedAtInterval.all);
}

function showRefused({ items }, total) {
  const now = Date.now();
  keyed($("refused-table").tBodies[0], items, ({ user, address, reason }) => `${user}\t${address}\t${reason}`, () => row(({ user, address, reason, count: times, last_ms: last }) => [[user || "(no name)", `${address}: ${reason}`, "narrow"], address, reason, count(times), `${duration(Math.max(0, Math.round((now - last) / 1000)))} ago`], ["name", "name wide", "wide", "n", "n"]));
  none("refused-table", items.length);
  text($("refused-count"), total ? `${count(total)} since the start` : "");
}

function showTiles(status) {
  const { sums, seconds } = recent(3);
  const total = (name) => sums.reduce((sum, one) => sum + one[name], 0);
  const buckets = [];
  for (const sum of sums) sum.buckets.forEach((number, at) => { buckets[at] = (buckets[at] ?? 0) + number; });
  const cache = recentHits();
  const tiles = [
    ["Sent", perSecond(total("sent") / seconds)],
    ["Received", perSecond(total("received") / seconds)],
    ["Operations", `${count(total("ops") / seconds)}/s`],
    ...(shown.metrics ? [["Latency, 99 %", latency(quantile(buckets, 0.99))]] : []),
    ["Sessions", count(status.sessions_total + status.nfs.clients_total)],
    ["Open files", count(status.open_files)],
    ["Cache hits", cache === undefined ? "–" : `${(cache * 100).toFixed(1)} %`],
    ["Refused logons, 1 h", count(refusedInHour(status)), refusedInHour(status) ? "warn" : ""],
  ];
  keyed($("tiles"), tiles, ([name]) => name, ([name]) => {
    const value = make("dd"), tile = make("div", { class: "tile" }, make("dt", {}, name), value);
    tile.update = ([, figure, kind = ""]) => { text(value, figure); tile.className = `tile ${kind}`; };
    return tile;
  });
}

// ---- shares and their limits

function shareCard(share) {
  const state = make("span", { class: "pill" }), facts = make("dl"), where = make("p", { class: "where" });
  const iops = new Chart({ title: `Operations per second of ${share.name}`, shown: "Operations per second", format: count, step: 1000, stacked: true, low: true, floor: 1 });
  const credits = new Chart({ title: `Burst credits of ${share.name}`, shown: "Burst credits", format: count, step: 1000, low: true, floor: 1 });
  const card = make("article", { class: "card share" }, make("div", { class: "titled" }, make("h3", {}, share.name), state), where, facts, iops.element, credits.element);
  card.update = (item) => {
    const { limits } = item;
    text(where, [item.path, item.read_only ? "read only" : "", item.encryption_required ? "encrypted only" : "", item.nfs ? "NFS, too" : ""].filter(Boolean).join(" · "));
    const waiting = limits?.waiting ?? 0, throttled = throttledLately(item.name);
    text(state, !limits ? "served" : !limits.limited ? `${limits.class}, no limits` : waiting || throttled ? "throttled" : `${limits.class}, within limits`);
    state.className = `pill ${waiting || throttled ? "warn" : "good"}`;
    const rows = [];
    if (item.total_bytes !== null) rows.push(["Space", `${bytes(item.free_bytes)} free of ${bytes(item.total_bytes)}`]);
    if (limits?.limited) {
      const { iops: most, ingress, egress, bandwidth } = limits.share, { burst_iops: burst } = limits;
      if (most) rows.push(["Operations", `${count(most)}/s${burst ? `, bursts ${count(burst)}/s` : ""}`]);
      const flows = [ingress && `in ${perSecond(ingress)}`, egress && `out ${perSecond(egress)}`, bandwidth && `both ${perSecond(bandwidth)}`].filter(Boolean);
      if (flows.length) rows.push(["Throughput", flows.join(", ")]);
      const reasons = Object.entries(limits.throttled).filter(([, number]) => number).map(([reason, number]) => `${reason} ${count(number)}`);
      rows.push(["Throttled", reasons.length ? `${reasons.join(", ")}; ${waiting} waiting now` : "never"]);
      if (limits.credits) rows.push(["Credits", `${count(limits.credits.available)} of ${count(limits.credits.max)}, ${limits.credits.state}`]);
    }
    keyed(facts, rows.flatMap(([name, value]) => [["dt", name, name], ["dd", name, value]]), ([kind, name]) => `${kind} ${name}`, ([kind]) => {
      const element = make(kind);
      element.update = ([, , value]) => text(element, value);
      return element;
    });
    const of = (pick) => samples.map((sample) => pick(sample));
    const times = samples.map((sample) => sample.time);
    const rate = (sample) => [...sample.pairs.values()].reduce((sum, pair) => sum + (pair.share === item.name ? pair.ops : 0), 0) / sample.seconds;
    iops.element.hidden = !shown.metrics;
    if (shown.metrics) iops.update(times, [{ name: "operations", color: 0, values: of(rate) }], limits?.share.iops ?? undefined);
    credits.element.hidden = !limits?.credits;
    if (limits?.credits) credits.update(times, [{ name: "credits", color: 2, values: of((sample) => sample.credits.get(item.name)) }]);
  };
  return card;
}

function throttledLately(name) {
  const last = samples.at(-1)?.throttled.get(name) ?? 0, first = samples.at(-6)?.throttled.get(name) ?? last;
  return last > first;
}

// ---- caches, features, health, top

function recentHits(key) {
  const first = samples[0]?.hits, last = samples.at(-1)?.hits;
  if (!first || !last) return undefined;
  let hits = 0, all = 0;
  for (const [name, [hit, miss]] of last) {
    if (key !== undefined && name !== key) continue;
    const [oldHit, oldMiss] = first.get(name) ?? [0, 0];
    hits += Math.max(0, hit - oldHit);
    all += Math.max(0, hit - oldHit) + Math.max(0, miss - oldMiss);
  }
  return all ? hits / all : undefined;
}

function showCaches(cache) {
  const body = $("cache-table").tBodies[0];
  keyed(body, cache, ({ share, kind }) => `${share}\t${kind}`, () => {
    const element = make("tr"), cells = [make("th", { scope: "row" }), make("td"), make("td"), make("td", { class: "n wide" }), make("td", { class: "n wide" })];
    const meter = make("meter", { min: 0, max: 1, value: 0 }), figure = make("span", { class: "n" });
    cells[2].append(make("div", { class: "rate" }, meter, figure));
    element.append(...cells);
    element.update = ({ share, kind, hits, misses, bytes: memory }) => {
      const rate = recentHits(`${share}\t${kind}`);
      text(cells[0], share);
      text(cells[1], kind);
      meter.value = rate ?? 0;
      meter.setAttribute("aria-label", `Hits of ${kind} on ${share}`);
      text(figure, rate === undefined ? "–" : `${(rate * 100).toFixed(1)} %`);
      text(cells[3], count(hits + misses));
      text(cells[4], bytes(memory));
    };
    return element;
  });
  none("cache-table", cache.length);
}

const STATES = { Registering: ["going on", "warn"], Unregistering: ["going off", "warn"] };
const STANDS = { stable: ["on", "good"], preview: ["on, preview", "warn"], off: ["off", ""], unsupported: ["unsupported", ""] };

/** Rows of the features: shares in the same state have one row, but for those that can be switched. */
function featureRows(features) {
  return features.flatMap(({ FeatureName: feature, FeatureState: stands, RegistrationState: state, Alias: alias, Shares: shares }) => {
    if (!shares.length) return [{ feature, shares: "all", share: "", state, stands, switched: false }];
    const all = shares.map((one) => ({ feature, shares: one.Share, share: one.Share, state: one.State, stands: one.FeatureState, switched: alias !== null }));
    const isOne = all.every((one) => !one.switched && one.state === all[0].state && one.stands === all[0].stands);
    return isOne ? [{ ...all[0], share: "", shares: all.length > 1 ? "all" : all[0].shares }] : all;
  });
}

/** True for what an administrator would not expect: a preview that is on, a change, a switched-off feature. */
const isUnusual = ({ state, stands, switched }) => state.endsWith("ing") || stands === "preview" || (switched && state !== "Registered");

function featureRow(first) {
  const pill = make("span", { class: "pill" }), element = make("tr", {}, make("th", { scope: "row" }, first.feature, make("small", { class: "narrow" }, first.shares)), make("td", { class: "name wide" }, first.shares), make("td", {}, pill));
  const act = button("", "", async () => {
    const { feature, share, state } = element.item, on = state !== "Registered";
    const path = `/v1/features/${encodeURIComponent(feature)}/${encodeURIComponent(share)}`;
    const sure = await confirmed(on ? "Switch it on?" : "Switch it off?", `${feature} on the share ${share}, until the server ends.`, on ? "Switch on" : "Switch off");
    if (sure) await change(path, on ? "PUT" : "DELETE", `${feature} is ${on ? "on" : "off"} for ${share}.`);
  }, "quiet");
  element.append(make("td", { class: "n" }, first.share && first.switched ? act : ""));
  element.update = (item) => {
    element.item = item;
    const [name, kind] = item.state.endsWith("ing") ? STATES[item.state] : STANDS[item.stands] ?? [item.stands, ""];
    text(pill, name);
    pill.className = `pill ${kind}`;
    const verb = item.state === "Registered" ? "Switch off" : "Switch on";
    text(act, verb);
    act.setAttribute("aria-label", `${verb} ${item.feature} for ${item.share}`);
  };
  return element;
}

function showFeatures(features) {
  const rows = featureRows(features), key = ({ feature, shares }) => `${feature}\t${shares}`;
  const unusual = rows.filter(isUnusual);
  keyed($("unusual").tBodies[0], unusual, key, featureRow);
  $("unusual").hidden = !unusual.length;
  $("unusual").closest(".card").querySelector(".none").hidden = unusual.length > 0;
  keyed($("features").tBodies[0], rows.filter((one) => !isUnusual(one)), key, featureRow);
  text($("features-summary"), `${rows.length - unusual.length} others`);
}

function showHealth({ checks }) {
  const kinds = { ok: "good", warning: "warn", failing: "bad" };
  keyed($("checks"), checks, ({ name }) => name, () => {
    const state = make("span", { class: "pill" }), name = make("b"), what = make("span"), element = make("li", {}, state, name, what);
    element.update = (check) => {
      text(state, check.state);
      state.className = `pill ${kinds[check.state]}`;
      text(name, check.name);
      text(what, check.text);
    };
    return element;
  });
}

function none(table, length) {
  $(table).hidden = !length;
  $(table).closest(".card").querySelector(".none").hidden = length > 0;
}

/** The last part of a path, and where it is. */
function fileName(share, path) {
  const at = path.lastIndexOf("/");
  return [path.slice(at + 1) || "(the share itself)", at < 0 ? share : `${share}/${path.slice(0, at)}`, ""];
}

function showTop(top) {
  const files = top.files ?? [];
  keyed($("top-files").tBodies[0], files, ({ share, name }) => `${share}\t${name}`, () => row(({ share, name, requests, bytes: all }) => [fileName(share, name), count(requests), bytes(all)], ["path", "n", "n"]));
  none("top-files", files.length);
  $("top-files").closest(".card").hidden = !top.files;
  keyed($("top-clients").tBodies[0], top.clients, ({ address, user, protocol }) => `${address}\t${user}\t${protocol}`, () => row(({ address, user, protocol, received_bytes: received, sent_bytes: sent }) => [[user || address, `${address} · ${protocol.toUpperCase()}`, ""], bytes(received), bytes(sent)], ["path", "n", "n"]));
  none("top-clients", top.clients.length);
}

function showHead(status, health) {
  document.title = `${status.name} – Anabranch`;
  text($("server-name"), status.name);
  const state = $("state"), drained = status.drain !== "serving";
  text(state, drained ? status.drain : health.state === "ok" ? "healthy" : health.state);
  state.className = `pill ${drained || health.state === "warning" ? "warn" : health.state === "ok" ? "good" : "bad"}`;
  text($("facts"), `version ${status.version}, up for ${duration(status.uptime_seconds)}`);
}

// ---- polling

function remember(answers, now) {
  const { status, metrics, shares, cache } = answers;
  const pairs = counters(status, metrics);
  const seconds = before ? (now - before.now) / 1000 : 0;
  if (before && seconds > 0) {
    const of = (pick) => new Map(shares.items.map((share) => [share.name, pick(share.limits)]));
    samples.push({
      time: now / 1000,
      seconds,
      pairs: since(pairs, before.pairs),
      hits: new Map(cache.items.map(({ share, kind, hits, misses }) => [`${share}\t${kind}`, [hits, misses]])),
      credits: of((limits) => limits?.credits?.available),
      throttled: of((limits) => Object.values(limits?.throttled ?? {}).reduce((sum, number) => sum + number, 0)),
    });
    while (samples.length && samples[0].time < now / 1000 - WINDOW) samples.shift();
  }
  before = { now, pairs };
  return seconds;
}

function showOnly(shares) {
  const select = $("only"), names = shares.items.map((share) => share.name);
  if (names.join("\n") === select.dataset.names) return;
  select.dataset.names = names.join("\n");
  const chosen = select.value;
  select.replaceChildren(make("option", { value: "" }, "all shares"), ...names.map((name) => make("option", { value: name }, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

function show() {
  const { status, shares, cache, top, features, health, seconds } = shown;
  showHead(status, health);
  showOnly(shares);
  showTiles(status);
  showTraffic();
  showApis();
  showSessions(status, seconds);
  keyed($("share-list"), shares.items, ({ name }) => name, shareCard);
  showCaches(cache.items);
  showTop(top);
  showFeatures(features);
  showHealth(health);
  showRefused(shown["refused-logons"], status.logons_failed);
}

let looking;
function look() {
  looking ??= lookOnce().finally(() => { looking = undefined; });
  return looking;
}

async function lookOnce() {
  const names = ASKED;
  try {
    const data = await Promise.all(names.map((name) => ask(`/v1/${name}`)));
    await followHistory();
    const answers = Object.fromEntries(names.map((name, at) => [name, data[at]]));
    const seconds = remember(answers, performance.timeOrigin + performance.now());
    shown = { ...answers, seconds };
    $("door").hidden = true;
    $("figures").hidden = false;
    trouble();
    show();
  } catch (error) {
    if (error.name === "NotAllowedError") return lockOut();
    text($("state"), "not reached");
    $("state").className = "pill bad";
    trouble("The server does not respond; this page retries.");
  }
}

function lockOut() {
  if (token) text($("door-wrong"), "The server refused this token.");
  sessionStorage.removeItem("token");
  token = "";
  $("figures").hidden = true;
  $("door").hidden = false;
  text($("state"), "locked");
  $("token").focus();
}

$("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  // Other characters are not permitted in a header.
  if (!/^[\x21-\x7e]+$/.test(token)) { text($("door-wrong"), "A token has no spaces and only ASCII characters."); return; }
  $("token").value = "";
  sessionStorage.setItem("token", token);
  text($("door-wrong"), "");
  look();
});

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
});

for (const id of ["span", "by", "only"]) $(id).addEventListener("change", () => { showTraffic(); showApis(); });

// ---- light and dark

const theme = $("theme");
const setTheme = (name) => {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
};
theme.value = localStorage.getItem("theme") ?? "";
setTheme(theme.value);
theme.addEventListener("change", () => {
  localStorage.setItem("theme", theme.value);
  setTheme(theme.value);
});

async function run() {
  for (;;) {
    const begun = performance.now();
    if (token && !paused) await look();
    const rest = EVERY_MS - (performance.now() - begun);
    await new Promise((resolve) => setTimeout(resolve, Math.max(50, rest)));
  }
}

if (!token) lockOut();
run();
