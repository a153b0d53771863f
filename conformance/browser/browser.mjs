// Controls the system's headless Chromium. Pages may send requests to their own host only.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";

const PATIENCE = 30_000;

/// Starts Chromium and passes it to `work`; closes it when `work` ends or throws.
export async function withBrowser(work) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // The sandbox does not start as root. The browser opens pages of this project only.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath, args, timeout: PATIENCE });
  try {
    return await work(browser);
  } finally {
    await browser.close();
  }
}

/// Opens a page, and fails if it logs an error, throws, or sends a request to another origin.
export async function openPage(browser, url, { width = 1280, height = 900, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("pageerror", (error) => faults.push(`thrown: ${error}`));
  page.on("console", (said) => said.type() === "error" && faults.push(`said: ${said.text()}`));
  const own = new URL(url);
  page.on("request", (request) => {
    const asked = new URL(request.url());
    const isOwn = asked.protocol === "data:" || (asked.protocol === own.protocol && asked.host === own.host);
    if (!isOwn) faults.push(`asked for ${asked.href}`);
  });
  await page.goto(url);
  return { page, faults };
}

/// Fails if content exceeds the right edge of the page, so that users would have to scroll.
export async function assertNothingIsCutOff(page) {
  const [content, window] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  assert.ok(content <= window, `the page is ${content} wide in a window of ${window}`);
}
