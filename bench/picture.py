"""Curves as SVG, drawn by hand: a page of docs needs no plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44
COLOURS = ("#9db8d2", "#b3261e", "#2e7d32")


@dataclass(frozen=True)
class Curve:
    """Points (x, y) under a name; y goes up by its logarithm."""

    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


@dataclass(frozen=True)
class Mark:
    """A line across the picture, with a word."""

    at: float
    word: str


def draw(
    title: str, curves: Sequence[Curve], *, marks: Sequence[Mark] = (), level: Mark | None = None, across: str = "", up: str = ""
) -> str:
    """The picture as SVG.

    >>> draw("t", [Curve("c", [(0, 1), (1, 10)])]).startswith("<svg")
    True
    """
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [max(y, 1e-3) for curve in curves for _, y in curve.points]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    high = max(high, low + 1)
    right = max(xs) or 1.0

    def x_of(x: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * x / right, 1)

    def y_of(y: float) -> float:
        share = (math.log10(max(y, 1e-3)) - low) / (high - low)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, title, size=14),
        _text(WIDTH - RIGHT, HEIGHT - 10, across, anchor="end"),
        _text(LEFT, TOP - 6, up, colour="#555"),
    ]
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        out.append(_line(LEFT, y, WIDTH - RIGHT, y, "#e4e4e4"))
        out.append(_text(LEFT - 6, y + 4, f"{10.0**power:,.10g}", anchor="end", colour="#555"))
    for x in _ticks(right):
        out.append(_text(x_of(x), HEIGHT - BOTTOM + 16, f"{x:g}", anchor="middle", colour="#555"))
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        if curve.dots:
            out += [f'<circle cx="{x_of(x)}" cy="{y_of(y)}" r="1.3" fill="{colour}"/>' for x, y in curve.points]
        else:
            path = " ".join(f"{x_of(x)},{y_of(y)}" for x, y in curve.points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        out.append(_text(LEFT + 8 + 150 * number, HEIGHT - 10, curve.name, colour=colour))
    for mark in marks:
        out.append(_line(x_of(mark.at), TOP, x_of(mark.at), HEIGHT - BOTTOM, "#333", dashed=True))
        out.append(_text(x_of(mark.at) + 4, TOP + 12, mark.word))
    if level is not None:
        out.append(_line(LEFT, y_of(level.at), WIDTH - RIGHT, y_of(level.at), "#2e7d32", dashed=True))
        out.append(_text(WIDTH - RIGHT, y_of(level.at) - 4, f"{level.word}: {level.at:,.0f}", anchor="end", colour="#2e7d32"))
    return "\n".join([*out, "</svg>"]) + "\n"


def _ticks(right: float) -> list[float]:
    step = 10 ** math.floor(math.log10(right))
    step = next(s for s in (step / 5, step / 2, step) if right / s <= 12)
    return [step * i for i in range(int(right / step) + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"{dashes}/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#111", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(words)}</text>'
