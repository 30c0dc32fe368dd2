// The side of the page: ranking, filters, the fit, the legend, and saved views.
import {COLOURS, RANGES, REFIT, link, parse, references} from "./query.js";
import {ERROR, LARGEST_ERROR, PROBABILITY, SURPRISE, classes} from "./plane.js";
import {choose, fill, get, keep, make, short, status, text, view} from "./shared.js";

const MOST_GROUPS = 12;
const RANGE_NAMES = {n: "n", M: "M", P: "P", surprise: "Surprise, bits", disagreement: "Disagreement of P"};

// ---- The ranking

function ranking() {
    const estimator = view.query.estimator === REFIT ? view.about.estimators[0] : view.query.estimator;
    const known = view.about.ranking.filter((each) => each.estimator === estimator);
    const listed = known.map((each) => each.distance);
    const shown = [
        ...known,
        ...view.about.distances.filter((name) => !listed.includes(name)).map((distance) => ({distance})),
    ];
    const ends = known.flatMap((each) => [each.nll_low ?? each.nll, each.nll_high ?? each.nll]).filter(Number.isFinite);
    const low = Math.min(...ends),
        span = Math.max(...ends) - low || 1;
    const place = (value) => `${Math.min(Math.max((100 * (value - low)) / span, 0), 100)}%`;
    const by =
        view.about.estimators.length > 1
            ? `, by ${estimator}${view.query.estimator === REFIT ? " as evaluated" : ""}`
            : "";
    fill(
        get("ranking"),
        make(
            "div",
            {class: "heading"},
            make("h2", {}, "Distances"),
            make("span", {class: "note"}, `NLL, ${view.about.k === 2 ? "2AFC %" : "AP %"}${by}`),
        ),
        make(
            "ol",
            {},
            shown.map((each) => {
                const interval = Number.isFinite(each.nll_low)
                    ? `95 % interval ${each.nll_low.toFixed(3)} to ${each.nll_high.toFixed(3)}`
                    : null;
                const bar = make("span", {class: "interval", "aria-hidden": "true"}, make("i"), make("b"));
                const [line, dot] = bar.children;
                line.style.left = place(each.nll_low ?? each.nll);
                line.style.right = `calc(100% - ${place(each.nll_high ?? each.nll)})`;
                dot.style.left = place(each.nll);
                bar.classList.toggle("unknown", !Number.isFinite(each.nll));
                const error = Number.isFinite(each.nll_se) ? ` ± ${each.nll_se.toFixed(3)}` : "";
                return make(
                    "li",
                    {"data-distance": each.distance},
                    pick(each.distance),
                    make(
                        "div",
                        {class: "scores", title: interval},
                        bar,
                        make(
                            "span",
                            {class: "value"},
                            Number.isFinite(each.nll) ? `${each.nll.toFixed(3)}${error} ` : "NLL not finite ",
                            each.nll_letters
                                ? make(
                                      "sup",
                                      {title: "distances that share a letter cannot be told apart"},
                                      each.nll_letters,
                                  )
                                : null,
                            Number.isFinite(each.score)
                                ? make("span", {class: "soft"}, ` ${each.score.toFixed(1)}`)
                                : null,
                        ),
                    ),
                );
            }),
        ),
    );
}

