// The page: it turns clicks and keys into a new query, asks for the data, and has shown what the query says.
import {RANGES, bits, boxed, csv, identified, link, listed, parse, selected, start} from "./query.js";
import {Plane, classes} from "./plane.js";
import {PAGE, answer, counted, fill, fitOf, fixed, get, make, points, remember, save, status, view} from "./shared.js";
import {controls, legend, views} from "./side.js";
import {disagreement, enlarge, leave, list, peek, sameReference, choose_row, stage, tell, walk} from "./row.js";

// ---- The query

let turn = 0;
// Change the query: a step that the back button undoes, unless it goes on with the last one, as typing does.
let last = "";
view.go = go;
function go(changes, {same = ""} = {}) {
    const listing = Object.keys(changes).some(
        (name) => !["triplet", "votes", "page", "colour", "show", "zoom"].includes(name),
    );
    const owner = view.query.side === "other" ? view.query.other : view.query.distance;
    const query = {...view.query, ...(listing ? {page: null} : {}), ...changes};
    if (query.other === query.distance) query.other = "";
    if (!query.other) query.disagreement = null;
    // A box belongs to the plane of its distance, wherever that is shown.
    if (!("box" in changes)) query.side = owner === query.other && query.other ? "other" : "first";
    if (query.box && !("box" in changes) && ![query.distance, query.other].includes(owner)) query.box = null;
    if (!query.box && !query.zoom) query.side = "first";
    view.query = query;
    const address = location.pathname + link(query, view.about);
    if (address !== location.pathname + location.search) {
        if (same && same === last) history.replaceState(null, "", address);
        else history.pushState(null, "", address);
        last = same;
    }
    return update();
}

window.addEventListener("popstate", () => {
    if (!view.about) return;
    view.query = parse(location.search, view.about);
    last = "";
    document.activeElement?.blur();
    update();
});

// Only what the query changes is made anew: choosing another row leaves the planes as they are.
let shown = {};
async function update() {
    const mine = ++turn,
        query = view.query;
    controls();
    const slow = setTimeout(() => mine === turn && status("Loading …"), 150);
    try {
        const [first, other] = await Promise.all([points(query.distance), query.other ? points(query.other) : null]);
        if (mine !== turn) return;
        // The query that these data belong to: what is exported is named by it.
        Object.assign(view.data, {first, other, query});
        status("");
    } catch (error) {
        if (mine !== turn) return;
        status(error.message);
        if (!view.data.query) return;
        // Back to what is shown, so that no name stands beside data of another.
        view.query = view.data.query;
        history.replaceState(null, "", location.pathname + link(view.query, view.about));
        controls();
        return;
    } finally {
        clearTimeout(slow);
    }
    const {triplet, votes, page: asked, colour, show, zoom, ...listing} = query;
    const wanted = JSON.stringify([listing, listing.tag && view.noted]);
    const now = {rows: wanted, drawn: wanted + JSON.stringify([colour, show, zoom])};
    if (now.rows !== shown.rows) {
        view.data.kept = selected(view.query, view.data);
        view.data.within = boxed(view.query, view.data);
        view.rows = listed(view.query, view.data, view.data.kept, view.data.within);
        if (view.about.names.length)
            fill(
                get("count"),
                `${view.rows.length.toLocaleString("en")} of ${counted(view.about.names.length, view.about.row)}`,
            );
        compare();
        chips();
    }
    const named = triplet ? view.data.ids.indexOf(triplet) : -1;
    view.chosen = named >= 0 ? named : (view.rows[0] ?? null);
    view.page = asked ?? Math.max(Math.floor(view.rows.indexOf(view.chosen) / PAGE), 0);
    now.page = wanted + view.page;
    if (now.drawn !== shown.drawn) draw();
    if (now.page !== shown.page) list();
    shown = now;
    tell();
}

// ---- Planes

