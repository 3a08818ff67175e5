"use strict";
// Fetches this page again each interval and takes over its <main>. Ages are the server's own
// figure plus the seconds since it came, by a clock of the browser that nobody sets.
(() => {
  const body = document.body;
  const banner = document.getElementById("stale");
  const why = document.getElementById("stale-why");
  const said = document.getElementById("said");
  const every = Number(body.dataset.refresh) * 1000;
  const LONGEST = 10000; // ms that an answer may take
  let main = document.querySelector("main");
  let came = performance.now();
  let failure = "";
  let title = document.title.replace(/^STALE · /, "");

  const span = (seconds) =>
    seconds >= 172800 ? (seconds / 86400).toFixed(1) + " days"
    : seconds >= 7200 ? (seconds / 3600).toFixed(1) + " h"
    : seconds >= 600 ? Math.round(seconds / 60) + " min"
    : Math.round(seconds) + " s";

  const show = () => {
    const data = main.dataset;
    const known = "age" in data;
    const since = (performance.now() - came) / 1000;
    const age = since + (known ? Number(data.age) : 0);
    const old = known && age > Number(data.patience);
    const ago = document.getElementById("ago");
    if (ago) ago.textContent = ", " + span(age) + " ago";
    let text = "";
    if (failure) {
      text = failure + (known
        ? " All below is as of " + data.at + ", " + span(age) + " ago."
        : " No round was seen yet.");
    } else if (old) {
      text = "The last round was at " + data.at + ", " + span(age) + " ago; one is due every " +
        data.every + ". All below is as it was then.";
    }
    banner.hidden = !text;
    if (why.textContent !== text) why.textContent = text;
    document.title = (text ? "STALE · " : "") + title;
  };

  const take = (fresh) => {
    const next = fresh.querySelector("main");
    if (!next) throw new Error("The answer is no status page.");
    if (fresh.body.dataset.build !== body.dataset.build) return location.reload();
    const open = [...main.querySelectorAll("details[open][id]")].map((e) => e.id);
    const scrolled = [...main.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
    const focused = main.contains(document.activeElement)
      ? [...main.querySelectorAll("a, summary, .scroll")].indexOf(document.activeElement) : -1;
    const before = main.dataset.verdict;
    const adopted = document.adoptNode(next);
    main.replaceWith(adopted);
    main = adopted;
    for (const id of open) {
      const details = document.getElementById(id);
      if (details) details.open = true;
    }
    main.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
    if (focused >= 0) {
      const again = main.querySelectorAll("a, summary, .scroll")[focused];
      if (again) again.focus({ preventScroll: true });
    }
    title = fresh.title.replace(/^STALE · /, "");
    if (main.dataset.verdict !== before) said.textContent = "Now " + main.dataset.verdict;
  };

  // Somebody who marks a command to copy it does not want it taken away; but not for ever.
  let held = 0;
  const marking = () => {
    const mark = getSelection();
    const busy = mark && !mark.isCollapsed && main.contains(mark.anchorNode);
    held = busy ? held + 1 : 0;
    return busy && held * every < 60000;
  };

  let asking = false;
  const refresh = async () => {
    if (asking || marking()) return;
    asking = true;
    const cut = new AbortController();
    const timer = setTimeout(() => cut.abort(), LONGEST);
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", signal: cut.signal });
      if (!answer.ok) throw new Error("The watchdog answers with an error (" + answer.status + ").");
      const text = await answer.text();
      const arrived = performance.now();
      take(new DOMParser().parseFromString(text, "text/html"));
      came = arrived;
      failure = "";
    } catch (error) {
      const ours = error instanceof Error && error.constructor === Error;
      failure = ours ? error.message : "The watchdog does not answer.";
    } finally {
      clearTimeout(timer);
      asking = false;
      show();
    }
  };

  show();
  setInterval(show, 1000);
  setInterval(refresh, every);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
})();
