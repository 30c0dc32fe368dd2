// The plane of the two distances, or the curve of pairs, on a canvas: P or its standard error, and the rows as points.

// As in all figures of the package: diverging about P = 1/2, and safe for colour-blind readers.
export const PROBABILITY = [
    "#7f3b08",
    "#b35806",
    "#e08214",
    "#fdb863",
    "#fee0b6",
    "#f7f7f7",
    "#d8daeb",
    "#b2abd2",
    "#8073ac",
    "#542788",
    "#2d004b",
];
export const ERROR = ["#fcfbfd", "#dadaeb", "#bcbddc", "#9e9ac8", "#807dba", "#6a51a3", "#54278f", "#3f007d"];
export const LARGEST_ERROR = 0.25;
// Okabe and Ito's colours, without black and yellow; more groups take hues round the circle.
const GROUPS = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
// Least bits of each class of surprise, and its opacity: faint where the votes are as expected.
export const SURPRISE = [
    [0, 0.15],
    [2, 0.35],
    [4, 0.6],
    [6, 0.85],
    [9, 1],
];
const PALER = 0.35; // share of white in the surface, so that points on it are seen
export const MARGIN = {left: 66, right: 22, top: 8, bottom: 44};
const REACH = 14; // pixels between a click and the point that it means, at most
const HALVES = [0, 0.5, 1].map((u) => [u, String(u)]); // marks of an axis from 0 to 1
const DRAG = 5; // pixels from which on a press is a box

const mixed = (stops, share) => {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1),
        low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, c) => from + (at - low) * (stops[low + 1][c] - from));
};
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// Classes of points with one colour each: the class of every row, and the colours.
export function classes(colour, data, drawn) {
    const {about, first, share} = data,
        T = about.names.length;
    if (colour === "group" && about.labels.group) {
        const {names, codes} = about.labels.group;
        const inks = names.map((_, k) =>
            names.length <= GROUPS.length ? GROUPS[k] : `hsl(${Math.round(137.508 * k) % 360} 70% ${k % 2 ? 36 : 52}%)`,
        );
        return {of: codes, inks, names};
    }
    if (colour === "votes") {
        return {of: Array.from(share, (each) => Math.round(10 * each)), inks: PROBABILITY, edge: "rgba(29,39,51,0.55)"};
    }
    // The more points there are, the fainter those that are as expected, or they would hide the surface.
    const power = 1 + Math.log10(Math.max(drawn, 1000) / 1000);
    const of = new Uint8Array(T);
    for (let row = 0; row < T; row++)
        for (let k = 1; k < SURPRISE.length; k++) if (first.surprise[row] >= SURPRISE[k][0]) of[row] = k;
    return {of, inks: SURPRISE.map(([, opacity]) => `rgba(0,0,0,${(opacity ** power).toFixed(3)})`)};
}

// Lines of one level over a square grid of values, as segments between the nodes, from 0 to 1.
function contour(values, size, level) {
    const lines = [],
        at = (i, j) => values[i * size + j];
    const between = (a, b) => (level - a) / (b - a);
    for (let i = 0; i < size - 1; i++) {
        for (let j = 0; j < size - 1; j++) {
            const [a, b, c, d] = [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)];
            const cuts = [];
            if (a < level !== b < level) cuts.push([i + between(a, b), j]);
            if (b < level !== c < level) cuts.push([i + 1, j + between(b, c)]);
            if (d < level !== c < level) cuts.push([i + between(d, c), j + 1]);
            if (a < level !== d < level) cuts.push([i, j + between(a, d)]);
            for (let k = 0; k + 1 < cuts.length; k += 2) lines.push([cuts[k], cuts[k + 1]]);
        }
    }
    return lines.map((line) => line.map(([x, y]) => [x / (size - 1), y / (size - 1)]));
}

