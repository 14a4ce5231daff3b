"""Draws the results of premise_gpu_bench like figures 1 and 2 of JANUS, as an SVG with three panels: the expert
FFN over activated experts; over rows, even and skewed; and beside the attention of its layer, over the batch.

    python3 bench/gpu/premise_plot.py RESULTS [PREMISE.svg]
"""

import json
import math
import pathlib
import re
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 360, 260, 56, 46, 34
COLOURS = ("#1b6ca8", "#d1495b", "#66a182")
PANELS = (
    ("Expert FFN, 64 rows", "activated experts", False,
     (("", r"premise, 64 rows, (\d+) experts activated"),)),
    ("Expert FFN, 32 experts activated", "rows", True,
     tuple((deal, rf"premise, 32 experts activated, (\d+) rows, {deal}")
           for deal in ("even", "skewed", "more skewed"))),
    ("A layer's experts and attention", "batch", True,
     tuple((part, rf"premise, {part} of batch (\d+)") for part in ("experts", "attention"))),
)


def read_times(path: str) -> dict[str, float]:
    """Microseconds by name of the case; the last line of a name counts."""
    times = {}
    for row in map(json.loads, pathlib.Path(path).read_text().splitlines()):
        if "bench" in row and "us" in row:
            times[row["bench"]] = row["us"]
    return times


def points_of(times: dict[str, float], pattern: str) -> list[tuple[int, float]]:
    found = ((re.fullmatch(pattern, name), us) for name, us in times.items())
    return sorted((int(match[1]), us) for match, us in found if match)


def ticks(most: float) -> list[float]:
    """About five round numbers from 0 to above `most`."""
    step = 10.0 ** math.floor(math.log10(most / 4))
    step *= next(m for m in (1, 2, 5, 10) if m * step * 5 >= most)
    return [i * step for i in range(math.ceil(most / step) + 1)]


def panel(title: str, axis: str, is_log: bool, lines: list[tuple[str, list]]) -> str:
    """One diagram, drawn from its origin."""
    all_points = [point for _, points in lines for point in points]
    if not all_points:
        return f'<text x="{LEFT}" y="20" font-weight="bold">{title}: no results</text>'
    values = sorted({x for x, _ in all_points})
    place = (lambda x: math.log2(x)) if is_log else (lambda x: x)
    first, last = (place(values[0]), place(values[-1])) if is_log else (0.0, place(values[-1]))
    y_ticks = ticks(max(us for _, us in all_points))

    def at(x: float, us: float) -> tuple[float, float]:
        along = (place(x) - first) / max(last - first, 1e-9)
        return (LEFT + along * (WIDTH - LEFT - 16),
                HEIGHT - BOTTOM - us / y_ticks[-1] * (HEIGHT - BOTTOM - TOP))

    out = [f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>']
    for us in y_ticks:
        _, y = at(values[0], us)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 16}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{us:g}</text>')
    for x in values if is_log else [v for v in values if v == 1 or v % 4 == 0]:
        out.append(f'<text x="{at(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" '
                   f'text-anchor="middle">{f"{x // 1024}k" if x >= 1024 else x}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{axis}</text>')
    out.append(f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">microseconds</text>')
    for i, (name, points) in enumerate(lines):
        if not points:
            continue
        colour = COLOURS[i]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
                for x, y in (at(*point) for point in points)]
        if name:
            out.append(f'<text x="{LEFT + 8}" y="{TOP + 12 + 14 * i}" fill="{colour}">{name}</text>')
    return "\n".join(out)


def draw(times: dict[str, float]) -> str:
    panels = []
    for i, (title, axis, is_log, lines) in enumerate(PANELS):
        drawn = panel(title, axis, is_log, [(name, points_of(times, p)) for name, p in lines])
        panels.append(f'<g transform="translate({i * WIDTH} 0)">\n{drawn}\n</g>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(PANELS) * WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="11">\n'
            '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(panels) + "\n</svg>\n")


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    times = {name: us for name, us in read_times(sys.argv[1]).items() if name.startswith("premise, ")}
    if not times:
        print(f"{sys.argv[1]}: no line of premise_gpu_bench", file=sys.stderr)
        return 1
    pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else "premise.svg").write_text(draw(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
