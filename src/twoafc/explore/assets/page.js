// The page: it asks the server for data, shows what the query says, and turns clicks and keys into a new query.
import {
    COLOURS,
    RANGES,
    REFIT,
    bits,
    boxed,
    column,
    csv,
    disagrees,
    likelier,
    link,
    listed,
    logChances,
    parse,
    rangeText,
    selected,
    start,
} from "./query.js";
import {PROBABILITY, Plane, SURPRISE, classes} from "./plane.js";

const WALL = 12,
    TABLE = 12,
    MOST_COUNTS = 200,
    MOST_GROUPS = 30;
const HEADS = {
    name: "",
    group: "group",
    n: "n",
    M: "M",
    d0: "d0",
    d1: "d1",
    d: "d",
    P: "P",
    nll: "NLL",
    surprise: "surprise",
    P_other: "P beside",
    disagreement: "apart",
    likelier: "votes for",
};
const RANGE_NAMES = {n: "n", M: "M", P: "P", surprise: "Surprise, bits", disagreement: "P apart"};
const KEYS = [
    ["n  →", "next row of the list"],
    ["p  ←", "previous row"],
    ["d", "next row on which the two distances, or distance and people, disagree"],
    ["r", "rows of the same reference, and back to all"],
    ["e", "enlarge the images"],
    ["/", "search"],
    ["?", "these keys"],
    ["Esc", "close"],
    ["1 2 3 …", "enlarged: show one image"],
    ["f", "enlarged: flicker between reference and image"],
    ["x", "enlarged: difference from the reference"],
];

const get = (id) => document.getElementById(id);
const text = (value) => document.createTextNode(value);

// Make an element; attributes that are functions are listeners. Names from the data are always text.
function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") element.addEventListener(name, value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}
const fill = (element, ...children) =>
    element.replaceChildren(...children.flat().filter((child) => child !== null && child !== false && child !== undefined));
const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
const short = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "∞");
const fixed = (value, places) => (Number.isFinite(value) ? value.toFixed(places) : "∞");

// ---- Data

let about,
    query,
    kept = {},
    data = {};
const arrived = new Map();
let turn = 0,
    rows = [],
    chosen = null,
    noted = {},
    saved = [];

