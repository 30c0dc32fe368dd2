// The rows of the page: the chosen one with its images, what all distances say of it, the wall, the table, images at full size.
import {COLUMNS, HEADS, REFIT, column, disagrees, likelier, logChances} from "./query.js";
import {PAGE, answer, choose, counted, fill, fitOf, fixed, get, keep, make, short, status, view} from "./shared.js";
import {controls} from "./side.js";

const MOST_COUNTS = 200;

// ---- One row: images, votes, who was right

const sides = {x0: -1, x1: 1};
const sideOf = (P) => Math.sign(P - 0.5);
const nameOf = (role, row) => view.about.labels[role].names[view.about.labels[role].codes[row]];
// The distances that are drawn, one or two, with their values.
const drawn = () =>
    [
        [view.query.distance, view.data.first],
        [view.query.other, view.data.other],
    ].filter(([, values]) => values);

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
    const people = sideOf(view.data.share[row]),
        voters = view.about.M[row];
    return make(
        "div",
        {class: "images"},
        view.about.roles.map((role) => {
            const side = sides[role],
                by = [];
            if (side && view.about.k === 2) {
                if (people === side)
                    by.push(["people", `${side > 0 ? view.about.n[row] : voters - view.about.n[row]} of ${voters}`]);
                for (const [name, values] of drawn()) {
                    const P = values.P[row];
                    if (sideOf(P) === side) by.push([name, `${Math.round(100 * Math.max(P, 1 - P))} %`]);
                }
            }
            const picture = view.about.images
                ? image(row, role, small)
                : make("span", {class: "none"}, nameOf(role, row));
            return make(
                "figure",
                {class: people !== 0 && people === side && view.about.k === 2 ? "chosen" : ""},
                click && view.about.images
                    ? make(
                          "button",
                          {
                              class: "open",
                              "data-key": `${row} ${role}`,
                              "aria-label": `enlarge ${role}`,
                              click: () => click(role),
                          },
                          picture,
                      )
                    : picture,
                make(
                    "figcaption",
                    {},
                    make("b", {}, role),
                    by.map(([who, share]) =>
                        make("span", {class: who === "people" ? "people" : "said"}, `${who} ${share}`),
                    ),
                ),
            );
        }),
    );
}

function votes(row) {
    const bar = make("div", {class: "bar", "aria-hidden": "true"}, make("div"));
    bar.firstChild.style.width = `${100 * view.data.share[row]}%`;
    return make(
        "div",
        {class: "votes"},
        make(
            "strong",
            {},
            `${view.about.n[row]} of ${view.about.M[row]} ${view.about.k === 2 ? "chose x1" : "said same"}`,
        ),
        bar,
    );
}

let telling = 0,
    state = "";
const folds = {}; // which of them are open
const fold = (id, open, ...children) =>
    make("details", {id, open: folds[id] ?? open, toggle: (event) => (folds[id] = event.target.open)}, ...children);

export async function tell() {
    const place = get("triplet");
    for (const side of ["first", "other"]) view.planes[side].mark(view.chosen);
    for (const each of document.querySelectorAll("[data-row]")) {
        const is = each.dataset.row === String(view.chosen);
        each.classList.toggle("now", is);
        if (is) each.setAttribute("aria-current", "true");
        else each.removeAttribute("aria-current");
    }
    const {distance, other, estimator, sigma, grid, ref} = view.query;
    const now = JSON.stringify([
        view.chosen,
        distance,
        other,
        estimator,
        sigma,
        grid,
        ref,
        view.rows.indexOf(view.chosen),
        view.rows.length,
    ]);
    if (now === state) return; // the fields of the row may be in use
    state = now;
    if (view.chosen === null) fill(get("strip"));
    if (view.chosen === null)
        return fill(
            place,
            make(
                "p",
                {class: "note"},
                view.about.names.length
                    ? `No ${view.about.row} passes these filters.`
                    : "Made from counts: there are surfaces, and no single triplets.",
            ),
        );
    const row = view.chosen,
        mine = ++telling,
        at = view.rows.indexOf(row);
    const step = (by) =>
        make(
            "button",
            {
                click: () => walk(by),
                "data-key": `step ${by}`,
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
            make("h2", {}, view.about.row === "pair" ? "Pair " : "Triplet ", make("span", {}, view.data.ids[row])),
            make("div", {}, step(-1), step(1)),
        ),
        make(
            "p",
            {class: "note"},
            at >= 0
                ? `${(at + 1).toLocaleString("en")} of ${view.rows.length.toLocaleString("en")} in the list`
                : "not in the list",
            view.about.labels.group?.names.length > 1 ? `, ${nameOf("group", row)}` : "",
        ),
        view.about.roles.length > 0 && pictures(row, {small: false, click: (role) => enlarge(row, role)}),
        votes(row),
        make(
            "div",
            {class: "tools"},
            make("button", {id: "next-disagreement", title: "d", click: disagreement}, "Next disagreement"),
            referenceOf(row) &&
                make(
                    "button",
                    {id: "same-reference", title: "r", click: sameReference},
                    view.query.ref ? "All references" : "Same reference",
                ),
        ),
        notes(row),
        fold("counts-fold", false, make("summary", {}, "NLL of every count"), counts),
    );
    try {
        // A refit is of the distances that are shown; the others were not fitted so.
        const asked = new URLSearchParams(fitOf(view.query.distance));
        asked.delete("distance");
        if (view.query.estimator === REFIT)
            for (const name of [view.query.distance, view.query.other].filter(Boolean)) asked.append("distance", name);
        const found = await (await answer(`/row/${row}?${asked}`)).json();
        if (mine !== telling) return;
        fill(strip, who(row, found));
        countTable(row, counts);
    } catch (error) {
        if (mine !== telling) return;
        state = ""; // ask again
        fill(strip, error.message);
    }
}