export class Plane {
    // `handlers` has pick(row), hover(row or null, x, y) and box(corners or null).
    constructor(host, handlers) {
        Object.assign(this, {host, handlers, scene: null, marked: null, drag: null});
        this.base = document.createElement("canvas");
        this.over = document.createElement("canvas");
        this.base.setAttribute("role", "img");
        this.over.setAttribute("aria-hidden", "true");
        host.append(this.base, this.over);
        new ResizeObserver(() => this.redraw()).observe(host);
        this.over.addEventListener("pointerdown", (event) => this.press(event));
        this.over.addEventListener("pointermove", (event) => this.move(event));
        this.over.addEventListener("pointerup", (event) => this.release(event));
        this.over.addEventListener("pointercancel", () => {
            this.drag = null;
            this.overlay();
        });
        this.over.addEventListener("pointerleave", () => handlers.hover(null));
    }

    show(scene) {
        this.scene = scene;
        this.base.setAttribute("aria-label", scene.label);
        this.redraw();
    }

    mark(row) {
        this.marked = row;
        this.overlay();
    }

    // Places on the canvas of u0 and u1, and back.
    place(x, y) {
        const [x0, x1, y0, y1] = this.scene.zoom ?? [0, 1, 0, 1];
        return [MARGIN.left + (this.side * (x - x0)) / (x1 - x0), MARGIN.top + this.side * (1 - (y - y0) / (y1 - y0))];
    }

    back(px, py) {
        const [x0, x1, y0, y1] = this.scene.zoom ?? [0, 1, 0, 1];
        return [
            x0 + ((x1 - x0) * (px - MARGIN.left)) / this.side,
            y0 + (y1 - y0) * (1 - (py - MARGIN.top) / this.side),
        ];
    }

    redraw() {
        const width = this.host.clientWidth;
        if (!this.scene || width < 60) return;
        this.side = Math.max(60, Math.min(width - MARGIN.left - MARGIN.right, 640));
        const height = this.side + MARGIN.top + MARGIN.bottom,
            fine = Math.min(2, window.devicePixelRatio || 1);
        this.host.style.height = height + "px";
        for (const canvas of [this.base, this.over]) {
            canvas.width = Math.round(width * fine);
            canvas.height = Math.round(height * fine);
            canvas.style.width = width + "px";
            canvas.style.height = height + "px";
            canvas.getContext("2d").setTransform(fine, 0, 0, fine, 0, 0);
        }
        const draw = this.base.getContext("2d"),
            style = getComputedStyle(this.host);
        const ink = style.getPropertyValue("--ink"),
            soft = style.getPropertyValue("--soft");
        draw.fillStyle = style.getPropertyValue("--card");
        draw.fillRect(0, 0, width, height);
        draw.save();
        draw.beginPath();
        draw.rect(MARGIN.left, MARGIN.top, this.side, this.side);
        draw.clip();
        draw.fillStyle = "#fff";
        draw.fillRect(MARGIN.left, MARGIN.top, this.side, this.side);
        if (this.scene.k === 2) this.surface(draw);
        this.points(draw);
        if (this.scene.k === 1) this.curve(draw);
        draw.restore();
        this.axes(draw, ink, soft);
        this.overlay();
        this.host.dataset.drawn = String(Number(this.host.dataset.drawn ?? 0) + 1);
    }

    surface(draw) {
        const {size, show} = this.scene,
            values = show === "error" ? this.scene.error : this.scene.surface;
        if (!values) return;
        const stops = (show === "error" ? ERROR : PROBABILITY).map(rgb),
            paler = show === "error" ? 0.1 : PALER;
        const pixels = new ImageData(size, size);
        for (let i = 0; i < size; i++) {
            for (let j = 0; j < size; j++) {
                const value = values[i * size + j],
                    at = 4 * ((size - 1 - j) * size + i);
                const known = Number.isFinite(value);
                const shown = show === "error" ? Math.sqrt(value / LARGEST_ERROR) : value;
                const colour = known ? mixed(stops, shown) : [217, 217, 217];
                for (let c = 0; c < 3; c++) pixels.data[at + c] = colour[c] + paler * (255 - colour[c]);
                pixels.data[at + 3] = 255;
            }
        }
        const small = document.createElement("canvas");
        small.width = small.height = size;
        small.getContext("2d").putImageData(pixels, 0, 0);
        // The outermost pixels are centred on 0 and 1.
        const half = 0.5 / (size - 1),
            [left, top] = this.place(-half, 1 + half),
            [right, bottom] = this.place(1 + half, -half);
        draw.imageSmoothingEnabled = true;
        draw.drawImage(small, left, top, right - left, bottom - top);
        if (show === "error") return;
        draw.strokeStyle = "#1d2733";
        for (const [level, width, dash] of [
            [0.25, 0.7, [4, 3]],
            [0.5, 1.5, []],
            [0.75, 0.7, []],
        ]) {
            draw.lineWidth = width;
            draw.setLineDash(dash);
            draw.beginPath();
            for (const [from, to] of contour(values, size, level)) {
                draw.moveTo(...this.place(...from));
                draw.lineTo(...this.place(...to));
            }
            draw.stroke();
        }
        draw.setLineDash([]);
    }