async function answer(url, options) {
    const found = await fetch(url, options);
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

function fitOf(distance) {
    const asked = {distance, estimator: query.estimator};
    return query.estimator === REFIT ? {...asked, sigma: query.sigma, grid: query.grid} : asked;
}

// Points of a distance under the fit of the query; each is asked for once.
function points(distance) {
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

const store = () => "twoafc " + kept.id;
async function remember() {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(about.key));
    kept.id = Array.from(new Uint8Array(digest).slice(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
    try {
        const found = JSON.parse(localStorage.getItem(store()) ?? "{}");
        noted = found.noted && typeof found.noted === "object" ? found.noted : {};
        saved = Array.isArray(found.saved) ? found.saved : [];
    } catch {
        noted = {}; // not ours
    }
    data.tags = noted;
}
function keep() {
    try {
        localStorage.setItem(store(), JSON.stringify({noted, saved}));
    } catch {
        status("the browser keeps no notes here");
    }
}

// ---- The query

const status = (message) => fill(get("count"), message);

// Change the query: a step that the back button undoes, unless it goes on with the last one, as typing does.
let last = "";
function go(changes, {same = ""} = {}) {
    const listing = Object.keys(changes).some((name) => !["triplet", "votes", "page", "colour", "show", "zoom"].includes(name));
    query = {...query, ...(listing ? {page: 0} : {}), ...changes};
    if (query.other === query.distance) query.other = "";
    if (!query.other) Object.assign(query, {side: "first", disagreement: null});
    const address = location.pathname + link(query, about);
    if (address !== location.pathname + location.search) {
        if (same && same === last) history.replaceState(null, "", address);
        else history.pushState(null, "", address);
    }
    last = same;
    return update();
}

window.addEventListener("popstate", () => {
    query = parse(location.search, about);
    last = "";
    document.activeElement?.blur();
    update();
});

async function update() {
    const mine = ++turn;
    controls();
    try {
        const [first, other] = await Promise.all([points(query.distance), query.other ? points(query.other) : null]);
        if (mine !== turn) return;
        Object.assign(data, {first, other});
    } catch (error) {
        if (mine === turn) status(error.message);
        return;
    }
    const all = selected(query, data),
        within = boxed(query, data);
    rows = listed(query, data, all, within);
    const named = query.triplet ? about.names.indexOf(query.triplet) : -1;
    chosen = named >= 0 ? named : (rows[0] ?? null);
    if (about.names.length) status(`${rows.length.toLocaleString("en")} of ${counted(about.names.length, about.row)}`);
    draw(all, within);
    list();
    compare();
    tell();
}

// ---- The ranking

function ranking() {
    const estimator = query.estimator === REFIT ? about.estimators[0] : query.estimator;
    const shown = about.ranking.filter((each) => each.estimator === estimator);
    const score = about.k === 2 ? "2AFC %" : "AP %";
    if (!shown.length)
        return fill(
            get("ranking"),
            make("h2", {}, "Distances"),
            about.distances.map((name) => pick(name, null)),
        );
    const ends = shown.flatMap((each) => [each.nll_low ?? each.nll, each.nll_high ?? each.nll]).filter(Number.isFinite);
    const low = Math.min(...ends),
        span = Math.max(...ends) - low || 1;
    const place = (value) => `${Math.min(Math.max((100 * (value - low)) / span, 0), 100)}%`;
    fill(
        get("ranking"),
        make("div", {class: "heading"}, make("h2", {}, "Distances"), make("span", {class: "note"}, `NLL, ${score}`)),
        make(
            "ol",
            {},
            shown.map((each) => {
                const bar = make("span", {class: "interval", "aria-hidden": "true"}, make("i"), make("b"));
                const [line, dot] = bar.children;
                line.style.left = place(each.nll_low ?? each.nll);
                line.style.right = `calc(100% - ${place(each.nll_high ?? each.nll)})`;
                dot.style.left = place(each.nll);
                const error = Number.isFinite(each.nll_se) ? ` ± ${each.nll_se.toFixed(3)}` : "";
                const value = make(
                    "span",
                    {class: "value"},
                    `${fixed(each.nll, 3)}${error} `,
                    each.nll_letters ? make("sup", {title: "distances that share a letter cannot be told apart"}, each.nll_letters) : null,
                    Number.isFinite(each.score) ? make("span", {class: "soft"}, ` ${each.score.toFixed(1)}`) : null,
                );
                return make("li", {"data-distance": each.distance}, pick(each.distance, value), bar);
            }),
        ),
    );
}

function pick(name, value) {
    const first = name === query.distance,
        other = name === query.other;
    return make(
        "div",
        {class: "pick" + (first ? " first" : other ? " other" : "")},
        make("button", {"aria-pressed": String(first), title: `show ${name}`, click: () => choose(name)}, name),
        value,
        make(
            "button",
            {
                class: "beside",
                "aria-pressed": String(other),
                disabled: first,
                "aria-label": `compare with ${name}`,
                title: other ? "compare no longer" : `compare ${query.distance} with ${name}`,
                click: () => go({other: other ? "" : name}),
            },
            "vs",
        ),
    );
}
// The second distance that is chosen takes the place of the first.
const choose = (name) => go(name === query.other ? {distance: name, other: query.distance} : {distance: name});

// ---- Filters, fit, legend

function select(id, label, options, value, change) {
    return make(
        "div",
        {class: "field"},
        make("label", {for: id}, label),
        make(
            "select",
            {id, change: (event) => change(event.target.value)},
            options.map(([each, name]) => make("option", {value: each, selected: each === value}, name)),
        ),
    );
}

function filters() {
    const {group, ref} = about.labels,
        groups = group && group.names.length > 1,
        wanted = (name) => [query[name]?.[0] ?? "", query[name]?.[1] ?? ""];
    const between = (name) =>
        make(
            "fieldset",
            {class: "range", disabled: name === "disagreement" && !query.other},
            make("legend", {}, RANGE_NAMES[name]),
            ["least", "most"].map((end, at) =>
                make("input", {
                    type: "number",
                    step: "any",
                    id: `${name}-${end}`,
                    value: wanted(name)[at],
                    placeholder: end,
                    "aria-label": `${RANGE_NAMES[name]}, ${end}`,
                    input: (event) => {
                        const ends = [...(query[name] ?? [null, null])];
                        ends[at] = event.target.value === "" ? null : event.target.valueAsNumber;
                        if (Number.isNaN(ends[at])) return;
                        go({[name]: ends.every((each) => each === null) ? null : ends}, {same: name + end});
                    },
                }),
            ),
        );
    const tags = [...new Set(Object.values(noted).flatMap((each) => each.tags ?? []))].sort();
    fill(
        get("filters"),
        make("div", {class: "heading"}, make("h2", {}, "Filters"), make("button", {id: "clear", click: clear}, "Clear")),
        groups &&
            select("group", "Group", [["", "all"], ...[...group.names].sort().map((name) => [name, name])], query.group, (value) =>
                go({group: value}),
            ),
        ref &&
            make(
                "div",
                {class: "field"},
                make("label", {for: "ref"}, "Reference"),
                make("input", {
                    id: "ref",
                    list: "refs",
                    value: query.ref,
                    placeholder: "all",
                    change: (event) => {
                        const value = event.target.value;
                        if (value === "" || ref.names.includes(value)) go({ref: value});
                        else status(`no reference ${value}`);
                    },
                }),
                make(
                    "datalist",
                    {id: "refs"},
                    ref.names.slice(0, 2000).map((name) => make("option", {value: name})),
                ),
            ),
        make("div", {class: "ranges"}, RANGES.filter((name) => name !== "disagreement" || about.distances.length > 1).map(between)),
        tags.length > 0 && select("tag", "Tag", [["", "any"], ...tags.map((tag) => [tag, tag])], query.tag, (value) => go({tag: value})),
        select(
            "colour",
            "Points coloured by",
            COLOURS.filter((name) => name !== "group" || groups).map((name) => [
                name,
                {surprise: "surprise", votes: "votes n/M", group: "group"}[name],
            ]),
            query.colour,
            (value) => go({colour: value}),
        ),
    );
}
function clear() {
    document.activeElement?.blur(); // a field in use would keep what was typed
    go({search: "", group: "", ref: "", tag: "", box: null, ...Object.fromEntries(RANGES.map((name) => [name, null]))});
}

function fit() {
    const refit = about.refit === null,
        names = about.estimators.map((name) => [name, name === REFIT ? "density, refitted" : name]);
    // Sigma in quarters of a doubling from the paper's value.
    const slider = (id, label, low, high, step, value, shown, change) =>
        make(
            "div",
            {class: "field"},
            make("label", {for: id}, label, " ", make("output", {id: id + "-value"}, shown)),
            make("input", {
                type: "range",
                id,
                min: low,
                max: high,
                step,
                value,
                disabled: id !== "votes" && !refit,
                input: (event) => change(event.target.valueAsNumber),
            }),
        );
    fill(
        get("fit").querySelector("div"),
        names.length > 1 && select("estimator", "Estimator", names, query.estimator, (value) => go({estimator: value})),
        select(
            "show",
            "Surface",
            [
                ["P", "P"],
                ["error", "standard error of P"],
            ],
            query.show,
            (value) => go({show: value}),
        ),
        about.k === 2 &&
            slider(
                "sigma",
                "Width σ",
                -10,
                18,
                0.5,
                4 * Math.log2(44 * query.sigma),
                query.estimator === REFIT ? short(Number(query.sigma.toPrecision(3))) : "–",
                (step) => go({estimator: REFIT, sigma: Number((2 ** (step / 4) / 44).toPrecision(6))}, {same: "sigma"}),
            ),
        about.k === 2 &&
            slider("grid", "Grid size", 5, 100, 1, query.grid, query.estimator === REFIT ? query.grid : "–", (grid) =>
                go({estimator: REFIT, grid}, {same: "grid"}),
            ),
        make(
            "p",
            {class: "note", id: "refit-note"},
            refit ? "σ or grid size moved: the density is fitted again." : `No refit: ${about.refit}.`,
        ),
    );
}

function legend() {
    const dot = (colour, name) => {
        const mark = make("i");
        mark.style.backgroundImage = `linear-gradient(${colour}, ${colour})`;
        return make("span", {class: "dot"}, mark, name);
    };
    let shown = [];
    if (query.colour === "votes")
        shown = [
            dot(PROBABILITY[0], "0"),
            dot(PROBABILITY[5], "½"),
            dot(PROBABILITY[10], about.k === 2 ? "1, share of votes for x1" : "1, share of same"),
        ];
    else if (query.colour === "group" && about.labels.group) {
        const inks = classes("group", data, 1);
        shown = inks.names.slice(0, MOST_GROUPS).map((name, k) => dot(inks.inks[k], name));
        if (inks.names.length > MOST_GROUPS) shown.push(text(`and ${inks.names.length - MOST_GROUPS} more`));
    } else
        shown = SURPRISE.map(([least, opacity], k) =>
            dot(`rgba(0,0,0,${opacity})`, k + 1 < SURPRISE.length ? `${least}–${SURPRISE[k + 1][0]}` : `${least}+ bits of surprise`),
        );
    fill(get("legend"), about.names.length ? shown : "");
}

// Fields of the side keep their place and focus while one of them is used.
let before = "";
function controls() {
    ranking();
    const {page, triplet, votes, box, zoom, sort, ...rest} = query,
        now = JSON.stringify(rest) + Object.keys(noted).length;
    if (now !== before) {
        before = now;
        const used = document.activeElement?.closest("#filters, #fit") ? document.activeElement : null;
        filters();
        fit();
        if (used?.type === "number") get(used.id)?.replaceWith(used); // what is typed into it may be unfinished
        if (used) get(used.id)?.focus();
    }
    if (document.activeElement !== get("search")) get("search").value = query.search;
    get("other-panel").hidden = !query.other;
    get("planes").classList.toggle("two", Boolean(query.other));
}

// ---- Planes

let planes;
function scene(distance, values, all, within, side) {
    const drawn = [],
        T = about.names.length;
    for (let row = 0; row < T; row++) if (all[row]) drawn.push(row);
    drawn.sort((a, b) => values.surprise[a] - values.surprise[b]); // what stands out is drawn last, on top
    const jitter = (row) => (((row * 2654435761) % 1000) / 1000 - 0.5) * 0.03;
    return {
        k: about.k,
        size: about.size,
        surface: values.surface,
        error: values.error,
        show: query.show,
        ticks: values.ticks,
        rows: drawn,
        x: values.u0 ?? values.u,
        y: values.u1 ?? data.share.map((share, row) => share * 0.97 + 0.015 + jitter(row)),
        inks: classes(query.colour, {...data, first: values}, drawn.length),
        within,
        zoom: query.zoom,
        box: side === query.side ? query.box : null,
        label: T
            ? `${counted(drawn.length, about.row)} over the ${about.k === 2 ? "plane of" : "distance by"} ${distance}; the table lists them`
            : `P over the plane of ${distance}`,
    };
}

function draw(all, within) {
    for (const [side, name] of [
        ["first", query.distance],
        ["other", query.other],
    ]) {
        if (!name) continue;
        const values = data[side];
        planes[side].show(scene(name, values, all, within, side));
        planes[side].mark(chosen);
        const mean = values.nll.length ? `: NLL ${(values.nll.reduce((sum, each) => sum + each, 0) / values.nll.length).toFixed(4)}` : "";
        const told = query.show === "error" && !values.error ? " (no standard error)" : !values.surface ? " (no surface was saved)" : "";
        fill(get(`${side}-title`), name + mean, told && make("span", {class: "soft"}, told));
        fill(
            get(`${side}-tools`),
            query.box && side === query.side && make("button", {click: () => go({zoom: query.box, box: null})}, "Zoom to box"),
            query.box && side === query.side && make("button", {click: () => go({box: null})}, "No box"),
            query.zoom && make("button", {click: () => go({zoom: null})}, "Whole plane"),
            make(
                "button",
                {
                    title: "Save as a picture",
                    "aria-label": `save the plane of ${name} as a picture`,
                    click: async () => save(await planes[side].picture(), `${name}.png`),
                },
                "PNG",
            ),
        );
    }
    legend();
}

function save(blob, name) {
    const address = URL.createObjectURL(blob),
        anchor = make("a", {href: address, download: name});
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// ---- The paired sentence of the selection

let waiting = null;
function compare() {
    clearTimeout(waiting);
    const place = get("sentence"),
        mine = turn;
    if (!query.other || !about.names.length) return fill(place);
    waiting = setTimeout(async () => {
        const asked = {...fitOf(query.distance), other: query.other, rows: bits(rows, about.names.length)};
        try {
            const found = await (
                await answer("/compare", {
                    method: "POST",
                    headers: {"Content-Type": "application/json"},
                    body: JSON.stringify(asked),
                })
            ).json();
            if (mine !== turn) return;
            const on =
                rows.length === about.names.length
                    ? `On all ${counted(rows.length, about.row)}`
                    : `On ${rows.length === 1 ? "this" : "these"} ${counted(rows.length, about.row)}`;
            const note = found.evaluated
                ? "As evaluated."
                : "Exploratory: one pair, on rows chosen by looking; the noise of training is not included.";
            fill(place, make("strong", {}, `${on}: ${found.sentence}.`), " ", make("span", {class: "soft"}, note));
        } catch (error) {
            if (mine === turn) fill(place, error.message);
        }
    }, 60);
}

// ---- One row: images, votes, who was right

const sides = {x0: -1, x1: 1};
const sideOf = (P) => Math.sign(P - 0.5);
const nameOf = (role, row) => about.labels[role].names[about.labels[role].codes[row]];

function image(row, role, small) {
    const picture = make("img", {
        src: `/image/${row}/${role}${small ? "?small" : ""}`,
        alt: `${role}: ${nameOf(role, row)}`,
        loading: small ? "lazy" : "eager",
        error: () => picture.parentElement?.classList.add("broken"),
    });
    return picture;
}

// Images of a row, each with those who chose it; people's choice is framed.
function pictures(row, {small, click}) {
    const people = sideOf(data.share[row]),
        voters = about.M[row];
    const shown = [
        [query.distance, data.first],
        [query.other, data.other],
    ].filter(([, values]) => values);
    return make(
        "div",
        {class: "images"},
        about.roles.map((role) => {
            const side = sides[role],
                by = [];
            if (side && about.k === 2) {
                if (people === side) by.push(["people", `${side > 0 ? about.n[row] : voters - about.n[row]} of ${voters}`]);
                for (const [name, values] of shown) {
                    const P = values.P[row];
                    if (sideOf(P) === side) by.push([name, `${Math.round(100 * Math.max(P, 1 - P))} %`]);
                }
            }
            const picture = about.images ? image(row, role, small) : make("span", {class: "none"}, nameOf(role, row));
            return make(
                "figure",
                {class: people !== 0 && people === side && about.k === 2 ? "chosen" : ""},
                click && about.images
                    ? make("button", {class: "open", "aria-label": `enlarge ${role}`, click: () => click(role)}, picture)
                    : picture,
                make(
                    "figcaption",
                    {},
                    make("b", {}, role),
                    by.map(([who, share]) => make("span", {class: who === "people" ? "people" : "said"}, `${who} ${share}`)),
                ),
            );
        }),
    );
}

function votes(row) {
    const bar = make("div", {class: "bar", "aria-hidden": "true"}, make("div"));
    bar.firstChild.style.width = `${100 * data.share[row]}%`;
    return make(
        "div",
        {class: "votes"},
        make("strong", {}, `${about.n[row]} of ${about.M[row]} ${about.k === 2 ? "chose x1" : "said same"}`),
        bar,
    );
}

let telling = 0;
async function tell() {
    const place = get("triplet");
    for (const side of ["first", "other"]) planes[side].mark(chosen);
    for (const each of document.querySelectorAll("[data-row]")) {
        const is = each.dataset.row === String(chosen);
        each.classList.toggle("now", is);
        if (is) each.setAttribute("aria-current", "true");
        else each.removeAttribute("aria-current");
    }
    if (chosen === null) fill(get("strip"));
    if (chosen === null)
        return fill(
            place,
            make(
                "p",
                {class: "note"},
                about.names.length
                    ? `No ${about.row} passes these filters.`
                    : "Made from counts: there are surfaces, and no single triplets.",
            ),
        );
    const row = chosen,
        mine = ++telling,
        at = rows.indexOf(row);
    const step = (by) =>
        make(
            "button",
            {
                click: () => walk(by),
                "aria-label": by > 0 ? "next" : "previous",
                title: by > 0 ? "next (n)" : "previous (p)",
            },
            by > 0 ? "›" : "‹",
        );
    const strip = get("strip"),
        counts = make("div", {id: "counts"});
    fill(
        place,
        make(
            "div",
            {class: "heading"},
            make("h2", {}, about.row === "pair" ? "Pair " : "Triplet ", make("span", {}, about.names[row])),
            make("div", {}, step(-1), step(1)),
        ),
        make(
            "p",
            {class: "note"},
            at >= 0 ? `${(at + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")} in the list` : "not in the list",
            about.labels.group?.names.length > 1 ? `, ${nameOf("group", row)}` : "",
        ),
        about.roles.length > 0 && pictures(row, {small: false, click: (role) => enlarge(row, role)}),
        votes(row),
        make(
            "div",
            {class: "tools"},
            make("button", {id: "next-disagreement", title: "d", click: disagreement}, "Next disagreement"),
            about.labels.ref &&
                make("button", {id: "same-reference", title: "r", click: sameReference}, query.ref ? "All references" : "Same reference"),
        ),
        notes(row),
        make("details", {id: "counts-fold"}, make("summary", {}, "NLL of every count"), counts),
    );
    try {
        // A refit is of the distances that are shown; the others were not fitted so.
        const asked = new URLSearchParams(fitOf(query.distance));
        asked.delete("distance");
        if (query.estimator === REFIT) for (const name of [query.distance, query.other].filter(Boolean)) asked.append("distance", name);
        const found = await (await answer(`/row/${row}?${asked}`)).json();
        if (mine !== telling) return;
        fill(strip, who(row, found));
        countTable(row, counts);
    } catch (error) {
        if (mine === telling) fill(strip, error.message);
    }
}

// What all distances say of a row, the one that the votes favour first.
function who(row, answers) {
    const people = sideOf(data.share[row]),
        ends = about.k === 2 ? ["d0", "d1"] : ["d"];
    const nll = (each) => (each.nll === "inf" ? Infinity : Number(each.nll));
    const order = Object.entries(answers).sort((a, b) => nll(a[1]) - nll(b[1]) || a[0].localeCompare(b[0]));
    const bits = (each) => (each.surprise === "inf" ? "∞" : Number(each.surprise).toFixed(1));
    const notes = [];
    const body = order.map(([name, each]) => {
        const right = people === 0 || sideOf(each.P) === 0 ? "" : sideOf(each.P) === people ? "✓" : "✗";
        const bar = make("span", {class: "share", "aria-hidden": "true"}, make("i"), make("b"));
        bar.children[0].style.width = `${100 * each.P}%`;
        bar.children[1].style.left = `${100 * data.share[row]}%`;
        const shown = name === query.distance || name === query.other;
        const tested = each.P_model !== null && Math.abs(each.P_model - each.P) >= 1e-9;
        if (shown && tested)
            notes.push(
                `${name}: the model of all ${about.row}s gives P = ${each.P_model.toFixed(4)}; tested was one that had not seen this ${about.row}.`,
            );
        const error =
            !tested && each.standard_error !== null && each.standard_error !== undefined
                ? ` ± ${Number(each.standard_error).toFixed(4)}`
                : "";
        return make(
            "tr",
            {class: shown ? "shown" : ""},
            make("th", {scope: "row", title: name}, make("button", {click: () => choose(name)}, name)),
            make(
                "td",
                {
                    class: right === "✓" ? "right" : "wrong",
                    "aria-label": right === "✓" ? "chose as people did" : right ? "chose the other" : "undecided",
                },
                right,
            ),
            make(
                "td",
                {title: ends.map((end, at) => `${end} = ${short(each.d[at])}`).join(", ")},
                bar,
                make("span", {}, each.P.toFixed(4)),
                make("small", {}, error),
            ),
            make("td", {}, fixed(nll(each), 3)),
            make("td", {}, bits(each)),
        );
    });
    if (data.other) {
        const favoured = likelier(data.first.nll[row], data.other.nll[row]),
            gap = Math.abs(data.first.nll[row] - data.other.nll[row]);
        notes.unshift(
            favoured
                ? `The votes are ${Math.round(Math.exp(Math.min(gap, 300))).toLocaleString("en")} times as likely under ${favoured > 0 ? query.distance : query.other}.`
                : "These votes do not tell which of the two is right.",
        );
    }
    const heads = ["distance", "", about.k === 2 ? "P of x1 (line: people)" : "P of same (line: people)", "NLL", "bits"];
    return [
        make("h2", {}, `What the distances say of ${about.names[row]}`),
        make(
            "table",
            {class: "said"},
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    heads.map((head) => make("th", {scope: "col"}, head || make("span", {class: "unseen"}, "right"))),
                ),
            ),
            make("tbody", {}, body),
        ),
        ...notes.map((note) => make("p", {class: "note"}, note)),
    ];
}

function countTable(row, place) {
    const M = query.votes || about.M[row],
        observed = M === about.M[row] ? about.n[row] : null;
    const shown = [
        [query.distance, data.first],
        [query.other, data.other],
    ].filter(([, values]) => values);
    const chances = shown.map(([, values]) => logChances(values.P[row], M));
    const middle = observed ?? Math.round(data.first.P[row] * M),
        low = M <= MOST_COUNTS ? 0 : Math.min(Math.max(0, middle - MOST_COUNTS / 2), M - MOST_COUNTS);
    const lines = [];
    for (let j = low; j <= Math.min(M, low + MOST_COUNTS); j++) {
        lines.push(
            make(
                "tr",
                {class: j === observed ? "observed" : ""},
                make("th", {scope: "row"}, String(j), j === observed ? make("span", {class: "tag"}, " observed") : ""),
                chances.map((each) => make("td", {}, fixed(-each[j], 4))),
            ),
        );
    }
    fill(
        place,
        make("label", {for: "votes"}, "If there were ", make("output", {id: "votes-value"}, counted(M, "vote"))),
        make("input", {
            type: "range",
            id: "votes",
            min: 0,
            max: 30,
            step: 1,
            value: query.votes,
            "aria-valuetext": query.votes ? String(query.votes) : "as voted",
            input: (event) => {
                query.votes = event.target.valueAsNumber;
                countTable(row, place);
                get("votes").focus();
            },
            change: (event) => go({votes: event.target.valueAsNumber}, {same: "votes"}),
        }),
        make(
            "div",
            {class: "scroll", tabindex: "0", role: "region", "aria-label": "NLL of each count"},
            make(
                "table",
                {class: "counts"},
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        make("th", {scope: "col"}, "j"),
                        shown.map(([name]) => make("th", {scope: "col"}, `NLL ${name}`)),
                    ),
                ),
                make("tbody", {}, lines),
            ),
        ),
    );
}

