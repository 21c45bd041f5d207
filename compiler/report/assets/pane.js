// A sequence's tokens with an overview above them and ways to move about by keyboard.

const panes = new Set();
let panesMade = 0;

class Pane {
  constructor(model) {
    this.model = model;
    this.active = 0;
    this.overview = element("canvas", "overview");
    this.overview.setAttribute("aria-hidden", "true");
    this.window = element("div", "window");
    this.scroller = element("div", "tokens");
    this.element = element(
      "div", "pane", this.moves(), element("div", "map", this.overview, this.window), this.scroller,
    );
    this.name = `pane-${(panesMade += 1)}`;
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "listbox");
    this.scroller.setAttribute("aria-label", `Tokens of ${model.about.id}; arrow keys move, Enter keeps the numbers`);
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("focus", () => this.scroller.matches(":focus-visible") && this.go(this.active));
    this.scroller.addEventListener("blur", () => this.leave());
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.overview.addEventListener("click", (event) => this.jump(event));
  }

  scrolled() {
    followToken();
    this.showWindow();
  }

  // Called when the element is in the page, for blocks are as high as it is wide.
  start() {
    this.blocks = new Blocks(this.model, this.scroller);
    panes.add(this);
    new ResizeObserver(() => this.draw()).observe(this.overview);
  }

  moves() {
    const field = element("input", "");
    Object.assign(field, { type: "number", min: 0, max: this.model.size - 1, value: 0 });
    const label = element("label", "", "Token ", field);
    field.addEventListener("change", () => this.show(Number(field.value)));
    const bar = element("div", "moves", label);
    const { turns } = this.model.about;
    bar.append(
      button("Previous turn", () => this.show((turns.findLast((turn) => turn[0] < this.active) ?? [0])[0])),
      button("Next turn", () => this.show((turns.find((turn) => turn[0] > this.active) ?? [this.model.size - 1])[0])),
      button("Next unlikely", () => this.show(this.nextUnlikely())),
    );
    const { parent, focus, shared } = this.model.about;
    if (parent !== null) bar.append(button("Where it parted", () => this.show(focus ?? shared)));
    return bar;
  }

  // The next trained token of a logprob below the lowest percent, at least one, in a ring.
  nextUnlikely() {
    const { trained, logprobs, size } = this.model;
    const of = logprobs.filter((_, at) => trained[at]).sort();
    if (!of.length) return this.active;
    const bound = of[Math.floor(of.length / 100)];
    for (let step = 1; step <= size; step += 1) {
      const at = (this.active + step) % size;
      if (trained[at] && logprobs[at] <= bound) return at;
    }
    return this.active;
  }

  // Brings a token to the middle of the pane and marks it; the page moves no more than it must.
  show(at) {
    const bounded = Math.max(0, Math.min(Math.trunc(at) || 0, this.model.size - 1));
    this.scroller.scrollTop = this.blocks.blockOf(bounded).element.offsetTop;
    const { top } = this.blocks.chipAt(bounded).getBoundingClientRect();
    const middle = this.scroller.getBoundingClientRect().top + this.scroller.clientHeight / 2;
    this.scroller.scrollTop += top - middle;
    this.go(bounded);
  }

  go(at) {
    const made = this.blocks.chipAt(at);
    this.leave();
    this.active = at;
    made.scrollIntoView({ block: "nearest" });
    made.classList.add("active");
    made.id = `${this.name}-active`;
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", "true");
    made.setAttribute("aria-label", factsOf(this.model, at, false).map((fact) => fact.join(" ")).join(", "));
    made.setAttribute("aria-posinset", at + 1);
    made.setAttribute("aria-setsize", this.model.size);
    this.scroller.setAttribute("aria-activedescendant", made.id);
    this.marked = made;
    hideCard(true);
    showCard(made);
  }

  leave() {
    this.marked?.classList.remove("active");
    this.marked?.removeAttribute("id");
    this.marked?.setAttribute("aria-selected", "false");
    this.scroller.removeAttribute("aria-activedescendant");
    this.marked = null;
  }

  key(event) {
    const { active, model } = this;
    const moves = {
      ArrowRight: () => Math.min(active + 1, model.size - 1),
      ArrowLeft: () => Math.max(active - 1, 0),
      ArrowDown: () => this.lineAway(1),
      ArrowUp: () => this.lineAway(-1),
      Home: () => 0,
      End: () => model.size - 1,
    };
    if (event.key === "Enter" && this.marked) showCard(this.marked, true);
    else if (event.key in moves) this.go(moves[event.key]());
    else return;
    event.preventDefault();
  }

  // The token in the next line, above or below, that lies nearest.
  lineAway(step) {
    const from = this.blocks.chipAt(this.active).getBoundingClientRect();
    let best = this.active;
    let line = null;
    for (let at = this.active + step; at >= 0 && at < this.model.size; at += step) {
      const { top, left } = this.blocks.chipAt(at).getBoundingClientRect();
      if (Math.abs(top - from.top) < 4) continue;
      if (line !== null && Math.abs(top - line) > 4) break;
      const isNearer = line === null || Math.abs(left - from.left) < Math.abs(this.bestLeft - from.left);
      line ??= top;
      if (isNearer) [best, this.bestLeft] = [at, left];
    }
    return best;
  }

  jump(event) {
    const rect = this.overview.getBoundingClientRect();
    this.show(((event.clientX - rect.left) / rect.width) * this.model.size);
  }

  showWindow() {
    const { scrollTop, clientHeight } = this.scroller;
    const isSeen = ({ element: { offsetTop: top, offsetHeight: height } }) =>
      top + height > scrollTop && top < scrollTop + clientHeight;
    const seen = this.blocks.all.filter(isSeen);
    if (!seen.length) return;
    this.window.style.left = `${(100 * seen[0].start) / this.model.size}%`;
    this.window.style.width = `${(100 * (seen.at(-1).end - seen[0].start)) / this.model.size}%`;
  }

  // Of the tokens below one column, the class that stands last in the legend counts.
  draw() {
    const width = this.overview.clientWidth;
    if (!width) return;
    const columns = Math.min(this.model.size, Math.round(width * window.devicePixelRatio));
    Object.assign(this.overview, { width: columns, height: 1 });
    const context = this.overview.getContext("2d");
    const colouring = chosenColouring();
    const colours = coloursOf(colouring.legend().map(([className]) => className));
    const ranks = new Map([...colours.keys()].map((className, rank) => [className, rank]));
    for (let column = 0; column < columns; column += 1) {
      let shown = "context";
      const end = Math.ceil(((column + 1) * this.model.size) / columns);
      for (let at = Math.floor((column * this.model.size) / columns); at < end; at += 1) {
        const className = colouring.classAt(this.model, at);
        if ((ranks.get(className) ?? -1) > (ranks.get(shown) ?? -1)) shown = className;
      }
      if (!colours.has(shown)) continue;
      context.fillStyle = colours.get(shown);
      context.fillRect(column, 0, 1, 1);
    }
    this.showWindow();
  }
}

// What a class looks like now, in this theme and colouring: only the browser knows.
function coloursOf(classNames) {
  const probe = element("span", "token trained");
  document.body.append(probe);
  const colours = new Map();
  for (const className of classNames) {
    if (className === "context") continue;
    probe.className = `token ${className} probe`;
    colours.set(className, getComputedStyle(probe).backgroundColor);
  }
  probe.remove();
  return colours;
}

function button(label, act) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
