// What the page does by itself: keys, clicks in the table, the ring about the chosen point, and the address.
(function () {
    "use strict";
    const none = () => window.dash_clientside.no_update;
    const set = (id, data) => window.dash_clientside.set_props(id, {data: data});
    const plot = (id) => document.querySelector("#" + id + " .js-plotly-plot");

    const SELECTS = ["distance", "other", "estimator", "colour", "group"];

    // The ring about the chosen point lies over the plot: moving it draws nothing else anew.
    let marks = [];
    function ring(id, mark) {
        const graph = plot(id);
        if (!graph || !graph._fullLayout || !graph._fullLayout.xaxis) return;
        let shown = graph.querySelector(".ring");
        if (!shown) {
            shown = document.createElement("div");
            shown.className = "ring";
            graph.appendChild(shown);
            graph.on("plotly_afterplot", place);
            graph.on("plotly_relayout", place);
        }
        const {xaxis, yaxis} = graph._fullLayout;
        const x = mark && xaxis.l2p(mark[0]), y = mark && yaxis.l2p(mark[1]);
        const inside = mark && x >= -1 && y >= -1 && x <= xaxis._length + 1 && y <= yaxis._length + 1;
        shown.style.display = inside ? "block" : "none";
        if (inside) shown.style.transform = `translate(${xaxis._offset + x}px, ${yaxis._offset + y}px)`;
    }
    function place() {
        ring("first-plane", marks[0]);
        ring("other-plane", marks[1]);
    }
    // A plot may come after the mark that belongs on it.
    function placed(tries) {
        place();
        const waiting = ["first-plane", "other-plane"].slice(0, marks.length).some((id) => {
            const graph = plot(id);
            return !graph || !graph.querySelector(".ring");
        });
        if (waiting && tries > 0) window.setTimeout(() => placed(tries - 1), 50);
    }

    // Rows of the points of a class, as 32-bit numbers, unpacked once.
    const unpacked = new Map();
    function row(graph, point) {
        const packed = graph.data[point.curveNumber].meta.rows;
        if (!unpacked.has(packed)) {
            if (unpacked.size > 64) unpacked.clear();
            unpacked.set(packed, new Int32Array(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer));
        }
        return unpacked.get(packed)[point.pointNumber];
    }

    window.dash_clientside = Object.assign({}, window.dash_clientside, {
        explore: {
            click: function (first, other) {
                const asked = window.dash_clientside.callback_context.triggered[0];
                const data = asked && asked.value;
                const graph = asked && plot(asked.prop_id.split(".")[0]);
                const hit = (each) => graph.data[each.curveNumber] && graph.data[each.curveNumber].meta;
                const point = graph && data && data.points && data.points.find(hit);
                return point ? row(graph, point) : none();
            },
            box: function (first, other, now) {
                const asked = window.dash_clientside.callback_context.triggered[0];
                if (!asked) return none();
                const range = asked.value && asked.value.range;
                const side = asked.prop_id.startsWith("other") ? "other" : "first";
                if (!range) return !asked.value && now && now.side === side ? null : none();
                const box = [].concat(range.x, range.y).map((end) => Number(end.toPrecision(4)));
                if (now && now.side === side && String(now.box) === String(box)) return none();
                return {box: box, side: side};
            },
            mark: function (given) {
                marks = given || [];
                placed(400);
                return none();
            },
            // Which row is chosen is told here, so that choosing another does not make the table anew.
            chosen: function (row) {
                waiting = 0;
                if (steps !== 0) window.setTimeout(() => step(0));
                window.requestAnimationFrame(() => {
                    document.querySelectorAll("#table tr[data-row]").forEach((each) => {
                        const is = each.dataset.row === String(row);
                        each.classList.toggle("chosen", is);
                        if (is) each.setAttribute("aria-current", "true");
                        else each.removeAttribute("aria-current");
                    });
                });
                return none();
            },
            address: function (query) {
                if (query !== undefined && query !== null && query !== window.location.search) {
                    window.history.replaceState(null, "", window.location.pathname + query);
                }
                return none();
            },
            // Points are drawn as finely as the screen shows them, and no finer, which takes time.
            sharpness: function (search, config) {
                const fine = Object.assign({}, config, {plotGlPixelRatio: Math.min(2, window.devicePixelRatio || 1)});
                return [fine, fine];
            },
            // A slider that is moved asks for a fit of its own.
            moved: function (step, grid, started, estimator) {
                if (!started || estimator === "refit") return none();
                return Number(step) === started[0] && Number(grid) === started[1] ? none() : "refit";
            },
            reflect: function (...chosen) {
                document.querySelectorAll("select[data-store]").forEach((each) => {
                    const value = chosen[SELECTS.indexOf(each.dataset.store)];
                    if (typeof value === "string") each.value = value;
                });
                return none();
            },
            legend: (colour) => "by-" + colour,
            // What the density shown was fitted with; a spline or a network has neither.
            told: function (step, grid, votes, evaluated, estimator) {
                const own = [Math.pow(2, Number(step) / 4) / 44, grid];
                const [sigma, size] = estimator === "refit" ? own : evaluated || [null, null];
                return [
                    sigma === null ? "–" : String(Number(Number(sigma).toPrecision(3))),
                    size === null ? "–" : String(size),
                    Number(votes) === 0 ? "as voted" : String(votes),
                    estimator !== "refit" && evaluated ? "as evaluated; " : "",
                ];
            },
            alone: (other) => !other,
        },
    });

    // One step is asked for at a time; those that come before its answer add up, and are the next.
    let waiting = 0, steps = 0;
    function step(by) {
        steps += by;
        if (steps === 0 || Date.now() - waiting < 3000) return;
        waiting = Date.now();
        set("step", {by: steps, at: waiting});
        steps = 0;
    }

    document.addEventListener("change", function (event) {
        const store = event.target.dataset && event.target.dataset.store;
        if (store) set(store, event.target.value);
    });

    // An image that does not come, or is none, is told in a word: the style sheet has it.
    for (const [what, broken] of [["error", true], ["load", false]]) {
        document.addEventListener(what, function (event) {
            const figure = event.target.closest && event.target.closest("#triplet figure");
            if (figure) figure.classList.toggle("broken", broken);
        }, true);
    }

    document.addEventListener("click", function (event) {
        const hit = event.target.closest && event.target.closest("[data-row], [data-sort], [data-page], [data-step]");
        if (!hit) return;
        const asked = hit.dataset;
        if (asked.step) step(Number(asked.step));
        else if (asked.sort) set("sort", asked.sort);
        else if (asked.page) set("page", {page: Number(asked.page), at: Date.now()});
        else if (asked.row) set("row", Number(asked.row));
    });

    const BUSY = "input, textarea, select, [contenteditable]";
    const STEPS = {n: 1, ArrowRight: 1, p: -1, ArrowLeft: -1};

    document.addEventListener("keydown", function (event) {
        const by = STEPS[event.key];
        // A key that is meant for a control, or for the browser, is left to it.
        if (!by || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
        if (event.target.closest && event.target.closest(BUSY)) return;
        event.preventDefault();
        step(by);
    });
})();