function notes(row) {
    const name = about.names[row],
        own = noted[name] ?? {tags: [], note: ""};
    const change = (changes) => {
        const now = {...own, ...changes};
        if (now.tags.length || now.note) noted[name] = now;
        else delete noted[name];
        Object.assign(own, now);
        keep();
        before = "";
        controls();
    };
    return make(
        "details",
        {id: "notes", open: Boolean(own.tags.length || own.note)},
        make("summary", {}, "Tags and note"),
        make("label", {for: "tags"}, "Tags, separated by spaces"),
        make("input", {
            id: "tags",
            value: own.tags.join(" "),
            change: (event) => change({tags: [...new Set(event.target.value.split(/[\s,]+/).filter(Boolean))]}),
        }),
        make("label", {for: "note"}, "Note"),
        make("textarea", {id: "note", rows: "2", change: (event) => change({note: event.target.value})}, own.note),
        make("p", {class: "note"}, "Kept in this browser, and exported with the table."),
    );
}

// ---- Going through the rows

function walk(by, test = () => true) {
    if (!rows.length) return;
    let at = rows.indexOf(chosen);
    for (let tried = 0; tried < rows.length; tried++) {
        at = ((at < 0 && by < 0 ? 0 : at) + by + rows.length) % rows.length;
        if (test(rows[at])) return select_row(rows[at]);
    }
    status("no other in this list");
}
function select_row(row) {
    // Named rows alone are in the address: of several of one name, the first is meant.
    const page = rows.indexOf(row) >= 0 ? Math.floor(rows.indexOf(row) / TABLE) : query.page;
    return go({triplet: about.names[row], page});
}
const disagreement = () => walk(1, (row) => disagrees(row, data));
const sameReference = () =>
    chosen !== null && about.labels.ref && go({ref: query.ref ? "" : nameOf("ref", chosen), triplet: about.names[chosen]});

