// Brings the page to life: opens sequences, and does what the toolbar offers.

const root = document.documentElement;
root.classList.add("with-scripts-on");
root.dataset.colour = "mask";
root.dataset.spelling = "both";

async function openSequence(details) {
  if (details.dataset.isMade) return;
  details.dataset.isMade = "yes";
  const body = details.querySelector(".body");
  try {
    const model = await modelOf(Number(details.dataset.sequence));
    const split = await splitOf(model);
    const pane = new Pane(model);
    body.append(...(split ? [split] : []), pane.element);
    pane.start();
  } catch (error) {
    body.append(element("p", "error", `The tokens cannot be unpacked here: ${error.message}`));
  }
}

document.addEventListener("toggle", (event) => {
  if (event.target.open && event.target.dataset.sequence) openSequence(event.target);
}, true);
for (const details of document.querySelectorAll("details[data-sequence][open]")) openSequence(details);

// A link to a sequence or a kind of finding opens it, and what it lies in.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target; at; at = at.parentElement) if (at.matches("details")) at.open = true;
  const own = target.querySelector(":scope > details");
  if (own) own.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", openTarget);
openTarget();

for (const choice of ["colour", "spelling"]) {
  for (const input of document.querySelectorAll(`input[name=${choice}]`)) {
    if (input.checked) root.dataset[choice] = input.value;
    input.addEventListener("change", () => {
      root.dataset[choice] = input.value;
      refresh();
    });
  }
}

function refresh() {
  showLegend();
  for (const pane of panes) pane.draw();
}
refresh();

const theme = document.getElementById("theme");
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
function showTheme(isDark) {
  theme.setAttribute("aria-pressed", String(isDark));
  root.dataset.theme = isDark ? "dark" : "light";
  refresh();
}
theme.addEventListener("click", () => showTheme(root.dataset.theme !== "dark"));
darkness.addEventListener("change", (event) => showTheme(event.matches));
showTheme(darkness.matches);

const filter = document.getElementById("filter");
const rows = [...document.querySelectorAll(".tree > li")];
filter.form.addEventListener("submit", (event) => event.preventDefault());
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  let found = 0;
  for (const row of rows) {
    const line = row.querySelector("summary").textContent.toLowerCase();
    row.hidden = !line.includes(wanted);
    found += !row.hidden;
  }
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = !group.querySelector(".tree > li:not([hidden])");
    if (wanted && !group.hidden) group.open = true;
  }
  document.getElementById("filtered").textContent = wanted ? `${found} of ${rows.length}` : "";
});