    curve(draw) {
        const {surface, error, size} = this.scene;
        if (!surface) return;
        const at = (i, P) => this.place(i / (size - 1), Math.min(Math.max(P, 0), 1));
        if (error) {
            draw.fillStyle = "rgba(153,142,195,0.4)";
            draw.beginPath();
            for (let i = 0; i < size; i++) draw.lineTo(...at(i, surface[i] + 2 * error[i]));
            for (let i = size - 1; i >= 0; i--) draw.lineTo(...at(i, surface[i] - 2 * error[i]));
            draw.fill();
        }
        draw.strokeStyle = "#542788";
        draw.lineWidth = 2;
        draw.beginPath();
        for (let i = 0; i < size; i++) draw.lineTo(...at(i, surface[i]));
        draw.stroke();
    }

    points(draw) {
        const {rows, x, y, inks, within} = this.scene,
            fine = Math.min(2, window.devicePixelRatio || 1);
        const radius = Math.min(Math.max(4 * (100 / Math.max(rows.length, 1)) ** 0.17, 1.25), 4);
        // A stamp for each class: drawing a copy is much faster than drawing a circle.
        const stamps = inks.inks.map((ink) => {
            const stamp = document.createElement("canvas"),
                side = Math.ceil(2 * radius + 2);
            stamp.width = stamp.height = side * fine;
            const pen = stamp.getContext("2d");
            pen.scale(fine, fine);
            pen.arc(side / 2, side / 2, radius, 0, 2 * Math.PI);
            pen.fillStyle = ink;
            pen.fill();
            if (inks.edge) {
                pen.strokeStyle = inks.edge;
                pen.lineWidth = 0.5;
                pen.stroke();
            }
            return [stamp, side];
        });
        for (const row of rows) {
            const [px, py] = this.place(x[row], y[row]),
                [stamp, side] = stamps[inks.of[row]];
            draw.globalAlpha = within && !within[row] ? 0.1 : 1;
            draw.drawImage(stamp, px - side / 2, py - side / 2, side, side);
        }
        draw.globalAlpha = 1;
    }

    axes(draw, ink, soft) {
        const {ticks, k} = this.scene,
            [x0, x1, y0, y1] = this.scene.zoom ?? [0, 1, 0, 1];
        draw.strokeStyle = soft;
        draw.lineWidth = 1;
        draw.strokeRect(MARGIN.left + 0.5, MARGIN.top + 0.5, this.side - 1, this.side - 1);
        draw.fillStyle = ink;
        draw.font = "12px system-ui, sans-serif";
        const text = (value) => String(Number(value.toPrecision(3)));
        const every = this.side < 280 ? 2 : 1;
        const named = ticks
            ? Array.from(ticks, (d, at) => [at / 4, text(d)]).filter((_, at) => at % every === 0)
            : HALVES;
        const up = k === 2 ? named : HALVES;
        draw.textAlign = "center";
        draw.textBaseline = "top";
        for (const [u, label] of named) {
            if (u >= x0 && u <= x1) draw.fillText(label, this.place(u, y0)[0], MARGIN.top + this.side + 5);
        }
        draw.textAlign = "right";
        draw.textBaseline = "middle";
        for (const [u, label] of up)
            if (u >= y0 && u <= y1) draw.fillText(label, MARGIN.left - 6, this.place(x0, u)[1]);
        draw.textAlign = "center";
        draw.textBaseline = "alphabetic";
        const across =
            k === 2
                ? this.side < 280
                    ? "d0 (spaced by rank)"
                    : "d0, distance of x0 (spaced by rank)"
                : "distance (spaced by rank)";
        draw.fillText(across, MARGIN.left + this.side / 2, MARGIN.top + this.side + 36);
        draw.save();
        draw.translate(12, MARGIN.top + this.side / 2);
        draw.rotate(-Math.PI / 2);
        draw.fillText(k === 2 ? "d1, distance of x1" : "share of same, and P", 0, 0);
        draw.restore();
    }

