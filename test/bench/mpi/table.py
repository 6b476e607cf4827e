#!/usr/bin/env python3
"""The table of test/bench/mpi/hpio: table.py CSV NODES LINK_BYTES_PER_S RATE WHERE

Medians over the repetitions.  The links' bound of the exchange: with stripes spread over N nodes, a node that holds 1/N of the
data sends (N-1)/N of it to others, and its link carries what one plain TCP stream carries, so D bytes take at least
D * (N-1) / N^2 / LINK seconds, sent and received at once.  write+close is bounded by the server's one link: D / LINK.
"""
import csv
import statistics
import sys

path, nodes, link, rate, where = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
rows = list(csv.DictReader(open(path)))
bound = link * nodes * nodes / (nodes - 1) / 1e6
loads = [float(row["load"]) for row in rows]
print("links of %s: one TCP stream carries %.1f MB/s; bound of the exchange on %d nodes %.0f MB/s, of write+close %.1f MB/s; %s; load %.1f to %.1f, median %.1f"
      % (rate, link / 1e6, nodes, bound, link / 1e6, where, min(loads), max(loads), statistics.median(loads)))


def keep_order(names):
    return list(dict.fromkeys(names))


for placement in keep_order(row["placement"] for row in rows):
    here = [row for row in rows if row["placement"] == placement]
    size = float(here[0]["bytes"])

    def median(name, *fields):
        values = [sum(float(row[field]) for field in fields) for row in here if row["variant"] == name]
        return statistics.median(values) if values else None

    def spread(name, field):
        values = sorted(size / 1e6 / float(row[field]) for row in here if row["variant"] == name)
        return "%.0f-%.0f" % (values[0], values[-1])

    names = keep_order(row["variant"] for row in here)
    base, packed, plain = (median(name, "write") for name in ("romio", "romio-packed", "layer-stripes"))
    romio = [median(name, "write") for name in names if name.startswith("romio")]
    print("\nplacement %s, %.1f MB, %d repetitions: MB/s of the collective write (spread), of the bound; times as fast as ROMIO / packed / best ROMIO /"
          " the layer without order and pipelining; collective read after it (times ROMIO's); write + read + sync + close; wrong bytes in data, in gaps;"
          " bytes that the server wrote per byte of data" % (placement, size / 1e6, len({row["repeat"] for row in here})))
    for name in names:
        write, read = median(name, "write"), median(name, "read")
        total = median(name, "write", "read", "sync", "close")
        ratio = lambda reference: "%5.2f" % (reference / write) if reference else "    -"
        wrong = [sum(int(row[field]) for row in here if row["variant"] == name) for field in ("data", "gaps")]
        print("%-26s %6.1f (%9s) %.2f | %s %s %s %s | read %6.1f (%s) | all %5.2f s | wrong %d %d | server %.2f"
              % (name, size / 1e6 / write, spread(name, "write"), size / 1e6 / write / bound, ratio(base), ratio(packed), ratio(min(romio) if romio else None),
                 ratio(plain), size / 1e6 / read, "%.1f" % (median("romio", "read") / read) if base else "-", total, wrong[0], wrong[1],
                 median(name, "server_bytes") / size))