// ---- The wall and the table

function pages(size, what) {
    const last = Math.max(Math.ceil(rows.length / size) - 1, 0),
        page = Math.min(query.page, last);
    const turnTo = (to, name) =>
        make(
            "button",
            {
                disabled: to < 0 || to > last || to === page,
                click: () => go({page: to}, {same: "page"}),
                "data-page": String(to),
            },
            name,
        );
    return [
        page,
        make(
            "nav",
            {"aria-label": `Pages of the ${what}`},
            turnTo(0, "«"),
            turnTo(page - 1, "‹"),
            make("span", {}, `page ${page + 1} of ${last + 1}`),
            turnTo(page + 1, "›"),
            turnTo(last, "»"),
        ),
    ];
}

function list() {
    get("wall").hidden = !about.roles.length || !about.names.length;
    get("listing").hidden = !about.names.length;
    if (!about.names.length) return;
    const [page, nav] = pages(TABLE, "table");
    const here = rows.slice(page * TABLE, (page + 1) * TABLE);
    if (!get("wall").hidden) {
        const [, own] = pages(WALL, "images");
        fill(
            get("wall"),
            make("div", {class: "heading"}, make("h2", {}, "Images"), own),
            make(
                "div",
                {class: "cards"},
                here.map((row) =>
                    make(
                        "article",
                        {"data-row": String(row), class: "card"},
                        make("button", {class: "name", click: () => select_row(row)}, about.names[row]),
                        pictures(row, {small: true, click: (role) => enlarge(row, role)}),
                        about.k === 1 &&
                            make(
                                "p",
                                {class: "note"},
                                `people ${about.n[row]} of ${about.M[row]} same, ${query.distance} ${data.first.P[row].toFixed(2)}`,
                            ),
                    ),
                ),
            ),
        );
    }
    const names = Object.keys(HEADS).filter((name) => (name !== "group" || about.labels.group) && column(name, data));
    const columns = Object.fromEntries(names.map((name) => [name, column(name, data)]));
    const cell = (name, row) => {
        const value = columns[name][row];
        if (name === "name") return make("th", {scope: "row"}, make("button", {click: () => select_row(row)}, value));
        if (name === "group") return make("td", {class: "text"}, value);
        if (name === "likelier") return make("td", {class: "text"}, {1: query.distance, "-1": query.other}[value] ?? "neither");
        return make(
            "td",
            {},
            name === "n" || name === "M"
                ? String(value)
                : ["d0", "d1", "d"].includes(name)
                  ? short(value)
                  : fixed(value, name === "surprise" ? 1 : 3),
        );
    };
    const head = (name) => {
        const down = query.sort === "-" + name,
            up = query.sort === name,
            names = ["name", "group"].includes(name);
        const [one, two] = names ? [name, "-" + name] : ["-" + name, name];
        return make(
            "th",
            {scope: "col", "aria-sort": down ? "descending" : up ? "ascending" : "none"},
            make(
                "button",
                {"data-sort": name, click: () => go({sort: query.sort === one ? two : one})},
                HEADS[name] || about.row,
                down ? " ▾" : up ? " ▴" : "",
            ),
        );
    };
    fill(
        get("listing"),
        make("div", {class: "heading"}, make("h2", {}, about.row === "pair" ? "Pairs" : "Triplets"), nav),
        rows.length
            ? make(
                  "div",
                  {id: "table", tabindex: "0", role: "region", "aria-label": "Table of rows"},
                  make(
                      "table",
                      {},
                      make("thead", {}, make("tr", {}, names.map(head))),
                      make(
                          "tbody",
                          {},
                          here.map((row) =>
                              make(
                                  "tr",
                                  {
                                      "data-row": String(row),
                                      click: (event) => event.target.closest("button") || select_row(row),
                                  },
                                  names.map((name) => cell(name, row)),
                              ),
                          ),
                      ),
                  ),
              )
            : make("p", {class: "note"}, `No ${about.row} passes these filters.`),
    );
}

