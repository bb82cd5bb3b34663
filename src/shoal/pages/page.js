"use strict";
const root = document.documentElement;
const button = document.querySelector("button.theme");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const show = (theme) => {
  root.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
};
show(dark.matches ? "dark" : "light");
dark.addEventListener("change", (event) => show(event.matches ? "dark" : "light"));
button.addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));

const valueOf = (body, place) => {
  const cell = body.rows[0].cells[place];
  const name = cell.querySelector(".name");
  const key = cell.dataset.sort;
  return key === undefined ? (name || cell).textContent.trim().toLowerCase() : Number(key);
};
for (const table of document.querySelectorAll("table.main")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const sorter = head.querySelector("button");
    if (!sorter) return;
    sorter.addEventListener("click", () => {
      const first = head.classList.contains("text") ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const bodies = [...table.tBodies].sort((a, b) => {
        const [x, y] = [valueOf(a, place), valueOf(b, place)];
        return sign * (x < y ? -1 : x > y ? 1 : 0);
      });
      table.append(...bodies);
    });
  });
}
for (const more of document.querySelectorAll("button.more")) {
  more.addEventListener("click", () => {
    const open = more.getAttribute("aria-expanded") === "true";
    more.setAttribute("aria-expanded", String(!open));
    more.closest("tbody").rows[1].hidden = open;
  });
}
