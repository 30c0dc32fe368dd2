"""Draw the layers of the package: python docs/architecture_picture.py writes docs/images/architecture.svg."""

from __future__ import annotations

from pathlib import Path

LAYERS = (
    ("cli",),
    ("demo", "explore", "reproduce"),
    ("planning", "torch"),
    ("evaluation",),
    ("results", "measurement", "fetch"),
    ("diagnostics", "plots", "scale", "worlds"),
    ("inference", "estimators", "distances", "datasets"),
    ("table", "metrics"),
    ("core", "images"),
    ("files",),
    ("arrays", "errors", "public"),
)
WIDTH, HEIGHT, GAP = 720, 34, 10


def picture() -> str:
    """Boxes for subpackages, one row for each layer."""
    boxes = []
    for row, packages in enumerate(LAYERS):
        width = (WIDTH - GAP * (len(packages) + 1)) / len(packages)
        y = GAP + row * (HEIGHT + GAP)
        for place, package in enumerate(packages):
            x = GAP + place * (width + GAP)
            boxes.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="5" fill="#f3eef8" '
                f'stroke="#542788"/><text x="{x + width / 2:.0f}" y="{y + 22}" text-anchor="middle">{package}</text>'
            )
    height = GAP + len(LAYERS) * (HEIGHT + GAP)
    size = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *boxes, "</svg>", ""])


if __name__ == "__main__":
    (Path(__file__).parent / "images" / "architecture.svg").write_text(picture(), encoding="utf-8")
