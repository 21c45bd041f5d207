// Where a sequence parted from the one it left: both sides around the first difference.

const BEFORE = 6;
const AFTER = 16;

async function splitOf(model) {
  const { parent, shared, focus, change, cause } = model.about;
  if (parent === null) return null;
  const other = await modelOf(parent);
  const isRouting = cause === "routing_changed";
  const at = isRouting && focus !== null ? focus : shared;
  const sides = [sideOf("the sequence it left", other, model, at, isRouting), sideOf("this sequence", model, other, at, isRouting)];
  const table = element("table", "", element("tbody", "", ...sides));
  const title = isRouting && focus !== null ? `Routed otherwise at token ${at}` : `Parted after ${at} tokens`;
  const made = element("div", "split", element("h4", "", title), element("div", "wide", table));
  if (change) {
    const experts = ` In layer ${change.layer} its row names experts ${change.now.join(" ")}; before ${change.before.join(" ")}.`;
    made.append(element("p", "quiet", `The first row that differs is ${focus}.${experts}`));
  }
  return made;
}

function sideOf(name, model, other, at, isRouting) {
  const cells = element("td", "");
  const start = Math.max(0, at - BEFORE);
  if (start > 0) cells.append(element("span", "more", `${start.toLocaleString("en")} before `));
  for (let place = start; place < Math.min(at + AFTER, model.size); place += 1) {
    const made = chip(model, place);
    const differs = isRouting ? place === at : place >= at && model.ids[place] !== other.ids[place];
    if (differs) made.classList.add("differs");
    if (place === at) cells.append(element("span", "here", ""));
    cells.append(made);
  }
  const rest = model.size - at - AFTER;
  if (rest > 0) cells.append(element("span", "more", ` ${rest.toLocaleString("en")} after`));
  else cells.append(element("span", "more", " it ends here"));
  const heading = element("th", "", name);
  heading.scope = "row";
  return element("tr", "", heading, cells);
}
