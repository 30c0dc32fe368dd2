// The query: what the page shows, as a plain object, as the address of the page, and as the rows that it keeps.
// Nothing here touches the page.

export const REFIT = "refit";
export const RANGES = ["n", "M", "P", "surprise", "disagreement"];
export const COLOURS = ["surprise", "votes", "group"];
// Columns of the table, and their headings; the first is that of the rows.
export const HEADS = {
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
    disagreement: "disagreement",
    likelier: "votes for",
};
export const COLUMNS = Object.keys(HEADS);
// Votes speak for one of two distances where they are so many times as likely under it.
const TELLING = Math.log(10);
const NUMBER = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

// What is shown at the start: the best distance, the most surprising triplet first.
export function start(about) {
    return {
        distance: about.distances[0],
        other: "",
        estimator: about.estimators[0],
        colour: "surprise",
        show: "P",
        sigma: about.sigma,
        grid: about.grid,
        votes: 0,
        search: "",
        group: "",
        ref: "",
        tag: "",
        n: null,
        M: null,
        P: null,
        surprise: null,
        disagreement: null,
        box: null,
        side: "first",
        zoom: null,
        sort: "-surprise",
        page: null, // the one of the chosen row
        triplet: "",
    };
}

// Names of references: quadruples have two in a row.
export const references = (about) => [
    ...new Set(["ref", "ref0", "ref1"].flatMap((name) => about.labels[name]?.names ?? [])),
];

function number(text, low, high, otherwise) {
    const value = NUMBER.test(String(text).trim()) ? Number(text) : NaN;
    return value >= low && value <= high ? value : otherwise;
}

// "0.2..0.8", "4..", "..3", and "4", which earlier pages wrote for "4..".
export function range(text) {
    const parts = String(text ?? "").split("..");
    if (parts.length > 2) return null;
    const ends = parts.map((part) => number(part, -Infinity, Infinity, null));
    if (parts.length === 1) ends.push(null);
    if (parts.some((part, at) => part.trim() !== "" && ends[at] === null)) return null;
    return ends[0] === null && ends[1] === null ? null : ends;
}

const rangeText = ([low, high]) => `${low ?? ""}..${high ?? ""}`;

function corners(text) {
    const ends = String(text ?? "")
        .split(",")
        .map((end) => number(end, -10, 10, NaN));
    return ends.length === 4 && ends[0] < ends[1] && ends[2] < ends[3] ? ends : null;
}

// Whatever is foreign, missing or malformed in an address takes its default.
export function parse(search, about) {
    const query = start(about);
    let given;
    try {
        given = new URLSearchParams(search);
    } catch {
        return query;
    }
    const among = (name, known) => {
        const value = given.get(name);
        if (value !== null && known.includes(value)) query[name] = value;
    };
    among("distance", about.distances);
    among("other", about.distances);
    among("estimator", about.estimators);
    among("colour", about.labels.group ? COLOURS : COLOURS.slice(0, 2));
    among("show", ["P", "error"]);
    among("side", ["first", "other"]);
    among(
        "sort",
        COLUMNS.flatMap((name) => [name, "-" + name]),
    );
    among("group", about.labels.group ? about.labels.group.names : []);
    among("ref", references(about));
    for (const name of ["search", "tag", "triplet"]) query[name] = given.get(name) ?? "";
    for (const name of RANGES) query[name] = range(given.get(name));
    query.box = corners(given.get("box"));
    query.zoom = corners(given.get("zoom"));
    query.votes = Math.round(number(given.get("votes"), 0, 30, 0));
    const page = number(given.get("page"), 0, 1e9, null);
    query.page = page === null ? null : Math.round(page);
    query.sigma = number(given.get("sigma"), 0.004, 0.6, about.sigma);
    query.grid = Math.round(number(given.get("grid"), 5, 100, about.grid));
    if (query.other === query.distance) query.other = ""; // a distance beside itself shows nothing
    if (!query.other) Object.assign(query, {side: "first", disagreement: null});
    return query;
}

// The address from which `parse` makes the same query; defaults are left out.
export function link(query, about) {
    const first = start(about),
        pairs = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value === null || value === "" || value === first[name]) continue;
        if ((name === "sigma" || name === "grid") && query.estimator !== REFIT) continue;
        const text = RANGES.includes(name)
            ? rangeText(value)
            : Array.isArray(value)
              ? value.map((end) => Number(end.toPrecision(4))).join(",")
              : String(value);
        pairs.set(name, text);
    }
    const text = pairs.toString();
    return text ? "?" + text : "";
}

// Names that tell rows apart: the second row of one name is "name (2)".
export function identified(names) {
    const seen = new Map(),
        taken = new Set(names);
    return names.map((name) => {
        let count = (seen.get(name) ?? 0) + 1;
        while (count > 1 && taken.has(`${name} (${count})`)) count++;
        seen.set(name, count);
        return count > 1 ? `${name} (${count})` : name;
    });
}

// A column of the table, by row; null where the query or the data have none.
export function column(name, data) {
    const {about, first, other} = data;
    if (name === "name") return data.ids ?? about.names;
    if (about.labels[name]) {
        const {names, codes} = about.labels[name];
        return codes.map((code) => names[code]);
    }
    if (name === "n" || name === "M") return about[name];
    if (name === "P_other") return other && other.P;
    if (name === "disagreement") return other && first.P.map((P, row) => Math.abs(P - other.P[row]));
    if (name === "likelier") return other && first.nll.map((_, row) => likelier(first.nll[row], other.nll[row]));
    return first[name] ?? null;
}

// Which of two the votes favour: 1 the first, -1 the other, 0 neither.
export function likelier(first, other) {
    const gap = other - first;
    return Math.abs(gap) >= TELLING ? Math.sign(gap) : 0;
}

