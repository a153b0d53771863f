// Compares the report of `anabranch bench` in a browser with the JSON of the same run.
//   node report.mjs REPORT.html RESULT.json [SCREENSHOT-PREFIX]
import { withBrowser, openPage, assertNothingIsCutOff } from "./browser.mjs";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const MIB = 1_048_576;
/// The figure of a row that each chart shows.
const FIGURES = {
  throughput: (row) => row.bytes_per_second / MIB,
  rate: (row) => row.per_second,
  median: (row) => row.p50_us,
  p99: (row) => row.p99_us,
  "client-cpu": (row) => row.client_cpu_us,
  "server-cpu": (row) => row.server_cpu_us,
};

/// The drawn charts: position, label and colour of each mark.
const drawn = (page) =>
  page.evaluate(() =>
    Array.from(document.querySelectorAll("svg[data-chart]"), (chart) => ({
      name: chart.dataset.chart,
      box: chart.getBoundingClientRect().toJSON(),
      ground: getComputedStyle(chart.querySelector(".ground")).fill,
      ink: getComputedStyle(chart.querySelector(".title")).fill,
      texts: Array.from(chart.querySelectorAll("text"), (text) => text.getBoundingClientRect().toJSON()),
      marks: Array.from(chart.querySelectorAll(".mark"), (mark) => ({
        row: Number(mark.dataset.row),
        value: Number(mark.dataset.value),
        kind: mark.tagName,
        box: mark.getBoundingClientRect().toJSON(),
        colour: getComputedStyle(mark).fill,
      })),
    })),
  );

/// Checks that lengths of bars and heights of points are proportional to their figures.
function assertScale(chart) {
  const isBars = chart.marks[0].kind === "rect";
  const [first, second] = [...chart.marks].sort((one, other) => other.value - one.value);
  if (isBars) {
    const scale = first.box.width / first.value;
    for (const { box, value } of chart.marks) {
      assert.ok(Math.abs(box.width - value * scale) < 1, `${chart.name}: a bar of ${box.width} for ${value}`);
    }
  } else if (first.value > second.value * 1.02) {
    assert.ok(first.box.top < second.box.top, `${chart.name}: the larger figure is not the higher point`);
  }
}

function assertCharts(charts, rows) {
  const expected = Object.keys(FIGURES).filter((name) => rows.some((row) => FIGURES[name](row)));
  assert.deepEqual(charts.map((chart) => chart.name), expected);
  for (const chart of charts) {
    assert.ok(chart.box.width > 300 && chart.box.height > 60, `${chart.name} is ${JSON.stringify(chart.box)}`);
    assert.deepEqual(chart.marks.map((mark) => mark.row).sort((a, b) => a - b), rows.map((_, row) => row));
    for (const { row, value } of chart.marks) {
      const wanted = FIGURES[chart.name](rows[row]);
      assert.ok(Math.abs(value - wanted) <= 1e-9 * wanted, `${chart.name}, row ${row}: ${value} is not ${wanted}`);
    }
    assertScale(chart);
    for (const box of chart.texts) {
      const isInside = box.left >= chart.box.left - 1 && box.right <= chart.box.right + 1;
      assert.ok(isInside, `${chart.name}: a text lies beyond its edge`);
    }
  }
}

/// The visible text of the cells of the table.
async function assertTable(page, rows) {
  const heads = await page.locator("thead th").allTextContents();
  const cells = await page.locator("tbody tr").evaluateAll((all) =>
    all.map((one) => Array.from(one.cells, (cell) => cell.textContent)),
  );
  assert.equal(cells.length, rows.length);
  const columns = {
    "requests/s": (row) => row.per_second,
    "MiB/s": (row) => row.bytes_per_second / MIB,
    "p50 µs": (row) => row.p50_us,
    "p90 µs": (row) => row.p90_us,
    "p99 µs": (row) => row.p99_us,
    "p99.9 µs": (row) => row.p99_9_us,
    ratio: (row) => row.ratio,
    spread: (row) => row.spread * 100,
  };
  rows.forEach((row, at) => {
    assert.equal(cells[at][heads.indexOf("load")], row.load);
    assert.equal(cells[at][heads.indexOf("connections")], row.connection);
    for (const [head, figure] of Object.entries(columns)) {
      const text = cells[at][heads.indexOf(head)];
      const precision = figure(row) < 1000 ? 0.0501 : 0.501;
      assert.ok(Math.abs(parseFloat(text) - figure(row)) <= precision, `${head} of row ${at} is ${text}, not ${figure(row)}`);
    }
  });
}

/// Relative luminance of "rgb(r, g, b)". WCAG 2.2, "relative luminance".
function luminance(colour) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/// Checks contrast: text 4.5 to 1, marks nearly 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11; each mark also has its figure).
function assertReadable(charts) {
  for (const { name, ground, ink, marks } of charts) {
    assert.ok(contrast(ground, ink) >= 4.5, `${name}: ${ink} on ${ground}`);
    for (const { colour } of marks) assert.ok(contrast(ground, colour) >= 2.8, `${name}: ${colour} on ${ground}`);
  }
}

async function saved(page, text) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("figure").first().getByText(text, { exact: true }).click(),
  ]);
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
}

/// Checks that each chart can be saved as a picture at twice its size.
async function assertFiles(page) {
  const size = await page.locator("svg[data-chart]").first().evaluate(({ viewBox }) => [
    viewBox.baseVal.width,
    viewBox.baseVal.height,
  ]);
  const png = await saved(page, "PNG");
  assert.equal(png.bytes.subarray(1, 4).toString(), "PNG", png.name);
  assert.deepEqual([png.bytes.readUInt32BE(16), png.bytes.readUInt32BE(20)], size.map((side) => Math.trunc(2 * side)));
  const svg = await saved(page, "SVG");
  assert.match(svg.bytes.toString(), /^<svg [^]*<style[^]*<\/svg>$/);
  return png;
}

const [report, result, prefix] = process.argv.slice(2);
const json = JSON.parse(await readFile(result, "utf8"));
await withBrowser(async (browser) => {
  const grounds = new Set();
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 480]) {
      const { page, faults } = await openPage(browser, pathToFileURL(report).href, { width, scheme });
      const charts = await drawn(page);
      assertCharts(charts, json.summary);
      assertReadable(charts);
      await assertTable(page, json.summary);
      assert.deepEqual(JSON.parse(await page.locator("#data").textContent()), json);
      await assertNothingIsCutOff(page);
      if (width === 1280) {
        grounds.add(charts[0].ground);
        await assertFiles(page);
        if (prefix) await page.screenshot({ path: `${prefix}-${scheme}.png`, fullPage: true });
      }
      assert.deepEqual(faults, []);
      await page.context().close();
    }
  }
  assert.equal(grounds.size, 2, "light and dark look alike");
});
console.log(`${json.summary.length} rows are shown as they were measured`);
