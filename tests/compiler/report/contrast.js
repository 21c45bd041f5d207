// The least contrast between a token and what is behind it, over all colours that tokens have, as WCAG 2.2
// defines it (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio): [ratio, colouring, class, part].
(() => {
  const classes = {
    mask: ["trained", "context"],
    logprob: ["context", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"],
    version: ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "vx"],
    routing: ["rx", "r0", "r1", "r2", "r3"],
  };
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const isClear = (colour) => channels(colour)[3] === 0;
  const token = document.querySelector(".tokens .token");
  const sheet = getComputedStyle(document.querySelector(".tokens")).backgroundColor;
  const found = [];
  for (const [colouring, names] of Object.entries(classes)) {
    document.documentElement.dataset.colour = colouring;
    for (const name of names) {
      token.className = `token ${name} ${name === "context" ? "" : "trained"}`;
      const own = getComputedStyle(token).backgroundColor;
      const behind = luminance(channels(isClear(own) ? sheet : own));
      for (const part of [token, token.querySelector(".id")]) {
        const front = luminance(channels(getComputedStyle(part).color));
        const [dark, light] = [front, behind].sort((one, other) => one - other);
        found.push([(light + 0.05) / (dark + 0.05), colouring, name, part.className]);
      }
    }
  }
  return found.sort((one, other) => one[0] - other[0])[0];
})();