function pick(name) {
    const first = name === view.query.distance,
        other = name === view.query.other;
    return make(
        "div",
        {class: "pick" + (first ? " first" : other ? " other" : "")},
        make(
            "button",
            {
                "data-key": `show ${name}`,
                "aria-pressed": String(first),
                title: `show ${name}`,
                click: () => choose(name),
            },
            name,
        ),
        make(
            "button",
            {
                class: "beside",
                "data-key": `beside ${name}`,
                "aria-pressed": String(other),
                disabled: first,
                "aria-label": `compare with ${name}`,
                title: other ? "compare no longer" : `compare ${view.query.distance} with ${name}`,
                click: () => view.go({other: other ? "" : name}),
            },
            "vs",
        ),
    );
}

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
    const {group} = view.about.labels,
        refs = references(view.about),
        groups = group && group.names.length > 1,
        wanted = (name) => [view.query[name]?.[0] ?? "", view.query[name]?.[1] ?? ""];
    const between = (name) =>
        make(
            "fieldset",
            {class: "range", disabled: name === "disagreement" && !view.query.other},
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
                        const ends = [...(view.query[name] ?? [null, null])];
                        ends[at] = event.target.value === "" ? null : event.target.valueAsNumber;
                        if (Number.isNaN(ends[at])) return;
                        view.go({[name]: ends.every((each) => each === null) ? null : ends}, {same: name + end});
                    },
                }),
            ),
        );
    const tags = [...new Set(Object.values(view.noted).flatMap((each) => each.tags ?? []))].sort();
    fill(
        get("filters"),
        make(
            "div",
            {class: "heading"},
            make("h2", {}, "Filters"),
            make("button", {id: "clear", click: clear}, "Clear"),
        ),
        groups &&
            select(
                "group",
                "Group",
                [["", "all"], ...[...group.names].sort().map((name) => [name, name])],
                view.query.group,
                (value) => view.go({group: value}),
            ),
        refs.length > 0 &&
            make(
                "div",
                {class: "field"},
                make("label", {for: "ref"}, "Reference"),
                make("input", {
                    id: "ref",
                    list: "refs",
                    value: view.query.ref,
                    placeholder: "all",
                    change: (event) => {
                        const value = event.target.value;
                        if (value === "" || refs.includes(value)) view.go({ref: value});
                        else status(`There is no reference ${value}.`);
                    },
                }),
                make(
                    "datalist",
                    {id: "refs"},
                    refs.slice(0, 2000).map((name) => make("option", {value: name})),
                ),
            ),
        make(
            "div",
            {class: "ranges"},
            RANGES.filter((name) => name !== "disagreement" || view.about.distances.length > 1).map(between),
        ),
        tags.length > 0 &&
            select("tag", "Tag", [["", "any"], ...tags.map((tag) => [tag, tag])], view.query.tag, (value) =>
                view.go({tag: value}),
            ),
        select(
            "colour",
            "Points coloured by",
            COLOURS.filter((name) => name !== "group" || groups).map((name) => [
                name,
                {surprise: "surprise", votes: "votes n/M", group: "group"}[name],
            ]),
            view.query.colour,
            (value) => view.go({colour: value}),
        ),
    );
}
function clear() {
    if (document.activeElement?.type === "number") document.activeElement.blur(); // it would keep what was typed
    view.go({
        search: "",
        group: "",
        ref: "",
        tag: "",
        box: null,
        ...Object.fromEntries(RANGES.map((name) => [name, null])),
    });
}

function fit() {
    const refit = view.about.refit === null,
        names = view.about.estimators.map((name) => [name, name === REFIT ? "density, refitted" : name]);
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
                disabled: !refit,
                input: (event) => change(event.target.valueAsNumber),
            }),
        );
    fill(
        get("fit").querySelector("div"),
        names.length > 1 &&
            select("estimator", "Estimator", names, view.query.estimator, (value) => view.go({estimator: value})),
        select(
            "show",
            "Surface",
            [
                ["P", "P"],
                ["error", "standard error of P"],
            ],
            view.query.show,
            (value) => view.go({show: value}),
        ),
        slider(
            "sigma",
            "Width σ",
            -10,
            18,
            0.5,
            4 * Math.log2(44 * view.query.sigma),
            view.query.estimator === REFIT ? short(Number(view.query.sigma.toPrecision(3))) : "–",
            (step) =>
                view.go({estimator: REFIT, sigma: Number((2 ** (step / 4) / 44).toPrecision(6))}, {same: "sigma"}),
        ),
        slider(
            "grid",
            "Grid size",
            5,
            100,
            1,
            view.query.grid,
            view.query.estimator === REFIT ? view.query.grid : "–",
            (grid) => view.go({estimator: REFIT, grid}, {same: "grid"}),
        ),
        make(
            "p",
            {class: "note", id: "refit-note"},
            refit ? "σ or grid size moved: the density is fitted again." : `No refit: ${view.about.refit}.`,
        ),
    );
}

