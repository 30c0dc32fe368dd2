// What the parts of the page share: the view, elements, requests, and what the browser keeps.
import {REFIT} from "./query.js";

// What is shown: `about` the results, the query, the data that it needs, the rows that it lists in their order, the chosen
// row, tags and notes by row, and saved views. `go` changes the query, `planes` are where it is drawn.
export const view = {
    about: null,
    query: null,
    data: {},
    rows: [],
    chosen: null,
    page: 0,
    noted: Object.create(null),
    saved: [],
    go: null,
    planes: null,
};

export const PAGE = 24; // rows on a page of the wall and of the table

export const get = (id) => document.getElementById(id);
export const text = (value) => document.createTextNode(value);

// Make an element; attributes that are functions are listeners. Names from the data are always text.
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") element.addEventListener(name, value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...present(children));
    return element;
}
const present = (children) => children.flat().filter((child) => child !== null && child !== undefined && child !== false);
// Put children in the place of those of an element. What had the focus gets it again, found by its id or key.
export function fill(element, ...children) {
    const used = element.contains(document.activeElement) ? document.activeElement : null;
    const key = used && (used.dataset.key ?? used.id);
    element.replaceChildren(...present(children));
    if (!key) return;
    const again = [...element.querySelectorAll("[data-key], [id]")].find(
        (each) => (each.dataset.key ?? each.id) === key,
    );
    if (used.type === "number") again?.replaceWith(used); // what is typed into it may be unfinished
    (used.type === "number" ? used : again)?.focus({preventScroll: true});
}
export const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
export const short = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "∞");
export const fixed = (value, places) => (Number.isFinite(value) ? value.toFixed(places) : "∞");
export const status = (message) => fill(get("message"), message);

// The second distance that is chosen takes the place of the first.
export const choose = (name) =>
    view.go(name === view.query.other ? {distance: name, other: view.query.distance} : {distance: name});

export function save(blob, name) {
    const address = URL.createObjectURL(blob),
        anchor = make("a", {href: address, download: name});
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// ---- Requests

const arrived = new Map();

export async function answer(url, options) {
    const found = await fetch(url, options).catch(() => {
        throw new Error("The server does not answer: start twoafc explore again.");
    });
    if (!found.ok) throw new Error((await found.text()).trim() || found.statusText);
    return found;
}

function unpack(buffer) {
    const bytes = new Uint8Array(buffer),
        end = bytes.indexOf(10) + 1;
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
    let at = end;
    return Object.fromEntries(
        Object.entries(head).map(([name, length]) => {
            const values = new Float64Array(buffer, at, length);
            at += 8 * length;
            return [name, values];
        }),
    );
}

export function fitOf(distance) {
    const asked = {distance, estimator: view.query.estimator};
    return view.query.estimator === REFIT ? {...asked, sigma: view.query.sigma, grid: view.query.grid} : asked;
}

// Points of a distance under the fit of the query; each is asked for once.
export function points(distance) {
    const asked = new URLSearchParams(fitOf(distance)).toString();
    if (!arrived.has(asked)) {
        if (arrived.size > 40) arrived.clear();
        const coming = answer("/points?" + asked)
            .then((found) => found.arrayBuffer())
            .then(unpack);
        coming.catch(() => arrived.delete(asked));
        arrived.set(asked, coming);
    }
    return arrived.get(asked);
}

// ---- Tags, notes and saved views: kept in the browser alone

const store = () => "twoafc " + view.about.key;

function stored() {
    try {
        const found = JSON.parse(localStorage.getItem(store()) ?? "{}");
        return {
            noted: Object.assign(Object.create(null), found.noted), // any name may be that of a row
            saved: Array.isArray(found.saved) ? found.saved : [],
        };
    } catch {
        return {noted: Object.create(null), saved: []}; // not ours
    }
}
export function remember() {
    Object.assign(view, stored());
    view.data.tags = view.noted;
}

// Change what is stored, which another window may have changed meanwhile.
export function keep(change) {
    const now = stored();
    change(now);
    try {
        localStorage.setItem(store(), JSON.stringify(now));
    } catch {
        status("The browser keeps no notes here.");
    }
    Object.assign(view, now);
    view.data.tags = view.noted;
}
