// The console's only script. Everything works without it; with it, explanations follow typing and waiting pages move on.
"use strict";
document.documentElement.classList.add("script");
const byId = (id) => document.getElementById(id);

// ---- ask: the explanation follows typing after 0.4 s; the price is off until the text on screen is the text explained
const asking = byId("ask");
if (asking) {
  const sql = byId("sql"), panel = byId("explanation"), mirror = asking.querySelector(".mirror");
  const who = document.querySelector(".who b").textContent;
  const remember = () => history.replaceState({ sql: sql.value, who }, "");
  let timer = 0, number = 0, explained = sql.value;

  const off = () => {
    for (const id of ["pay", "replay"]) if (byId(id)) byId(id).disabled = true;
    panel.classList.add("explaining");
  };
  const mark = () => {
    const refusal = byId("refusal");
    mirror.textContent = "";
    if (!refusal || !refusal.dataset.line) return;
    const lines = sql.value.split("\n"), line = Number(refusal.dataset.line), column = Number(refusal.dataset.column);
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + column - 1;
    const word = /^(\w+|\S)/.exec(sql.value.slice(start)) || [" "];
    const wavy = document.createElement("mark");
    wavy.textContent = word[0];
    mirror.append(sql.value.slice(0, start), wavy, sql.value.slice(start + word[0].length));
    mirror.scrollTop = sql.scrollTop;
  };
  const explain = async () => {
    clearTimeout(timer);
    remember();
    const text = sql.value, mine = ++number;
    const body = new URLSearchParams({ form: asking.elements.form.value, sql: text });
    const reason = byId("reason") ? byId("reason").value : "";
    try {
      const reply = await fetch(asking.dataset.explain, { method: "POST", body, redirect: "manual" });
      if (mine !== number || sql.value !== text) return;
      if (reply.type === "opaqueredirect") panel.textContent = "You are signed out. Copy your question, and reload the page to sign in again.";
      else {
        panel.innerHTML = await reply.text();
        if (byId("reason")) byId("reason").value = reason;
        explained = text;
      }
    } catch {
      if (mine === number) panel.textContent = "The service cannot be reached. Nothing was asked; try again in a moment.";
    }
    panel.classList.remove("explaining");
    mark();
  };
  sql.addEventListener("input", () => {
    mirror.textContent = "";
    off();
    clearTimeout(timer);
    timer = setTimeout(explain, 400);
  });
  sql.addEventListener("scroll", () => { mirror.scrollTop = sql.scrollTop; });
  asking.addEventListener("submit", (event) => {
    const pressed = event.submitter;
    if (pressed && pressed.value === "explain") { event.preventDefault(); explain(); return; }
    if (pressed && pressed.value === "find") return;
    if (sql.value !== explained || !pressed || asking.dataset.sent) { event.preventDefault(); return; }
    asking.dataset.sent = "yes";
  });
  addEventListener("pageshow", () => { delete asking.dataset.sent; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      const button = byId("replay") || byId("pay");
      if (!event.shiftKey) explain();
      else if (button && !button.disabled) button.click();
    } else if (event.key === "?" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) byId("keys").showModal();
  });
  byId("show-keys").addEventListener("click", () => byId("keys").showModal());
  mark();
  // Browsers do not store our pages: after Back, the question comes from the entry of the history.
  const [how] = performance.getEntriesByType("navigation");
  const before = how && how.type === "back_forward" && history.state;
  if (before && before.who === who && before.sql !== sql.value) { sql.value = before.sql; off(); explain(); } else remember();
}

// ---- a question that waits or runs: the page moves on when its state does
const job = document.querySelector("[data-watch]");
if (job) {
  const place = (found) => `${found.state}${found.position === null ? "" : found.position}`;
  const watch = async (known) => {
    try {
      const reply = await fetch(`${job.dataset.watch}?wait=${job.dataset.state === "approval" ? 0 : 20}`);
      if (!reply.ok) return location.reload();
      const found = await reply.json();
      if (found.state !== job.dataset.state || (known && known !== place(found))) return location.reload();
      setTimeout(() => watch(place(found)), job.dataset.state === "approval" ? 3000 : 500);
    } catch { setTimeout(() => watch(known), 3000); }
  };
  watch("");
}

// ---- sliders: what they show follows them
for (const live of document.querySelectorAll("form[data-live]")) {
  let timer = 0, number = 0;
  const follow = async () => {
    const mine = ++number, data = new URLSearchParams(new FormData(live));
    const post = live.method === "post";
    const reply = await fetch(post ? live.action : `${live.action}?${data}`, post ? { method: "POST", body: data } : {}).catch(() => null);
    if (mine !== number) return;
    if (!reply) { byId(live.dataset.live).textContent = "The service cannot be reached. Reload the page."; return; }
    const found = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById(live.dataset.live);
    if (found && mine === number) byId(live.dataset.live).replaceWith(document.adoptNode(found));
  };
  live.addEventListener("input", (event) => {
    const shown = live.querySelector(`output[for="${event.target.id}"]`);
    if (shown) shown.textContent = Number(event.target.value).toLocaleString("en-US", { maximumFractionDigits: 6 });
    if (event.target.type !== "range") return;
    clearTimeout(timer);
    timer = setTimeout(follow, 250);
  });
}

// ---- tokens: only what the roles of the chosen person allow is offered
const whose = byId("user"), scopes = byId("scopes");
if (whose && scopes) {
  const offer = () => {
    const may = whose.selectedOptions[0].dataset.may.split(" ");
    for (const box of scopes.querySelectorAll("input")) {
      const is = may.includes(box.value);
      box.disabled = !is;
      box.closest("label").hidden = !is;
    }
  };
  whose.addEventListener("change", offer);
  offer();
}

// ---- copying
document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const from = byId(button.dataset.copy);
    try { await navigator.clipboard.writeText("value" in from ? from.value : from.textContent); }
    catch { const range = document.createRange(); range.selectNodeContents(from); getSelection().removeAllRanges(); getSelection().addRange(range); if (from.select) from.select(); document.execCommand("copy"); }
    const said = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said; }, 1500);
});
