"""A line plot as SVG, readable on a light and on a dark page, made of nothing but its points: the same points, the same file."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 44  # margins; the names of lines stand on the right
COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
GREY = "#888888"
N_TICKS = 5

Points = Sequence[tuple[float, float]]


def line_plot(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """Lines by name, their points in the order of x."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(0.0, *ys), max(ys))
    x_span, y_span = (x_ticks[0], max(x_ticks[-1], max(xs))), (y_ticks[0], max(y_ticks[-1], max(ys)))
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def at_x(x: float) -> float:
        return LEFT + (x - x_span[0]) / (x_span[1] - x_span[0]) * (right - LEFT)

    def at_y(y: float) -> float:
        return bottom - (y - y_span[0]) / (y_span[1] - y_span[0]) * (bottom - TOP)

    parts = [_text(LEFT, 18, title, size=14)]
    for tick in y_ticks:
        y = at_y(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{GREY}" stroke-opacity=".3"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(tick), anchor="end"))
    parts += [_text(at_x(tick), bottom + 16, _number(tick), anchor="middle") for tick in x_ticks]
    parts.append(_text((LEFT + right) / 2, HEIGHT - 8, x_label, anchor="middle"))
    parts.append(_text(LEFT, TOP - 4, y_label))
    for number, (name, points) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        path = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="2.5" fill="{color}"/>' for x, y in points
        ]
        parts.append(_text(right + 12, TOP + 10 + 18 * number, name, color=color))
    drawn = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif">\n<title>{html.escape(title)}</title>\n{drawn}\n</svg>\n'
    )


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers from below the least to the most."""
    if most <= least:
        most = least + 1
    step = 10.0 ** math.floor(math.log10((most - least) / N_TICKS))
    step *= next(by for by in (1, 2, 5, 10) if (most - least) / (by * step) <= N_TICKS)
    first = math.floor(least / step)
    return [round(k * step, 10) for k in range(first, math.floor(most / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value / 1000:,g}k" if abs(value) >= 10_000 else f"{value:g}"


def _text(x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", color: str = GREY) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"'
    return f"<text {where}>{html.escape(text)}</text>"