// What all distances say of a row, the one that the votes favour first.
function who(row, answers) {
    const people = sideOf(view.data.share[row]),
        ends = view.about.k === 2 ? ["d0", "d1"] : ["d"];
    const nll = (each) => each.nll ?? Infinity;
    const order = Object.entries(answers).sort((a, b) => nll(a[1]) - nll(b[1]) || a[0].localeCompare(b[0]));
    const bits = (each) => fixed(each.surprise, 1);
    const notes = [];
    const body = order.map(([name, each]) => {
        const right = people === 0 || sideOf(each.P) === 0 ? "" : sideOf(each.P) === people ? "✓" : "✗";
        const bar = make("span", {class: "share", "aria-hidden": "true"}, make("i"), make("b"));
        bar.children[0].style.width = `${100 * each.P}%`;
        bar.children[1].style.left = `${100 * view.data.share[row]}%`;
        const shown = name === view.query.distance || name === view.query.other;
        const tested = each.P_model !== null && Math.abs(each.P_model - each.P) >= 1e-9;
        if (shown && tested) {
            const why = view.about.crossed
                ? `the model of all ${view.about.row}s gives P = ${each.P_model.toFixed(4)}; tested was one that had not seen this ${view.about.row}`
                : `P is the mean over the seeds; the model of the first, whose surface is drawn, gives ${each.P_model.toFixed(4)}`;
            notes.push(`${name}: ${why}.`);
        }
        const error =
            !tested && each.standard_error !== null && each.standard_error !== undefined
                ? ` ± ${Number(each.standard_error).toFixed(4)}`
                : "";
        return make(
            "tr",
            {class: shown ? "shown" : ""},
            make(
                "th",
                {scope: "row", title: name},
                make("button", {"data-key": name, click: () => choose(name)}, name),
            ),
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
    if (view.data.other) {
        const favoured = likelier(view.data.first.nll[row], view.data.other.nll[row]),
            gap = Math.abs(view.data.first.nll[row] - view.data.other.nll[row]);
        notes.unshift(
            favoured
                ? `The votes are ${Math.round(Math.exp(Math.min(gap, 300))).toLocaleString("en")} times as likely under ${favoured > 0 ? view.query.distance : view.query.other}.`
                : view.data.first.nll[row] === Infinity && view.data.other.nll[row] === Infinity
                  ? "Neither of the two gives these votes any chance."
                  : "These votes do not tell which of the two is right.",
        );
    }
    if (view.query.estimator === REFIT) notes.push("Fitted again: the distances that are shown.");
    const heads = [
        "distance",
        "",
        view.about.k === 2 ? "P of x1 (line: people)" : "P of same (line: people)",
        "NLL",
        "bits",
    ];
    return [
        make("h2", {}, `What the distances say of ${view.data.ids[row]}`),
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
    const M = view.query.votes || view.about.M[row],
        observed = M === view.about.M[row] ? view.about.n[row] : null;
    const shown = drawn();
    const chances = shown.map(([, values]) => logChances(values.P[row], M));
    const middle = observed ?? Math.round(view.data.first.P[row] * M),
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
            value: view.query.votes,
            "aria-valuetext": view.query.votes ? String(view.query.votes) : "as voted",
            input: (event) => {
                view.go({votes: event.target.valueAsNumber}, {same: "votes"});
                countTable(row, place);
            },
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
    const name = view.data.ids[row],
        own = {tags: [], note: "", ...view.noted[name]};
    const change = (changes) => {
        Object.assign(own, changes);
        keep(({noted}) => {
            if (own.tags.length || own.note) noted[name] = own;
            else delete noted[name];
        });
        if (view.query.tag) view.go({triplet: name}, {same: "notes"});
        else controls();
    };
    const words = (text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))];
    return fold(
        "notes",
        Boolean(own.tags.length || own.note),
        make("summary", {}, "Tags and note"),
        make("label", {for: "tags"}, "Tags, separated by spaces"),
        make("input", {
            id: "tags",
            value: own.tags.join(" "),
            input: (event) => change({tags: words(event.target.value)}),
        }),
        make("label", {for: "note"}, "Note"),
        make("textarea", {id: "note", rows: "2", input: (event) => change({note: event.target.value})}, own.note),
        make(
            "p",
            {class: "note"},
            "Kept in this browser, for these data at this address, and exported with the table.",
        ),
    );
}

// ---- Going through the rows

export function walk(by, test = () => true) {
    if (!view.rows.length) return undefined;
    let at = view.rows.indexOf(view.chosen);
    for (let tried = 0; tried < view.rows.length; tried++) {
        at = ((at < 0 && by < 0 ? 0 : at) + by + view.rows.length) % view.rows.length;
        // Going on is one step of the history, however far.
        if (test(view.rows[at])) return view.go({triplet: view.data.ids[view.rows[at]], page: null}, {same: "walk"});
    }
    return status("There is no other in this list.");
}
export const choose_row = (row) => view.go({triplet: view.data.ids[row], page: null});
export const disagreement = () => walk(1, (row) => disagrees(row, view.data));
const referenceOf = (row) => {
    const role = ["ref", "ref0"].find((each) => view.about.labels[each]);
    return role && nameOf(role, row);
};
export const sameReference = () =>
    view.chosen !== null &&
    referenceOf(view.chosen) &&
    view.go({ref: view.query.ref ? "" : referenceOf(view.chosen), triplet: view.data.ids[view.chosen]});

// ---- The wall and the table

function pages(what) {
    const last = Math.max(Math.ceil(view.rows.length / PAGE) - 1, 0),
        page = Math.min(view.page, last);
    const turnTo = (to, name) =>
        make(
            "button",
            {
                disabled: to < 0 || to > last || to === page,
                click: () => view.go({page: to}, {same: "page"}),
                "data-page": String(to),
                "data-key": `${what} ${name}`,
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

export function list() {
    get("wall").hidden = !view.about.roles.length || !view.about.names.length;
    get("listing").hidden = !view.about.names.length;
    if (!view.about.names.length) return;
    const [page, nav] = pages("table");
    const here = view.rows.slice(page * PAGE, (page + 1) * PAGE);
    if (!get("wall").hidden) {
        const [, own] = pages("images");
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
                        make(
                            "button",
                            {class: "name", "data-key": `name ${row}`, click: () => choose_row(row)},
                            view.data.ids[row],
                        ),
                        make("span", {class: "tag"}, (view.noted[view.data.ids[row]]?.tags ?? []).join(" ")),
                        pictures(row, {small: true, click: (role) => enlarge(row, role)}),
                        view.about.k === 1 &&
                            make(
                                "p",
                                {class: "note"},
                                `people ${view.about.n[row]} of ${view.about.M[row]} same, ${view.query.distance} ${view.data.first.P[row].toFixed(2)}`,
                            ),
                    ),
                ),
            ),
        );
    }
    const names = COLUMNS.filter(
        (name) => (name !== "group" || view.about.labels.group) && column(name, view.data),
    );
    const columns = Object.fromEntries(names.map((name) => [name, column(name, view.data)]));
    const cell = (name, row) => {
        const value = columns[name][row];
        if (name === "name")
            return make(
                "th",
                {scope: "row"},
                make("button", {"data-key": `row ${row}`, click: () => choose_row(row)}, value),
            );
        if (name === "group") return make("td", {class: "text", title: value}, value);
        if (name === "likelier")
            return make("td", {class: "text"}, {1: view.query.distance, "-1": view.query.other}[value] ?? "neither");
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
        const down = view.query.sort === "-" + name,
            up = view.query.sort === name,
            names = ["name", "group"].includes(name);
        const [one, two] = names ? [name, "-" + name] : ["-" + name, name];
        return make(
            "th",
            {scope: "col", "aria-sort": down ? "descending" : up ? "ascending" : "none"},
            make(
                "button",
                {
                    "data-sort": name,
                    "data-key": `sort ${name}`,
                    click: () => view.go({sort: view.query.sort === one ? two : one}),
                },
                HEADS[name] || view.about.row,
                down ? " ▾" : up ? " ▴" : "",
            ),
        );
    };
    fill(
        get("listing"),
        make("div", {class: "heading"}, make("h2", {}, view.about.row === "pair" ? "Pairs" : "Triplets"), nav),
        view.rows.length
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
                                      click: (event) => event.target.closest("button") || choose_row(row),
                                  },
                                  names.map((name) => cell(name, row)),
                              ),
                          ),
                      ),
                  ),
              )
            : make("p", {class: "note"}, `No ${view.about.row} passes these filters.`),
    );
}