    overlay() {
        const draw = this.over.getContext("2d");
        draw.clearRect(0, 0, this.over.width, this.over.height);
        if (!this.scene || !this.side) return;
        const frame = (from, to) => {
            draw.setLineDash([4, 3]);
            draw.lineWidth = 1.2;
            draw.strokeStyle = "#1d2733";
            draw.strokeRect(from[0], from[1], to[0] - from[0], to[1] - from[1]);
            draw.setLineDash([]);
        };
        if (this.drag?.to) frame(this.drag.from, this.drag.to);
        else if (this.scene.box) {
            const [low0, high0, low1, high1] = this.scene.box;
            frame(this.place(low0, high1), this.place(high0, low1));
        }
        if (this.marked === null || this.marked === undefined || !this.scene.x.length) return;
        const [x, y] = this.place(this.scene.x[this.marked], this.scene.y[this.marked]);
        if (
            x < MARGIN.left - 1 ||
            y < MARGIN.top - 1 ||
            x > MARGIN.left + this.side + 1 ||
            y > MARGIN.top + this.side + 1
        )
            return;
        for (const [colour, width] of [
            ["#fff", 6],
            ["#e0007a", 3],
        ]) {
            draw.beginPath();
            draw.arc(x, y, 8, 0, 2 * Math.PI);
            draw.strokeStyle = colour;
            draw.lineWidth = width;
            draw.stroke();
        }
    }

    // The drawn row that is nearest to a place on the canvas, among those that the box holds.
    nearest(px, py) {
        const {rows, x, y, within} = this.scene;
        let best = null,
            least = REACH ** 2;
        for (const row of rows) {
            if (within && !within[row]) continue;
            const [ax, ay] = this.place(x[row], y[row]),
                far = (ax - px) ** 2 + (ay - py) ** 2;
            if (far <= least) [best, least] = [row, far];
        }
        return best;
    }

    press(event) {
        if (event.button !== 0 || !this.scene) return;
        this.drag = {from: [event.offsetX, event.offsetY], to: null};
        this.over.setPointerCapture(event.pointerId);
    }

    move(event) {
        if (!this.scene) return;
        const at = [event.offsetX, event.offsetY];
        if (!this.drag) {
            const row = this.nearest(...at);
            this.over.style.cursor = row === null ? "crosshair" : "pointer";
            this.handlers.hover(row, event.clientX, event.clientY);
            return;
        }
        if (Math.hypot(at[0] - this.drag.from[0], at[1] - this.drag.from[1]) >= DRAG) this.drag.to = at;
        this.overlay();
    }

    release(event) {
        const drag = this.drag;
        this.drag = null;
        if (!drag || !this.scene) return;
        if (!drag.to) {
            const row = this.nearest(event.offsetX, event.offsetY);
            if (row !== null) this.handlers.pick(row);
            else if (this.scene.box) this.handlers.box(null);
            this.overlay();
            return;
        }
        const within = ([x, y]) => [
            Math.min(Math.max(x, MARGIN.left), MARGIN.left + this.side),
            Math.min(Math.max(y, MARGIN.top), MARGIN.top + this.side),
        ];
        const a = this.back(...within(drag.from)),
            b = this.back(...within(drag.to));
        const ends = [Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])];
        if (ends[0] < ends[1] && ends[2] < ends[3]) this.handlers.box(ends.map((end) => Number(end.toPrecision(4))));
        else this.overlay();
    }

    picture() {
        const both = document.createElement("canvas");
        [both.width, both.height] = [this.base.width, this.base.height];
        const draw = both.getContext("2d");
        draw.drawImage(this.base, 0, 0);
        draw.drawImage(this.over, 0, 0);
        return new Promise((done) => both.toBlob(done, "image/png"));
    }
}