export function legend() {
    const dot = (colour, name) => {
        const mark = make("i");
        mark.style.backgroundImage = `linear-gradient(${colour}, ${colour})`;
        return make("span", {class: "dot"}, mark, name);
    };
    let shown = [];
    if (view.query.colour === "votes")
        shown = [
            dot(PROBABILITY[0], "0"),
            dot(PROBABILITY[5], "½"),
            dot(PROBABILITY[10], view.about.k === 2 ? "1, share of votes for x1" : "1, share of same"),
        ];
    else if (view.query.colour === "group" && view.about.labels.group) {
        const inks = classes("group", view.data, 1);
        shown = inks.names.slice(0, MOST_GROUPS).map((name, k) => dot(inks.inks[k], name));
        if (inks.names.length > MOST_GROUPS) shown.push(text(`and ${inks.names.length - MOST_GROUPS} more`));
    } else {
        const {inks} = classes(
            "surprise",
            view.data,
            view.data.kept.reduce((sum, each) => sum + each, 0),
        );
        shown = SURPRISE.map(([least], k) =>
            dot(inks[k], k + 1 < SURPRISE.length ? `${least}–${SURPRISE[k + 1][0]}` : `${least}+ bits of surprise`),
        );
    }
    const scale = make("span", {class: "scale", "aria-hidden": "true"}),
        error = view.query.show === "error";
    scale.style.backgroundImage = `linear-gradient(90deg, ${(error ? ERROR : PROBABILITY).join(", ")})`;
    const surface =
        view.about.k === 1
            ? [text("Line: P of same, with two standard errors.")]
            : error
              ? [text("Standard error of P: 0 "), scale, text(` ${LARGEST_ERROR} and more, finer towards 0.`)]
              : [text("P of x1: 0 "), scale, text(" 1; lines at ¼ (dashed), ½ (thick), ¾.")];
    fill(
        get("legend"),
        view.about.names.length > 0 && make("span", {class: "points"}, "Points: ", shown),
        make("span", {class: "surface"}, surface),
    );
}

// Each part is made anew where something that it shows has changed: a click on another part is not lost meanwhile.
const parts = {};
export function controls() {
    const {distance, other, estimator, sigma, grid, show, colour, group, ref, tag} = view.query;
    const ends = RANGES.map((name) => view.query[name]),
        tags = Object.values(view.noted).map((each) => each.tags);
    for (const [draw, ...shown] of [
        [ranking, distance, other, estimator],
        [filters, Boolean(other), colour, group, ref, tag, ends, tags],
        [fit, estimator, sigma, grid, show],
    ]) {
        const now = JSON.stringify(shown);
        if (parts[draw.name] === now) continue;
        parts[draw.name] = now;
        draw();
    }
    if (document.activeElement !== get("search")) get("search").value = view.query.search;
    get("other-panel").hidden = !other;
    document.querySelector("main").classList.toggle("two", Boolean(other));
}

// ---- Saved views

export function views() {
    const place = get("views").querySelector("div");
    fill(
        place,
        view.saved.length
            ? make(
                  "ul",
                  {},
                  view.saved.map(({name, search}, at) =>
                      make(
                          "li",
                          {},
                          make(
                              "a",
                              {
                                  href: location.pathname + search,
                                  click: (event) => {
                                      event.preventDefault();
                                      get("views").open = false;
                                      view.go(parse(search, view.about));
                                  },
                              },
                              name,
                          ),
                          make(
                              "button",
                              {
                                  "aria-label": `forget ${name}`,
                                  click: () => {
                                      keep(({saved}) => saved.splice(at, 1));
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
                    keep((now) => {
                        now.saved = [
                            ...now.saved.filter((each) => each.name !== name),
                            {name, search: link(view.query, view.about)},
                        ];
                    });
                    views();
                },
            },
            make("input", {id: "view-name", placeholder: "name of this view", "aria-label": "Name of this view"}),
            make("button", {}, "Save"),
        ),
    );
}