// ---- Images at full size

let stage = null;
function enlarge(row, role) {
    const dialog = get("large"),
        reference = about.roles.find((each) => each === "ref" || each === "ref0") ?? about.roles[0];
    const loaded = new Map();
    const ready = (each) => {
        if (!loaded.has(each)) {
            const picture = new Image();
            picture.src = `/image/${row}/${each}`;
            loaded.set(
                each,
                picture.decode().then(() => picture),
            );
        }
        return loaded.get(each);
    };
    const canvas = make("canvas", {role: "img"}),
        told = make("p", {class: "note", role: "status"});
    stage = {row, role, reference, difference: false, timer: null, gain: 4};
    const own = stage;
    own.show = async (each = own.role, flicker = false) => {
        if (!flicker) own.role = each;
        try {
            const picture = await ready(each),
                base = own.difference && each !== reference ? await ready(reference) : null;
            if (stage !== own) return;
            [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
            canvas.style.width = `${picture.naturalWidth / (window.devicePixelRatio || 1)}px`;
            const pen = canvas.getContext("2d", {willReadFrequently: Boolean(base)});
            pen.drawImage(picture, 0, 0);
            if (base) subtract(pen, base, own.gain);
            canvas.setAttribute("aria-label", `${each}: ${nameOf(each, row)}${base ? `, difference from ${reference}` : ""}`);
            canvas.dataset.role = each + (base ? "-difference" : "");
            fill(
                told,
                `${each}: ${nameOf(each, row)}, ${picture.naturalWidth} × ${picture.naturalHeight}${base ? `; ${own.gain} times the difference from ${reference}` : ""}`,
            );
        } catch {
            fill(told, `${each}: ${nameOf(each, row)}: no image`);
        }
        for (const button of dialog.querySelectorAll("button[data-role]"))
            button.setAttribute("aria-pressed", String(button.dataset.role === own.role));
        get("flicker").setAttribute("aria-pressed", String(own.timer !== null));
        get("difference").setAttribute("aria-pressed", String(own.difference));
    };
    own.flicker = () => {
        if (own.timer !== null) {
            clearInterval(own.timer);
            own.timer = null;
        } else {
            if (own.role === reference) own.role = about.roles.find((each) => sides[each] || each === "x") ?? own.role;
            let which = 0;
            own.timer = setInterval(() => own.show((which = 1 - which) ? reference : own.role, true), 400);
        }
        own.show();
    };
    own.subtract = () => {
        own.difference = !own.difference;
        if (own.role === reference) own.role = about.roles.find((each) => sides[each] || each === "x") ?? own.role;
        own.show();
    };
    fill(
        dialog,
        make("div", {class: "heading"}, make("h2", {}, about.names[row]), make("button", {click: () => dialog.close()}, "Close")),
        make(
            "div",
            {class: "tools"},
            about.roles.map((each, at) => make("button", {"data-role": each, title: String(at + 1), click: () => own.show(each)}, each)),
            make("button", {id: "flicker", title: "f", "aria-pressed": "false", click: own.flicker}, `Flicker with ${reference}`),
            make("button", {id: "difference", title: "x", "aria-pressed": "false", click: own.subtract}, "Difference"),
            make("label", {for: "gain"}, "times"),
            make("input", {
                type: "number",
                id: "gain",
                min: 1,
                max: 64,
                value: own.gain,
                input: (event) => {
                    own.gain = event.target.valueAsNumber || 1;
                    own.show();
                },
            }),
        ),
        told,
        make(
            "div",
            {
                class: "stage",
                tabindex: "0",
                role: "region",
                "aria-label": "One pixel of the image is one of the screen",
            },
            canvas,
        ),
    );
    if (!dialog.open) dialog.showModal();
    own.show(role);
}

// Difference from another image of the same size, so many times, about mid-grey.
function subtract(pen, base, gain) {
    const {width, height} = pen.canvas,
        now = pen.getImageData(0, 0, width, height);
    pen.drawImage(base, 0, 0, width, height);
    const then = pen.getImageData(0, 0, width, height);
    for (let at = 0; at < now.data.length; at++) if (at % 4 !== 3) now.data[at] = 128 + gain * (now.data[at] - then.data[at]);
    pen.putImageData(now, 0, 0);
}

// ---- Saved views, keys, what is on hover

function views() {
    const place = get("views").querySelector("div");
    fill(
        place,
        saved.length
            ? make(
                  "ul",
                  {},
                  saved.map(({name, search}, at) =>
                      make(
                          "li",
                          {},
                          make(
                              "a",
                              {
                                  href: location.pathname + search,
                                  click: (event) => {
                                      event.preventDefault();
                                      query = parse(search, about);
                                      history.pushState(null, "", location.pathname + search);
                                      get("views").open = false;
                                      update();
                                  },
                              },
                              name,
                          ),
                          make(
                              "button",
                              {
                                  "aria-label": `forget ${name}`,
                                  click: () => {
                                      saved.splice(at, 1);
                                      keep();
                                      views();
                                  },
                              },
                              "×",
                          ),
                      ),
                  ),
              )
            : make("p", {class: "note"}, "The address holds the whole view. Views saved here stay in this browser."),
        make(
            "form",
            {
                submit: (event) => {
                    event.preventDefault();
                    const name = get("view-name").value.trim();
                    if (!name) return;
                    saved = [...saved.filter((each) => each.name !== name), {name, search: link(query, about)}];
                    keep();
                    views();
                },
            },
            make("input", {id: "view-name", placeholder: "name of this view", "aria-label": "Name of this view"}),
            make("button", {}, "Save"),
        ),
    );
}

function keys() {
    const dialog = get("keys");
    fill(
        dialog,
        make("div", {class: "heading"}, make("h2", {}, "Keys"), make("button", {click: () => dialog.close()}, "Close")),
        make(
            "dl",
            {},
            KEYS.map(([key, what]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, what))),
        ),
        make(
            "p",
            {class: "note"},
            "Click a point to choose its row. Drag over the plane to list what lies in a box; click beside the points to drop it.",
        ),
    );
    dialog.showModal();
}