// Places of the names in their order, in which 2 comes before 10.
function ranks(names) {
    const order = new Intl.Collator("en", {numeric: true}).compare;
    const sorted = Int32Array.from(names.keys()).sort((a, b) => order(names[a], names[b]) || a - b);
    const places = new Int32Array(names.length);
    sorted.forEach((row, place) => (places[row] = place));
    return places;
}

// All names of a row in one text, for the search; made once.
function haystack(about) {
    const columns = Object.values(about.labels);
    return about.names.map((name, row) =>
        [name, ...columns.map(({names, codes}) => names[codes[row]])].join("\n").toLowerCase(),
    );
}

// Rows that pass the filters, in the order of the table of the data: all but the box.
export function selected(query, data) {
    const {about, tags} = data,
        T = about.names.length;
    const keep = new Uint8Array(T).fill(1);
    const drop = (test) => {
        for (let row = 0; row < T; row++) if (keep[row] && !test(row)) keep[row] = 0;
    };
    for (const [name, columns] of [
        ["group", ["group"]],
        ["ref", ["ref", "ref0", "ref1"]],
    ]) {
        if (!query[name]) continue;
        const among = columns.map((each) => about.labels[each]).filter(Boolean);
        const wanted = among.map(({names}) => names.indexOf(query[name]));
        drop((row) => among.some(({codes}, at) => codes[row] === wanted[at]));
    }
    for (const name of RANGES) {
        const values = query[name] && column(name, data);
        if (!values) continue;
        const [low, high] = query[name];
        drop((row) => (low === null || values[row] >= low) && (high === null || values[row] <= high));
    }
    const words = query.search.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
        data.haystack ??= haystack(about);
        drop((row) => words.every((word) => data.haystack[row].includes(word)));
    }
    if (query.tag) drop((row) => (tags[data.ids[row]]?.tags ?? []).includes(query.tag));
    return keep;
}

// Rows within the box; all, where there is none.
export function boxed(query, data) {
    if (!query.box) return null;
    const points = query.side === "other" && data.other ? data.other : data.first;
    const [low0, high0, low1, high1] = query.box;
    const x = points.u0 ?? points.u,
        y = points.u1 ?? data.share;
    return Uint8Array.from(x, (u, row) => (u >= low0 && u <= high0 && y[row] >= low1 && y[row] <= high1 ? 1 : 0));
}

// Rows that are listed, in their order: equal ones stay in the order of the data.
export function listed(query, data, keep, within) {
    const rows = [];
    for (let row = 0; row < keep.length; row++) if (keep[row] && (!within || within[row])) rows.push(row);
    const down = query.sort.startsWith("-"),
        name = query.sort.replace(/^-/, "");
    if (name === "name") data.ranks ??= ranks(data.ids ?? data.about.names);
    const keys = name === "name" ? data.ranks : column(name, data);
    if (!keys) return rows;
    const sign = down ? -1 : 1;
    const before =
        typeof keys[0] === "string"
            ? (a, b) => sign * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) || a - b
            : (a, b) => sign * (keys[a] - keys[b] || 0) || a - b;
    return rows.sort(before);
}

// Whether the distances choose another side, or the one distance another than most people.
export function disagrees(row, data) {
    const side = (P) => Math.sign(P - 0.5),
        one = side(data.first.P[row]);
    const other = data.other ? side(data.other.P[row]) : side(data.share[row]);
    return one * other < 0;
}

// log of the binomial probability of each count j of M votes.
export function logChances(P, M) {
    const chances = [];
    let ways = 0;
    for (let j = 0; j <= M; j++) {
        if (j) ways += Math.log((M - j + 1) / j);
        chances.push(ways + (j ? j * Math.log(P) : 0) + (M - j ? (M - j) * Math.log1p(-P) : 0));
    }
    return chances;
}

// The rows as bits, the first row's first: what the server reads.
export function bits(rows, T) {
    const bytes = new Uint8Array(Math.ceil(T / 8));
    for (const row of rows) bytes[row >> 3] |= 1 << (row & 7);
    return bytes;
}

const quoted = (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// The listed rows with all that is known of them, as CSV.
export function csv(query, data, rows) {
    const {about, first, other, tags} = data;
    const named = [[about.row, about.names]];
    for (const name of Object.keys(about.labels)) named.push([name, column(name, data)]);
    named.push(["n", about.n], ["M", about.M]);
    const estimator =
        query.estimator === REFIT
            ? `density(sigma=${Number(query.sigma.toPrecision(4))}, grid_size=${query.grid})`
            : query.estimator;
    named.push(["estimator", {at: () => estimator}]);
    for (const [name, points] of [
        [query.distance, first],
        [query.other, other],
    ]) {
        if (!points) continue;
        for (const each of [...(about.k === 2 ? ["d0", "d1"] : ["d"]), "P", "nll", "surprise"]) {
            named.push([`${name}_${each}`, points[each]]);
        }
    }
    if (other) {
        named.push(["disagreement", column("disagreement", data)]);
        const likelierOf = column("likelier", data);
        named.push(["likelier", {at: (row) => ({1: query.distance, "-1": query.other})[likelierOf[row]] ?? ""}]);
    }
    if (Object.keys(tags).length) {
        named.push(["tags", {at: (row) => (tags[data.ids[row]]?.tags ?? []).join(" ")}]);
        named.push(["note", {at: (row) => tags[data.ids[row]]?.note ?? ""}]);
    }
    const lines = [named.map(([name]) => quoted(name)).join(",")];
    for (const row of rows) lines.push(named.map(([, values]) => quoted(values.at(row))).join(","));
    return lines.join("\n") + "\n";
}
