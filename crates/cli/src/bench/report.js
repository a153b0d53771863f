// Offers each chart as a file: as SVG, and as PNG at twice its size.
"use strict";
const style = document.getElementById("chart-style").textContent;
const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/// The chart as a document of its own, with its styles included.
function alone(chart) {
  const copy = chart.cloneNode(true);
  const inner = document.createElementNS("http://www.w3.org/2000/svg", "style");
  inner.textContent = isDark() ? style.replace("prefers-color-scheme: dark", "min-width: 0") : style.split("@media")[0] + style.slice(style.indexOf(".chart text"));
  copy.prepend(inner);
  return new XMLSerializer().serializeToString(copy);
}

async function drawn(chart) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(alone(chart));
  await image.decode();
  const { width, height } = chart.viewBox.baseVal;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.drawImage(image, 0, 0, width, height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

for (const chart of document.querySelectorAll("svg[data-chart]")) {
  const name = chart.dataset.chart;
  const caption = chart.parentElement.querySelector("figcaption");
  const offer = (text, make) => {
    const link = document.createElement("a");
    [link.href, link.textContent] = ["#", text];
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      save(await make(), `${name}.${text.toLowerCase()}`);
    });
    caption.append(link);
  };
  offer("SVG", async () => new Blob([alone(chart)], { type: "image/svg+xml" }));
  offer("PNG", () => drawn(chart));
}