let peeked = null;
function peek(row, x, y) {
    const place = get("peek");
    if (row === null) {
        peeked = null;
        place.hidden = true;
        return;
    }
    if (row !== peeked) {
        peeked = row;
        fill(
            place,
            make("strong", {}, about.names[row]),
            about.images && about.roles.length ? pictures(row, {small: true}) : null,
            make(
                "span",
                {},
                `${about.n[row]} of ${about.M[row]} ${about.k === 2 ? "chose x1" : "said same"}, P = ${data.first.P[row].toFixed(2)}, ${data.first.surprise[row].toFixed(1)} bits`,
            ),
        );
    }
    place.hidden = false;
    const wide = place.offsetWidth,
        high = place.offsetHeight;
    place.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - wide - 8))}px`;
    place.style.top = `${Math.max(4, y + 16 + high < window.innerHeight ? y + 16 : y - high - 12)}px`;
}

const ACTIONS = {
    n: () => walk(1),
    ArrowRight: () => walk(1),
    p: () => walk(-1),
    ArrowLeft: () => walk(-1),
    d: disagreement,
    r: sameReference,
    e: () =>
        chosen !== null && about.images && about.roles.length && enlarge(chosen, about.roles.includes("x0") ? "x0" : about.roles.at(-1)),
    "/": () => get("search").focus(),
    "?": keys,
};
document.addEventListener("keydown", (event) => {
    if (!about || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    if (get("large").open) {
        const role = about.roles[Number(event.key) - 1];
        if (role) stage.show(role);
        else if (event.key === "f") stage.flicker();
        else if (event.key === "x") stage.subtract();
        else return;
        event.preventDefault();
        return;
    }
    if (get("keys").open || !ACTIONS[event.key]) return;
    event.preventDefault();
    ACTIONS[event.key]();
});

// ---- The start

async function begin() {
    about = await (await answer("/about.json")).json();
    query = parse(location.search, about);
    Object.assign(data, {about, share: Float64Array.from(about.n, (n, row) => n / about.M[row])});
    await remember();
    fill(get("title"), about.name);
    fill(get("verdict"), about.verdict[0] ?? "");
    get("report").hidden = !about.report;
    const told = {pick: select_row, hover: peek};
    planes = {
        first: new Plane(get("first-plane"), {...told, box: (box) => go({box, side: "first", triplet: ""})}),
        other: new Plane(get("other-plane"), {...told, box: (box) => go({box, side: "other", triplet: ""})}),
    };
    get("search").addEventListener("input", (event) => go({search: event.target.value}, {same: "search"}));
    get("export").addEventListener("click", () => save(new Blob([csv(query, data, rows)], {type: "text/csv"}), `${about.row}s.csv`));
    get("export").hidden = !about.names.length;
    get("search").hidden = !about.names.length;
    get("filters").hidden = !about.names.length;
    get("help").addEventListener("click", keys);
    get("views").addEventListener("toggle", () => get("views").open && views());
    get("large").addEventListener("close", () => {
        clearInterval(stage?.timer);
        stage = null;
    });
    window
        .matchMedia("(prefers-color-scheme: dark)")
        .addEventListener("change", () => Object.values(planes).forEach((plane) => plane.redraw()));
    document.body.dataset.ready = "true";
    await update();
    if (about.images) {
        const found = await (await answer("/missing.json")).json();
        if (found.missing)
            fill(
                get("images-note"),
                `${found.missing.toLocaleString("en")} of ${counted(found.images, "image")} ${found.missing === 1 ? "is" : "are"} not in the folder: ${found.names.join(", ")}${found.missing > found.names.length ? ", …" : ""}`,
            );
    } else if (about.roles.length) fill(get("images-note"), "No images: start with twoafc explore RESULTS --images FOLDER to see them.");
}

begin().catch((error) => status(error.message));
