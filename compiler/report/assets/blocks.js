// The tokens of a sequence in blocks, of which only those near the visible part are filled.

const BLOCK_TOKENS = 200;
const LINE_PX = 27;
const CHIP_PX = 62; // about; a block that was filled once knows its height

// Blocks begin where turns and images do, and after every so many tokens.
function blockBounds(model) {
  const starts = new Set([0]);
  for (const [start] of model.about.turns) starts.add(start);
  for (const { start } of model.about.images) if (start < model.size) starts.add(start);
  const sorted = [...starts].sort((one, other) => one - other);
  const bounds = [];
  sorted.forEach((start, number) => {
    const end = sorted[number + 1] ?? model.size;
    for (let at = start; at < end; at += BLOCK_TOKENS) bounds.push([at, Math.min(at + BLOCK_TOKENS, end)]);
  });
  return bounds;
}

class Blocks {
  constructor(model, scroller) {
    this.model = model;
    this.scroller = scroller;
    this.turns = new Map(model.about.turns.map((turn) => [turn[0], turn]));
    this.images = model.about.images;
    this.all = blockBounds(model).map(([start, end]) => this.emptyBlock(start, end));
    scroller.append(...this.all.map((block) => block.element));
    const byElement = new Map(this.all.map((block) => [block.element, block]));
    this.observer = new IntersectionObserver(
      (entries) => entries.forEach((entry) => this.seen(byElement.get(entry.target), entry.isIntersecting)),
      { root: scroller, rootMargin: "600px 0px" },
    );
    for (const block of this.all) this.observer.observe(block.element);
  }

  emptyBlock(start, end) {
    const made = element("div", "block");
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", `tokens ${start} to ${end - 1}`);
    const perLine = Math.max(1, Math.floor(Math.max(this.scroller.clientWidth, 300) / CHIP_PX));
    made.style.minHeight = `${Math.ceil((end - start) / perLine) * LINE_PX}px`;
    return { start, end, element: made, isFilled: false };
  }

  seen(block, isNear) {
    if (isNear) this.fill(block);
    else if (block.isFilled && !block.element.contains(document.activeElement)) this.clear(block);
  }

  fill(block) {
    if (block.isFilled) return;
    const content = [];
    const turn = this.turns.get(block.start);
    if (turn) content.push(turnHeading(turn));
    for (const image of this.images) if (image.start === block.start) content.push(figureOf(image));
    const chips = element("div", "chips");
    for (let at = block.start; at < block.end; at += 1) {
      chips.append(chip(this.model, at));
      if (report.texts && textOf(this.model.ids[at])?.includes("\n")) chips.append(document.createElement("br"));
    }
    content.push(chips);
    block.element.style.minHeight = "";
    block.element.replaceChildren(...content);
    block.isFilled = true;
  }

  clear(block) {
    const height = block.element.offsetHeight;
    if (!height) return; // it is not drawn at all just now
    block.element.style.minHeight = `${height}px`;
    block.element.replaceChildren();
    block.isFilled = false;
  }

  blockOf(at) {
    return this.all.find((block) => at < block.end);
  }

  // The chip of a token, made if it is not there.
  chipAt(at) {
    const block = this.blockOf(at);
    this.fill(block);
    return block.element.querySelectorAll(".token")[at - block.start];
  }
}

function turnHeading([start, sampled, end, title, known]) {
  const amounts = `${(sampled - start).toLocaleString("en")} of context, ${(end - sampled).toLocaleString("en")} sampled`;
  return element("div", "turn", element("b", "", title), element("span", "", amounts), element("small", "", known));
}

function figureOf({ picture, mime, start, length }) {
  const image = element("img", "");
  image.alt = `image at tokens ${start} to ${start + length - 1}`;
  image.src = `data:${mime};base64,${document.getElementById(`image-${picture}`).textContent}`;
  return element("figure", "image", image, element("figcaption", "", `${length} tokens from ${start}`));
}
