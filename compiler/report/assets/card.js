// The card with the numbers of a token: it follows the pointer and the keyboard; a click or Enter keeps it.

const card = document.getElementById("card");
const LAYERS_AT_ONCE = 6;
let shown = null; // the chip that the card is about
let pinned = null; // the same, if it was kept

function factsOf(model, at, allLayers) {
  const id = model.ids[at];
  const text = textOf(id);
  const turn = turnAt(model, at);
  const facts = [["token", `${at.toLocaleString("en")} of ${model.size.toLocaleString("en")}`], ["id", String(id)]];
  if (report.texts) facts.push(["text", text === null ? "unknown" : visible(text).replaceAll(" ", "␣")]);
  facts.push(["trained", model.trained[at] ? "yes" : "no"]);
  if (model.trained[at]) {
    const logprob = model.logprobs[at];
    facts.push(["logprob", shortNumber(logprob)], ["probability", Math.exp(logprob).toPrecision(3)]);
  }
  facts.push(["weights", versionAt(model, at) || "unknown"]);
  if (turn) facts.push([turn[3].split(" ")[0].toLowerCase(), turn[3].split(" ")[1]]);
  return [...facts, ...routingFacts(model, at, allLayers)];
}

function routingFacts(model, at, allLayers) {
  const { routing, parent } = model.about;
  if (!routing) return [];
  const facts = [];
  if (parent !== null && at < model.layers.length) {
    facts.push(["routed otherwise", `in ${model.layers[at]} of ${routing.layers} layers`]);
  }
  const row = rowAt(model, at);
  if (row === null) {
    const isLast = at === model.size - 1;
    return [...facts, ["experts", isLast ? "no row: nothing came after it" : "this row is not in the page"]];
  }
  const shown = allLayers ? row : row.slice(0, LAYERS_AT_ONCE);
  const lines = shown.map((experts, layer) => `layer ${layer}: ${experts.join(" ")}`);
  if (shown.length < row.length) lines.push(`${row.length - shown.length} more layers: click the token`);
  return [...facts, ["experts", lines.join("\n")]];
}

function showCard(made, keep = false) {
  if (pinned && pinned !== made && !keep) return;
  shown = made;
  pinned = keep ? made : pinned;
  const { model, at } = places.get(made);
  const list = element("dl", "");
  for (const [name, value] of factsOf(model, at, keep)) {
    list.append(element("div", "", element("dt", "", name), element("dd", "", value)));
  }
  card.replaceChildren(list);
  card.classList.toggle("kept", pinned === made);
  card.hidden = false;
  placeCard(made.getBoundingClientRect());
}

// Below the token where there is room, else above it; never over the edge.
function placeCard(rect) {
  const { width, height } = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(rect.left, document.documentElement.clientWidth - width - 8));
  const isRoomBelow = rect.bottom + height + 14 < window.innerHeight;
  const top = isRoomBelow ? rect.bottom + 6 : Math.max(8, rect.top - height - 6);
  card.style.left = `${left}px`;
  card.style.top = `${top}px`;
}

function hideCard(force = false) {
  if (pinned && !force) return;
  shown = null;
  pinned = null;
  card.hidden = true;
}

// After something scrolled: the card stays with its token, as long as that can be seen.
function followToken() {
  if (!shown) return;
  const { top, bottom } = shown.getBoundingClientRect();
  if (shown.isConnected && bottom > 0 && top < window.innerHeight) placeCard(shown.getBoundingClientRect());
  else hideCard(true);
}
for (const event of ["scroll", "resize"]) window.addEventListener(event, followToken, { passive: true });

document.addEventListener("pointerover", (event) => {
  const made = event.target.closest?.(".token");
  if (made && places.has(made)) showCard(made);
  else if (!event.target.closest?.("#card")) hideCard();
});
document.addEventListener("click", (event) => {
  const made = event.target.closest?.(".token");
  if (made && places.has(made)) {
    const isKept = pinned === made;
    hideCard(true);
    showCard(made, !isKept);
  } else if (!event.target.closest?.("#card, .moves, .map")) hideCard(true);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideCard(true);
});
