// Updates the live part of a page from server-sent events while the page is visible. Without this script, every page
// and form works too, and a page shows the state at the time when it was opened.
"use strict";

const live = document.getElementById("live");

// Not `node.id`, which for a form returns its field of this name.
function idOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("id") : null;
}

// Change `from` into `to` in place, so that the focus, open details and the scroll position stay.
function morph(from, to) {
  const kept = new Map();
  for (const child of from.children) if (idOf(child)) kept.set(idOf(child), child);
  const ids = new Set([...to.children].map(idOf));
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const same = idOf(wanted) ? kept.get(idOf(wanted)) : null;
    if (same) {
      // An element that is moved loses the focus, so the elements before it are removed instead.
      while (place && place !== same && !(idOf(place) && ids.has(idOf(place)))) {
        const next = place.nextSibling;
        place.remove();
        place = next;
      }
      if (same !== place) from.insertBefore(same, place);
      update(same, wanted);
      place = same.nextSibling;
    } else if (place && !idOf(place) && !idOf(wanted) && place.nodeName === wanted.nodeName) {
      update(place, wanted);
      place = place.nextSibling;
    } else {
      from.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function update(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  // Keep what the user has opened or typed.
  if (node.nodeName === "INPUT" && node.type !== "hidden") return;
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && !(node.nodeName === "DETAILS" && name === "open")) node.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  morph(node, wanted);
}

function watch() {
  const where = new URL(`live/${live.dataset.live}${location.search}`, document.baseURI);
  const note = document.createElement("p");
  note.className = "stale";
  note.setAttribute("role", "status");
  note.textContent = "The connection to the server is lost. This page is as it was then.";
  let source = null;

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(where);
    source.onmessage = (event) => {
      note.remove();
      // The server has escaped all texts, and the policy of the page allows no other script.
      morph(live, new DOMParser().parseFromString(JSON.parse(event.data), "text/html").body);
      live.dataset.updates = Number(live.dataset.updates || 0) + 1;
    };
    source.onerror = () => {
      live.before(note);
      // The browser tries again by itself, unless the server has answered with an error.
      if (source.readyState === EventSource.CLOSED) source = null;
    };
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  // A hidden page need not be updated.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  open();
}

if (live) watch();