function scene(distance, values, side) {
    const T = view.about.names.length;
    // What stands out is drawn last, on top.
    values.order ??= Int32Array.from(values.surprise.keys()).sort((a, b) => values.surprise[a] - values.surprise[b]);
    const drawn = values.order.filter((row) => view.data.kept[row]);
    const jitter = (row) => (((row * 2654435761) % 1000) / 1000 - 0.5) * 0.03;
    return {
        k: view.about.k,
        size: view.about.size,
        surface: values.surface,
        error: values.error,
        show: view.query.show,
        ticks: values.ticks,
        rows: drawn,
        x: values.u0 ?? values.u,
        y: values.u1 ?? view.data.share.map((share, row) => share * 0.97 + 0.015 + jitter(row)),
        inks: classes(view.query.colour, {...view.data, first: values}, drawn.length),
        within: view.data.within,
        zoom: view.query.zoom,
        box: side === view.query.side ? view.query.box : null,
        label: T
            ? `${counted(drawn.length, view.about.row)} over the ${view.about.k === 2 ? "plane of" : "distance by"} ${distance}; the table lists them`
            : `P over the plane of ${distance}`,
    };
}

// Mean over rows, by their sampling weights where they have any.
function meanOf(values, rows) {
    const weight = view.about.weight;
    const sum = (of) => rows.reduce((total, row) => total + of(row) * (weight ? weight[row] : 1), 0);
    return sum((row) => values[row]) / sum(() => 1);
}

function draw() {
    for (const [side, name] of [
        ["first", view.query.distance],
        ["other", view.query.other],
    ]) {
        if (!name) continue;
        const values = view.data[side];
        view.planes[side].show(scene(name, values, side));
        view.planes[side].mark(view.chosen);
        const mean = view.rows.length ? `: NLL ${fixed(meanOf(values.nll, view.rows), 4)}` : "";
        const detail =
            view.query.show === "error" && !values.error
                ? " (no standard error)"
                : !values.surface
                  ? " (no surface was saved)"
                  : "";
        fill(get(`${side}-title`), name + mean, detail && make("span", {class: "soft"}, detail));
        fill(
            get(`${side}-tools`),
            view.query.box &&
                side === view.query.side &&
                make("button", {"data-key": "zoom", click: () => view.go({zoom: view.query.box})}, "Zoom to box"),
            view.query.zoom && make("button", {"data-key": "whole", click: () => view.go({zoom: null})}, "Whole plane"),
            make(
                "button",
                {
                    title: "Save as a picture",
                    "aria-label": `save the plane of ${name} as a picture`,
                    click: async () => save(await view.planes[side].picture(), `${name}.png`),
                },
                "PNG",
            ),
        );
    }
    legend();
}

// ---- The paired sentence of the selection

// It is asked for before the planes are drawn, so that the server works meanwhile; a later question ends an earlier one.
let comparing = null;
async function compare() {
    comparing?.abort();
    const place = get("sentence"),
        mine = (comparing = new AbortController());
    if (!view.query.other) return fill(place);
    if (!view.about.names.length)
        return fill(place, "Counts have no single triplets: there is no paired comparison of them.");
    if (view.rows.length < 2) return fill(place, `Two ${view.about.row}s at least are needed to compare.`);
    if (!place.hasChildNodes()) fill(place, "Comparing …"); // its room is there before it comes
    const all = view.rows.length === view.about.names.length;
    const on = `On ${all ? "all" : "these"} ${counted(view.rows.length, view.about.row)}`;
    const why = all ? "one pair, fitted again" : `one pair, on ${view.about.row}s chosen by looking`;
    const asked = new URLSearchParams({...fitOf(view.query.distance), other: view.query.other});
    try {
        const found = await answer(`/compare?${asked}`, {
            method: "POST",
            body: bits(view.rows, view.about.names.length),
            signal: mine.signal,
        }).then((each) => each.json());
        if (mine !== comparing) return undefined;
        const note = found.evaluated ? "As evaluated." : `Exploratory: ${why}; the noise of training is not included.`;
        return fill(place, make("strong", {}, `${on}: ${found.sentence}.`), " ", make("span", {class: "soft"}, note));
    } catch (error) {
        return mine === comparing ? fill(place, error.message) : undefined;
    }
}

// ---- Filters that are in use, each with a button that drops it

function chips() {
    const {query} = view,
        none = start(view.about);
    const words = {
        search: "name",
        group: "group",
        ref: "reference",
        tag: "tag",
        box: `box on ${query[{first: "distance"}[query.side] ?? "other"]}`,
    };
    const used = [...Object.keys(words), ...RANGES].filter((name) => query[name] !== none[name]);
    fill(
        get("chips"),
        used.map((name) => {
            const value = RANGES.includes(name) ? ` ${spoken(query[name])}` : name === "box" ? "" : `: ${query[name]}`;
            const label = (words[name] ?? name) + value;
            return make(
                "button",
                {
                    "data-key": name,
                    "aria-label": `drop the filter ${label}`,
                    click: () => view.go({[name]: none[name]}),
                },
                `${label} ×`,
            );
        }),
    );
}
const spoken = ([low, high]) => (low === null ? `≤ ${high}` : high === null ? `≥ ${low}` : `${low} to ${high}`);

