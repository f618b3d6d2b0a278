"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const transcript = $("transcript");

  // The theme follows the system until somebody chooses.
  const theme = $("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const name = () => { theme.textContent = isDark() ? "Light theme" : "Dark theme"; };
  theme.hidden = false;
  theme.onclick = () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); };
  dark.addEventListener("change", name);
  name();

  // On a narrow screen the transcript comes before its outline is read.
  if (matchMedia("(max-width: 1039px)").matches) $("side").open = false;

  // One path is shown at a time: the segments from a root to where it leads.
  const segments = new Map();
  for (const s of document.querySelectorAll("[data-segment]")) segments.set(s.dataset.segment, s);
  const first = new Map(); // the main way on from a segment, which stands first
  for (const [n, s] of segments) if (s.dataset.parent && !first.has(s.dataset.parent)) first.set(s.dataset.parent, n);
  const way = $("way");
  function pathTo(n, goOn) {
    const path = new Set();
    for (let at = n; at !== undefined && segments.has(at); at = segments.get(at).dataset.parent) path.add(at);
    for (let at = n; goOn && (at = first.get(at)) !== undefined;) path.add(at);
    return path;
  }
  function show(path) {
    for (const [n, s] of segments) s.hidden = !path.has(n);
    for (const a of document.querySelectorAll(".fork a")) {
      if (path.has(a.dataset.to)) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
    }
    if (way) for (const o of way.options) if (path.has(o.value)) { way.value = o.value; if (!first.has(o.value)) break; }
    find();
  }
  function reveal(target) {
    const s = target.closest("[data-segment]");
    if (s && s.hidden) show(pathTo(s.dataset.segment, true));
    for (let d = target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
  }
  function follow(scroll) {
    const target = /^#e\d+$/.test(location.hash) && $(location.hash.slice(1));
    if (!target) return;
    reveal(target);
    if (scroll) target.scrollIntoView({ block: "start" });
    for (const a of document.querySelectorAll(".outline a")) {
      if (a.hash === location.hash) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
    }
  }
  if (way) way.onchange = () => {
    show(pathTo(way.value, false));
    const last = [...segments.get(way.value).querySelectorAll(".entry")].pop();
    if (last) last.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", () => follow(true));
  // A link to where one is already is followed all the same.
  document.addEventListener("click", (e) => {
    const a = e.target.closest("a[href^='#e']");
    if (a && a.hash === location.hash) follow(true);
  });

  // What is shown.
  $("bar").hidden = segments.size === 0;
  for (const b of document.querySelectorAll("[data-kind], [data-only]")) b.onclick = () => {
    const on = b.getAttribute("aria-pressed") !== "true";
    b.setAttribute("aria-pressed", on);
    if (b.dataset.kind) transcript.classList.toggle("no-" + b.dataset.kind, !on);
    else transcript.classList.toggle("only-" + b.dataset.only, on);
    find();
  };
  const unfold = $("unfold");
  unfold.onclick = () => {
    const on = unfold.getAttribute("aria-pressed") !== "true";
    unfold.setAttribute("aria-pressed", on);
    for (const d of transcript.querySelectorAll("details")) d.open = on;
  };
  addEventListener("beforeprint", () => { for (const d of transcript.querySelectorAll("details")) d.open = true; });

  // Finding marks text without touching the document.
  const input = $("find"), found = $("found");
  const most = 5000;
  let matches = [], at = -1;
  function search(word) {
    const ranges = [];
    for (const [, s] of segments) {
      if (s.hidden) continue;
      const texts = document.createTreeWalker(s, NodeFilter.SHOW_TEXT);
      for (let t; ranges.length < most && (t = texts.nextNode());) {
        const low = t.data.toLowerCase();
        if (low.length !== t.data.length) continue;
        for (let i = -1; (i = low.indexOf(word, i + 1)) >= 0 && ranges.length < most;) {
          const r = new Range();
          r.setStart(t, i);
          r.setEnd(t, i + word.length);
          ranges.push(r);
        }
      }
    }
    if (transcript.classList.length === 0) return ranges; // nothing is filtered away
    return ranges.filter((r) => shown(r.startContainer.parentElement));
  }
  // Folded text counts, text that is filtered away does not.
  function shown(e) {
    for (; e && e !== transcript; e = e.parentElement) {
      if (e.matches(".entry, .call, .thought") && getComputedStyle(e).display === "none") return false;
    }
    return true;
  }
  function find() {
    const word = input.value.toLowerCase();
    matches = word.length > 1 ? search(word) : [];
    at = -1;
    if (globalThis.Highlight) CSS.highlights.set("found", new Highlight(...matches));
    $("find-back").disabled = $("find-on").disabled = matches.length === 0;
    tell(word.length > 1);
  }
  function tell(sought) {
    const n = matches.length === most ? most + "+" : matches.length;
    found.textContent = !sought ? "" : matches.length === 0 ? "none" : at < 0 ? n + " found" : (at + 1) + " of " + n;
  }
  function step(by) {
    if (matches.length === 0) return;
    at = at < 0 && by < 0 ? matches.length - 1 : (at + by + matches.length) % matches.length;
    const e = matches[at].startContainer.parentElement;
    for (let d = e.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    e.scrollIntoView({ block: "center" });
    const s = getSelection();
    s.removeAllRanges();
    s.addRange(matches[at].cloneRange());
    tell(true);
  }
  let soon = 0;
  const findNow = () => { clearTimeout(soon); soon = 0; find(); };
  input.oninput = () => { clearTimeout(soon); soon = setTimeout(findNow, 120); found.textContent = "…"; };
  input.onkeydown = (e) => {
    if (e.key !== "Enter") return;
    e.preventDefault();
    if (soon) findNow();
    step(e.shiftKey ? -1 : 1);
  };
  $("find-on").onclick = () => step(1);
  $("find-back").onclick = () => step(-1);
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.ctrlKey && !e.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); input.focus(); }
  });

  // Charts say what stands under the pointer, or where the arrow keys went.
  for (const chart of document.querySelectorAll(".chart")) {
    const marks = [...chart.querySelectorAll(".mark")];
    const places = marks.map((m) => { const r = m.getBBox(); return r.x + r.width / 2; });
    const readout = chart.closest(".card").querySelector(".readout");
    let on = -1;
    const set = (i) => {
      if (on >= 0) marks[on].classList.remove("on");
      on = i;
      if (on >= 0) marks[on].classList.add("on");
      readout.textContent = on >= 0 ? marks[on].querySelector("title").textContent : "";
    };
    const go = () => { if (on >= 0 && marks[on].dataset.to) location.hash = marks[on].dataset.to; };
    chart.addEventListener("pointermove", (e) => {
      const r = chart.getBoundingClientRect(), x = (e.clientX - r.left) / r.width * 1000;
      let best = -1;
      places.forEach((p, i) => { if (best < 0 || Math.abs(p - x) < Math.abs(places[best] - x)) best = i; });
      set(best);
    });
    chart.addEventListener("pointerleave", () => set(-1));
    chart.addEventListener("blur", () => set(-1));
    chart.addEventListener("click", go);
    chart.addEventListener("keydown", (e) => {
      const n = marks.length;
      const to = { ArrowRight: Math.min(on + 1, n - 1), ArrowLeft: Math.max(on - 1, 0), Home: 0, End: n - 1 }[e.key];
      if (e.key === "Enter") go();
      if (to === undefined || n === 0) return;
      e.preventDefault();
      set(to);
    });
  }

  if (segments.size > 0) {
    const main = segments.keys().next().value;
    show(way ? pathTo(way.value, false) : pathTo(main, true));
    follow(false);
  }
})();
