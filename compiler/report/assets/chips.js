// A token as a chip, with a class for each way to colour it: to change the colouring touches no chip.

const LOGPROB_BOUNDS = [-0.01, -0.1, -0.5, -1, -2, -4, -8];
const VERSION_COLOURS = 8;
const places = new WeakMap(); // chip -> { model, at }

const colourings = {
  mask: {
    legend: () => [["context", "context"], ["trained", "sampled and trained"]],
    classAt: (model, at) => (model.trained[at] ? "trained" : "context"),
  },
  logprob: {
    legend: () => [
      ...LOGPROB_BOUNDS.map((bound, number) => [`p${number}`, `above ${bound}`]),
      ["p7", "lower"],
    ],
    classAt(model, at) {
      if (!model.trained[at]) return "context";
      const number = LOGPROB_BOUNDS.findIndex((bound) => model.logprobs[at] > bound);
      return `p${number < 0 ? LOGPROB_BOUNDS.length : number}`;
    },
  },
  version: {
    legend: () => [
      ...[...versionNumbers].map(([version, number]) => [`v${number % VERSION_COLOURS}`, version]),
      ["vx", "unknown"],
    ],
    classAt(model, at) {
      const number = versionNumbers.get(versionAt(model, at));
      return number === undefined ? "vx" : `v${number % VERSION_COLOURS}`;
    },
  },
  routing: {
    legend: () => [
      ["rx", "no row to compare"],
      ["r0", "experts as in the sequence it left"],
      ["r1", "others in few layers"],
      ["r2", "in a quarter or more"],
      ["r3", "in half or more"],
    ],
    classAt(model, at) {
      if (at >= model.layers.length) return "rx";
      if (!model.layers[at]) return "r0";
      const share = model.layers[at] / Math.min(model.about.routing.layers, 255);
      return share >= 0.5 ? "r3" : share >= 0.25 ? "r2" : "r1";
    },
  },
};

function chosenColouring() {
  return colourings[document.documentElement.dataset.colour];
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Spaces and what has no shape of its own, made visible.
function visible(text) {
  return text
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/^ +$/, (spaces) => "␣".repeat(spaces.length))
    .replace(
      /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
}

function chip(model, at) {
  const made = document.createElement("span");
  const classes = new Set(Object.values(colourings).map((each) => each.classAt(model, at)));
  classes.add(model.trained[at] ? "trained" : "context");
  made.className = `token ${[...classes].join(" ")}`;
  const id = model.ids[at];
  const text = textOf(id);
  if (text === null) {
    made.append(String(id));
  } else {
    made.append(element("span", "text", visible(text)), element("span", "id", String(id)));
  }
  places.set(made, { model, at });
  return made;
}

function showLegend() {
  const items = chosenColouring().legend().map(([className, label]) =>
    element("span", "entry", element("span", `token ${className}`, "\u00a0"), label),
  );
  document.getElementById("legend").replaceChildren(...items);
}