// ---- Keys

const ACTIONS = {
    n: () => walk(1),
    ArrowRight: () => walk(1),
    p: () => walk(-1),
    ArrowLeft: () => walk(-1),
    d: disagreement,
    r: sameReference,
    e: () =>
        view.chosen !== null &&
        view.about.images &&
        view.about.roles.length &&
        enlarge(view.chosen, view.about.roles.includes("x0") ? "x0" : view.about.roles.at(-1)),
    "/": () => get("search").focus(),
    "?": () => get("keys").showModal(),
};
document.addEventListener("keydown", (event) => {
    if (!view.about || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (get("large").open) {
        const role = view.about.roles[Number(event.key) - 1];
        if (role) stage.show(role);
        else if (event.key === "f") stage.flicker();
        else if (event.key === "x") stage.subtract();
        else if ("npd".includes(event.key)) {
            const role = stage.role;
            Promise.resolve(ACTIONS[event.key]()).then(() => get("large").open && enlarge(view.chosen, role));
        } else return;
        event.preventDefault();
        return;
    }
    if (get("keys").open || !ACTIONS[event.key]) return;
    // Arrows scroll what has the focus and can be scrolled.
    if (event.key.startsWith("Arrow") && event.target.closest?.("[tabindex]")) return;
    event.preventDefault();
    ACTIONS[event.key]();
});

// ---- The start

async function begin() {
    view.about = await (await answer("/about.json")).json();
    view.query = parse(location.search, view.about);
    Object.assign(view.data, {
        about: view.about,
        share: Float64Array.from(view.about.n, (n, row) => n / view.about.M[row]),
    });
    view.data.ids = identified(view.about.names);
    remember();
    window.addEventListener("storage", () => {
        remember();
        controls();
    });
    fill(get("title"), view.about.name);
    fill(get("verdict"), view.about.verdict[0] ?? "");
    get("report").hidden = !view.about.report;
    const handlers = {pick: choose_row, hover: peek};
    const plane = (side) =>
        new Plane(get(`${side}-plane`), {...handlers, box: (box) => view.go({box, side, triplet: ""})});
    view.planes = {first: plane("first"), other: plane("other")};
    get("search").addEventListener("input", (event) => view.go({search: event.target.value}, {same: "search"}));
    get("search").addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === "Escape") event.target.blur();
    });
    document.addEventListener("click", (event) => {
        if (!event.target.closest("#views")) get("views").open = false;
    });
    document.addEventListener("keydown", (event) => {
        if (event.key === "Escape") get("views").open = false;
    });
    get("export").addEventListener("click", () =>
        save(new Blob([csv(view.data.query, view.data, view.rows)], {type: "text/csv"}), `${view.about.row}s.csv`),
    );
    get("export").hidden = !view.about.names.length;
    get("search").hidden = !view.about.names.length;
    get("filters").hidden = !view.about.names.length;
    get("help").addEventListener("click", ACTIONS["?"]);
    get("keys").querySelector("button").addEventListener("click", () => get("keys").close());
    get("views").addEventListener("toggle", () => get("views").open && views());
    get("large").addEventListener("close", leave);
    window
        .matchMedia("(prefers-color-scheme: dark)")
        .addEventListener("change", () => Object.values(view.planes).forEach((plane) => plane.redraw()));
    document.body.dataset.ready = "true";
    await update();
    if (view.about.images) {
        const found = await (await answer("/missing.json")).json();
        if (found.missing)
            fill(
                get("images-note"),
                `${found.missing.toLocaleString("en")} of ${counted(found.images, "image")} ${found.missing === 1 ? "is" : "are"} not in the folder: ${found.names.join(", ")}${found.missing > found.names.length ? ", …" : ""}`,
            );
    } else if (view.about.roles.length)
        fill(get("images-note"), "No images: start with twoafc explore RESULTS --images FOLDER to see them.");
}

begin().catch((error) => status(error.message));
