
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = new Map(data.entries.map((entry, number) => [entry[0], number]));
  const nameOf = (number) => data.entries[number][2];
  const escaped = (text) => text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
  const link = (id) => `<a href="#${id}">${escaped(nameOf(place.get(id)))}</a>`;

  // --- search and filters -----------------------------------------------------------------------------------------
  const cards = [...document.querySelectorAll(".entries details")].map((card) => [card, card.textContent.toLowerCase()]);
  const search = document.getElementById("search");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const letters = [...document.querySelectorAll("[data-dimension]:checked")].map((box) => box.dataset.dimension);
    const kind = document.getElementById("kind").value;
    const composes = document.getElementById("composes").checked;
    const axioms = document.getElementById("axioms").checked;
    let shown = 0;
    for (const [card, text] of cards) {
      const fits = words.every((word) => text.includes(word)) && letters.every((letter) => card.dataset.d.includes(letter)) &&
        (!kind || card.dataset.k === kind) && (!composes || card.dataset.c === "1") && (!axioms || card.dataset.a === "1");
      card.hidden = !fits;
      shown += fits;
    }
    document.getElementById("count").textContent = `${shown} of ${cards.length} entries`;
  };
  for (const form of document.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector("form.filters").addEventListener("input", filter);

  // An entry that is linked to opens, and is shown even where filters hide it.
  const open = () => {
    const card = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!card || card.tagName !== "DETAILS") return;
    card.hidden = false;
    card.open = true;
    card.scrollIntoView();
  };
  window.addEventListener("hashchange", open);

  // --- the graph --------------------------------------------------------------------------------------------------
  // How a neighbour relates to the one in the middle, from top to bottom.
  const bands = [["weaker", "stronger than it"], ["special case", "extend it"], ["equivalent", "equivalent"], ["extends", "special cases of it"], ["stronger", "weaker than it"]];
  const drawing = document.getElementById("drawing");
  let centre = place.get("dp");
  const widthOf = (text) => 20 + [...text].reduce((sum, sign) => sum + (/[A-Z\u03b1-\u03c9]/.test(sign) ? 8.6 : /[il.,()[\]1 ]/.test(sign) ? 4.6 : 7.2), 0);
  const rowsOf = (numbers, width) => {
    const rows = [[]];
    let used = 0;
    for (const number of numbers) {
      const label = data.entries[number][1];
      const wide = Math.min(widthOf(label), width);
      if (used + wide > width && rows.at(-1).length) {
        rows.push([]);
        used = 0;
      }
      rows.at(-1).push([number, label, wide]);
      used += wide + 10;
    }
    return rows;
  };
  const node = ([number, label, wide], x, y, kind) =>
    `<g class="node ${kind}" tabindex="0" role="button" data-number="${number}" aria-label="${escaped(nameOf(number))}"><title>${escaped(nameOf(number))}</title>` +
    `<rect x="${x}" y="${y}" width="${wide}" height="28" rx="8"/><text x="${x + wide / 2}" y="${y + 19}" text-anchor="middle">${escaped(label)}</text></g>`;
  const draw = () => {
    const width = Math.max(260, drawing.clientWidth);
    const near = (data.relations[centre] || []).map(([other, ...how]) => [other, data.kinds[how[0]]]);
    let y = 4, nodes = "", ends = [], middle = null;
    const row = (cells, kind) => {
      const total = cells.reduce((sum, cell) => sum + cell[2] + 10, -10);
      let x = (width - total) / 2;
      for (const cell of cells) {
        nodes += node(cell, x, y, kind);
        if (kind !== "centre") ends.push([x + cell[2] / 2, y, kind]);
        x += cell[2] + 10;
      }
      y += 38;
    };
    for (const [kind, words] of bands) {
      const numbers = near.filter(([, how]) => how === kind).map(([other]) => other);
      if (kind === "equivalent") {
        y += 12;
        middle = y;
        row([[centre, nameOf(centre), Math.min(width, widthOf(nameOf(centre)) * 1.08)]], "centre");
        y += 12;
      }
      if (!numbers.length) continue;
      nodes += `<text class="band" x="0" y="${y + 12}">${words}</text>`;
      y += 20;
      for (const cells of rowsOf(numbers, width)) row(cells, kind.split(" ")[0]);
      y += 6;
    }
    const lines = ends.map(([x, top, kind]) => {
      const from = top < middle ? middle : middle + 28, to = top < middle ? top + 28 : top, half = (from + to) / 2;
      return `<path class="edge ${kind}" d="M${width / 2} ${from}C${width / 2} ${half} ${x} ${half} ${x} ${to}"/>`;
    });
    drawing.innerHTML = `<svg viewBox="0 0 ${width} ${y}" width="${width}" height="${y}" role="group" aria-label="Relations of ${escaped(nameOf(centre))}">${lines.join("")}${nodes}</svg>`;
    const [id, , name, idea] = data.entries[centre];
    document.getElementById("chosen").innerHTML = `<a href="#${id}">${escaped(name)}</a>: ${escaped(idea)}. ${near.length ? "" : "No relation is stored."}`;
  };
  const choose = (event) => {
    const chosen = event.target.closest("g.node");
    if (!chosen || (event.type === "keydown" && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    centre = Number(chosen.dataset.number);
    draw();
    if (event.type === "keydown") drawing.querySelector("g.centre").focus();
  };
  drawing.addEventListener("click", choose);
  drawing.addEventListener("keydown", choose);
  document.querySelector(".entries").addEventListener("click", (event) => {
    const id = event.target.dataset && event.target.dataset.show;
    if (!id) return;
    centre = place.get(id);
    draw();
    document.getElementById("graph").scrollIntoView();
  });
  let drawn = 0;
  new ResizeObserver(() => {
    if (drawing.clientWidth !== drawn) {
      drawn = drawing.clientWidth;
      draw();
    }
  }).observe(drawing);

  // --- the guide --------------------------------------------------------------------------------------------------
  const ask = () => {
    const said = Object.fromEntries([...document.querySelectorAll("[data-guide]")].map((one) => [one.dataset.guide, one.value]));
    const needs = [...document.querySelectorAll("[data-need]:checked")].map((box) => box.dataset.need);
    const fits = (rule) => ["protects", "attacker", "repeats"].every((key) => !rule[key] || rule[key].includes(said[key])) &&
      (rule.needs || []).every((need) => needs.includes(need));
    const main = data.guide.definitions.find(fits);
    const alone = main.gives === "active-pk-dp";
    const loss = alone ? null : data.guide.losses.find(fits);
    const notes = alone ? [] : data.guide.notes.filter(fits);
    const list = (items, kind) => items.map((item) => `<li class="${kind}">${escaped(item)}</li>`).join("");
    const reasons = [...(main.first || []), ...[main, ...(loss ? [loss] : []), ...notes].map((rule) => rule.reason).filter(Boolean)];
    const careful = [main, ...notes].flatMap((rule) => rule.watch_out || []);
    const named = new Set([main.gives, ...(loss ? [loss.gives] : [])].flatMap((id) => data.entries[place.get(id)][4]));
    if (loss && loss.gives === "zero-concentrated-dp") named.delete("epsilon");
    const parameters = [...named].map((name) => `${name}: ${data.guide.parameters[name] || "see its source"}`);
    document.getElementById("advice").innerHTML =
      `<h3>${link(main.gives)}${loss ? `, losses counted as ${link(loss.gives)}` : ""}</h3>` +
      `<ul>${list(reasons, "")}${list(careful, "careful")}</ul><p class="soft">To choose: ${escaped(parameters.join("; "))}.</p>` +
      `<p class="soft">Offered here by: ${escaped(data.guide.offers[main.offered_by || "none"])}.</p>`;
  };
  document.querySelector("form.ask").addEventListener("input", ask);
  ask();
  open();
}