// ---- Images at full size

export let stage = null;
export function enlarge(row, role) {
    leave();
    const dialog = get("large"),
        compared = view.about.roles.find((each) => sides[each] || each === "x");
    // Quadruples have a reference for each side.
    const referenceFor = (each) =>
        [each === "x1" ? "ref1" : "ref0", "ref", "ref0"].find((name) => view.about.roles.includes(name)) ??
        view.about.roles[0];
    const isReference = (each) => each.startsWith("ref");
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
        caption = make("p", {class: "note", role: "status"});
    stage = {row, role, difference: false, timer: null, gain: 4};
    const own = stage;
    own.show = async (each = own.role, flicker = false) => {
        if (!flicker) own.role = each;
        try {
            const picture = await ready(each),
                reference = referenceFor(own.role),
                base = own.difference && !isReference(each) ? await ready(reference) : null;
            if (stage !== own) return;
            [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
            canvas.style.width = `${picture.naturalWidth / (window.devicePixelRatio || 1)}px`;
            const pen = canvas.getContext("2d", {willReadFrequently: Boolean(base)});
            pen.drawImage(picture, 0, 0);
            if (base) subtract(pen, base, own.gain);
            canvas.setAttribute(
                "aria-label",
                `${each}: ${nameOf(each, row)}${base ? `, difference from ${reference}` : ""}`,
            );
            canvas.dataset.role = each + (base ? "-difference" : "");
            fill(
                caption,
                `${each}: ${nameOf(each, row)}, ${picture.naturalWidth} × ${picture.naturalHeight}${base ? `; ${own.gain} times the difference from ${reference}` : ""}`,
            );
        } catch {
            fill(caption, `${each}: ${nameOf(each, row)}: no image`);
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
            own.difference = false;
            if (isReference(own.role)) own.role = compared ?? own.role;
            let which = 0;
            own.timer = setInterval(() => own.show((which = 1 - which) ? referenceFor(own.role) : own.role, true), 400);
        }
        own.show();
    };
    own.subtract = () => {
        own.difference = !own.difference;
        clearInterval(own.timer);
        own.timer = null;
        if (isReference(own.role)) own.role = compared ?? own.role;
        own.show();
    };
    fill(
        dialog,
        make(
            "div",
            {class: "heading"},
            make("h2", {}, view.data.ids[row]),
            make("button", {"data-key": "close", click: () => dialog.close()}, "Close"),
        ),
        make(
            "div",
            {class: "tools"},
            view.about.roles.map((each, at) =>
                make(
                    "button",
                    {"data-role": each, "data-key": each, title: String(at + 1), click: () => own.show(each)},
                    each,
                ),
            ),
            make(
                "button",
                {id: "flicker", title: "f", "aria-pressed": "false", click: own.flicker},
                "Flicker with reference",
            ),
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
        caption,
        make("p", {class: "note"}, choices(row)),
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

// Who chose what, in words.
function choices(row) {
    const said = [`people: ${view.about.n[row]} of ${view.about.M[row]} ${view.about.k === 2 ? "for x1" : "same"}`];
    for (const [name, values] of drawn())
        said.push(`${name}: P = ${values.P[row].toFixed(2)}, ${fixed(values.surprise[row], 1)} bits`);
    return said.join("; ");
}

// The images are closed: nothing flickers any more.
export function leave() {
    clearInterval(stage?.timer);
    stage = null;
}

// Difference from another image of the same size, so many times, about mid-grey.
function subtract(pen, base, gain) {
    const {width, height} = pen.canvas,
        now = pen.getImageData(0, 0, width, height);
    pen.drawImage(base, 0, 0, width, height);
    const then = pen.getImageData(0, 0, width, height);
    for (let at = 0; at < now.data.length; at++)
        if (at % 4 !== 3) now.data[at] = 128 + gain * (now.data[at] - then.data[at]);
    pen.putImageData(now, 0, 0);
}

// ---- What is on hover

let peeked = null;
export function peek(row, x, y) {
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
            make("strong", {}, view.data.ids[row]),
            view.about.images && view.about.roles.length ? pictures(row, {small: true}) : null,
            make("span", {}, choices(row)),
        );
    }
    place.hidden = false;
    const wide = place.offsetWidth,
        high = place.offsetHeight;
    place.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - wide - 8))}px`;
    place.style.top = `${Math.max(4, y + 16 + high < window.innerHeight ? y + 16 : y - high - 12)}px`;
}
