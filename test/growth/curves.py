#!/usr/bin/env python3
"""The curves of docs/performance.md from simulations: curves.py SIMULATE FILE.svg; prints what it draws."""
import math
import sys

from report import RECORD, simulated

SMALL = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000]
LARGE = [2000, 5000, 10000, 20000, 50000, 100000]
RECORDS = 9  # of each node: a few more bytes than a flush carries in its request
RING = 1000  # nodes of a ring at one server
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#555555"]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 460, 340, 62, 44, 32, 48


class Panel:
    """Curves over the number of nodes, with logarithmic axes."""

    def __init__(self, x, y, title, unit, y_range, x_max):
        self.x, self.y, self.unit, self.low, self.high, self.x_max = x + LEFT, y + TOP, unit, *y_range, x_max
        self.wide, self.tall, self.curves = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, 0
        self.parts = [f'<text x="{self.x}" y="{y + 18}" font-weight="bold">{title}</text>']
        self.text(self.x, y + 36, "start", unit)
        self.text(self.x + self.wide / 2, self.y + self.tall + 36, "middle", "nodes")
        self.grid()

    def text(self, x, y, anchor, text, colour="black"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>')

    def line(self, points, style):
        self.parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" {style}/>')

    def at(self, nodes, value):
        value = min(max(value, self.low), self.high)
        return (
            self.x + self.wide * math.log(nodes) / math.log(self.x_max),
            self.y + self.tall * (1 - math.log(value / self.low) / math.log(self.high / self.low)),
        )

    def grid(self):
        for power in range(round(math.log10(self.x_max)) + 1):
            x, y = self.at(10**power, self.low)
            self.line([(x, y), (x, self.y)], 'stroke="#ddd"')
            self.text(x, y + 16, "middle", f"{10 ** power:,}")
        for power in range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1):
            x, y = self.at(1, 10.0**power)
            self.line([(x, y), (self.x + self.wide, y)], 'stroke="#ddd"')
            self.text(x - 6, y + 4, "end", f"{10.0 ** power:,g}")

    def curve(self, name, points, dashed=False):
        colour = COLOURS[self.curves]
        style = f'stroke="{colour}" stroke-width="2"' + (' stroke-dasharray="5 4"' if dashed else "")
        self.line([self.at(*point) for point in points], style)
        y = self.y + 12 + 16 * self.curves
        self.line([(self.x + 8, y), (self.x + 32, y)], style)
        self.text(self.x + 38, y + 4, "start", name)
        self.curves += 1
        print(f"{name}, {self.unit}: " + ", ".join(f"{nodes:,}: {value:.4g}" for nodes, value in points))


def rings_of(nodes):
    """How many rings of rings have the shortest way from the server to the last node."""
    return max(1, round(math.sqrt(nodes)))


def main():
    simulate, svg = sys.argv[1:3]
    every = SMALL + LARGE

    def run(workload, nodes, *options):
        return [(one, simulated(simulate, "-n", RECORDS, *options, workload, one)[0]) for one in nodes]

    def rings(workload, nodes, count, *options):
        return [run(workload, [one], "-R", count(one), *options)[0] for one in nodes]

    def seconds(points):
        return [(nodes, told["seconds"]) for nodes, told in points]

    cost = {workload: run(workload, SMALL) for workload in ("read", "flush", "recall")}
    messages = Panel(0, 0, "One server: messages for each node", "messages without file data", (1, 10000), 1000)
    decisions = Panel(WIDTH, 0, "One server: its decisions for each node", "us of a processor, measured", (0.1, 1000), 1000)
    for name, workload in (("open and read a file", "read"), ("flush a file that all wrote", "flush"), ("recall READ for a writer", "recall")):
        messages.curve(name, [(nodes, told["server_messages"] / nodes) for nodes, told in cost[workload]])
        # Real time, which other programs can only make longer.
        times = zip(*(run(workload, SMALL, "-s", 1) for _ in range(5)))
        decisions.curve(name, [(tries[0][0], min(told["decision_us"] for _, told in tries) / tries[0][0]) for tries in times])

    per_ring = lambda nodes: max(1, nodes // RING)
    stage = Panel(0, HEIGHT, "All nodes read a file of 1 GiB", "seconds until the last one has it", (0.5, 1000), 100000)
    stage.curve("one ring at one server", seconds(cost["read"] + run("read", LARGE[:2])))
    stage.curve(f"rings of {RING:,} at one server (ring=NAME)", seconds(rings("read", [1000] + LARGE, per_ring)))
    stage.curve("rings of rings (calculated)", seconds(rings("read", every[1:], rings_of, "-g", 1)), dashed=True)

    flush = Panel(WIDTH, HEIGHT, f"All nodes flush {RECORDS * RECORD / 1e6:.1f} MB of one file each", "seconds until all are applied", (1e-3, 1e4), 100000)
    flush.curve("one chain at one server", seconds(cost["flush"]))
    flush.curve(f"chains of {RING:,} at one server (ring=NAME)", seconds(rings("flush", [1000] + LARGE[:3], per_ring)))
    flush.curve("rings of rings (calculated)", seconds(rings("flush", every[1:], rings_of, "-g", 1)), dashed=True)
    flush.curve("what the server's link needs", [(nodes, nodes * RECORDS * RECORD / 1.25e9) for nodes in every], dashed=True)

    with open(svg, "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * HEIGHT}" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT}" ')
        out.write('font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n')
        for panel in (messages, decisions, stage, flush):
            out.write("\n".join(panel.parts) + "\n")
        out.write("</svg>\n")


if __name__ == "__main__":
    main()
