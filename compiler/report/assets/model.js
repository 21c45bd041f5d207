// What is known of the tokens of a sequence, unpacked when it is first asked for.

const report = JSON.parse(document.getElementById("report-data").textContent);
const versionNumbers = new Map(
  report.sequences
    .flatMap((sequence) => sequence.versions.map(([, version]) => version))
    .filter((version) => version)
    .map((version) => [version, 0]),
);
[...versionNumbers.keys()].forEach((version, number) => versionNumbers.set(version, number));

const knownIds = new Map();
const models = new Map();

// The ids of a sequence: those that it shares are stored with its parent, and so on upwards.
async function idsOf(index) {
  const missing = [];
  for (let at = index; !knownIds.has(at); at = report.sequences[at].parent) {
    missing.push(at);
    if (!report.sequences[at].shared) break;
  }
  for (const at of missing.reverse()) {
    const { size, shared, parent } = report.sequences[at];
    const ids = new Int32Array(size);
    if (shared) ids.set(knownIds.get(parent).subarray(0, shared));
    ids.set(await unpacked(`tokens-${at}`, Int32Array), shared);
    knownIds.set(at, ids);
  }
  return knownIds.get(index);
}

async function modelOf(index) {
  if (!models.has(index)) models.set(index, readModel(index));
  return models.get(index);
}

async function readModel(index) {
  const about = report.sequences[index];
  const [ids, ofTrained, layers, rows] = await Promise.all([
    idsOf(index),
    unpacked(`logprobs-${index}`, Float32Array),
    unpacked(`layers-${index}`, Uint8Array),
    unpacked(`rows-${index}`, Uint16Array),
  ]);
  const trained = new Uint8Array(about.size);
  const logprobs = new Float32Array(about.size);
  let at = 0;
  let seen = 0;
  for (const [isTrained, length] of about.segments) {
    if (isTrained) {
      trained.fill(1, at, at + length);
      logprobs.set(ofTrained.subarray(seen, seen + length), at);
      seen += length;
    }
    at += length;
  }
  return { index, about, size: about.size, ids, trained, logprobs, layers, rows };
}

// The last span that begins at or before a token; spans are [start, ...].
function spanAt(spans, at) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return spans[low - 1];
}

function versionAt(model, at) {
  return spanAt(model.about.versions, at)?.[1] ?? "";
}

function turnAt(model, at) {
  return spanAt(model.about.turns, at);
}

// The experts of token `at`, layer by layer; null where the row is not in the page or there is none.
function rowAt(model, at) {
  const { routing } = model.about;
  const size = routing ? routing.layers * routing.experts : 0;
  if (!size || (at + 1) * size > model.rows.length) return null;
  const row = model.rows.subarray(at * size, (at + 1) * size);
  return Array.from({ length: routing.layers }, (_, layer) => [
    ...row.subarray(layer * routing.experts, (layer + 1) * routing.experts),
  ]);
}

function textOf(id) {
  return report.texts ? (report.texts[id] ?? null) : null;
}

// Seven digits are what a float32 holds.
function shortNumber(value) {
  return String(Number(value.toPrecision(7)));
}
