#!/usr/bin/env python3
"""Scrapes metrics and checks them against OpenMetrics 1.0, more strictly than a scraper would.

  metrics.py scrape URL                    prints the samples as NAME{LABELS} VALUE
  metrics.py documented DOCUMENT URL...    the document's tables name each metric with its type, and no other; each has a sample
  metrics.py hostile HOST PORT SECONDS     1,000 connections, heads that come slowly, heads of 1 MiB, all at once
"""
import http.client
import re
import selectors
import socket
import sys
import time
import urllib.parse

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r"(%s)(?:\{(.*)\})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\Z" % NAME)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|\Z)')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}


def expect(holds, what):
    if not holds:
        sys.exit("not OpenMetrics: %s" % what)


def fetch(url, method="GET"):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request(method, parts.path)
    answer = connection.getresponse()
    return answer.status, answer.getheader("Content-Type"), answer.read().decode()


def labels_of(text, line):
    found, at = [], 0
    while at < len(text):
        label = LABEL.match(text, at)
        expect(label, "labels of %s" % line)
        found.append((label[1], label[2]))
        at = label.end()
    expect(not text.endswith(","), line)
    expect(len(dict(found)) == len(found), "two labels of one name: %s" % line)
    return tuple(found)


def check_histogram(name, samples):
    """Buckets ascend and are cumulative, the last is that of all."""
    series = {}
    for (suffix, labels), value in samples.items():
        others = tuple(label for label in labels if label[0] != "le")
        one = series.setdefault(others, {"buckets": []})
        if suffix == "_bucket":
            one["buckets"].append((float(dict(labels)["le"]), value))
        else:
            one[suffix] = value
    for labels, one in series.items():
        limits, counts = zip(*one["buckets"])
        expect(list(limits) == sorted(set(limits)) and limits[-1] == float("inf"), "limits of %s%s" % (name, labels))
        expect(list(counts) == sorted(counts), "buckets of %s%s are not cumulative" % (name, labels))
        expect(counts[-1] == one["_count"], "_count of %s%s" % (name, labels))
        expect("_sum" in one, "_sum of %s%s" % (name, labels))


def parse(text):
    """{name: (type, {(suffix, labels): value})}"""
    expect(text.endswith("# EOF\n"), "no # EOF at the end")
    families, name, head = {}, None, None
    for line in text.split("\n")[:-2]:
        expect(line == line.strip() and line, "line %r" % line)
        if line.startswith("# "):
            keyword, about, rest = line[2:].split(" ", 2)
            if keyword == "TYPE":
                expect(re.fullmatch(NAME, about) and about not in families, "second or bad TYPE: %s" % line)
                expect(rest in SUFFIXES, line)
                name, head = about, "TYPE"
                families[name] = (rest, {})
            elif keyword == "UNIT":
                expect(about == name and head == "TYPE" and about.endswith("_" + rest), line)
                head = "UNIT"
            else:
                expect(keyword == "HELP" and about == name and head in ("TYPE", "UNIT") and rest, line)
                head = "HELP"
            continue
        sample = SAMPLE.match(line)
        expect(sample, "sample %r" % line)
        expect(name and head == "HELP" and sample[1].startswith(name), "sample of another metric: %s" % line)
        kind, samples = families[name]
        suffix = sample[1][len(name):]
        expect(suffix in SUFFIXES[kind], "suffix of a %s: %s" % (kind, line))
        key = (suffix, labels_of(sample[2] or "", line))
        expect(key not in samples, "twice: %s" % line)
        expect((suffix == "_bucket") == ("le" in dict(key[1])), line)
        samples[key] = float(sample[3])
        expect(kind == "gauge" or samples[key] >= 0, line)
        expect(kind != "info" or samples[key] == 1, line)
    for name, (kind, samples) in families.items():
        if kind == "histogram":
            check_histogram(name, samples)
        if name.endswith(("_total", "_info", "_bucket", "_count", "_sum")):
            expect(False, "name %s" % name)
    return families


def scrape(url):
    status, content_type, text = fetch(url)
    expect(status == 200, "status %d" % status)
    expect(content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8", content_type)
    return parse(text)


def print_samples(url):
    for name, (_, samples) in scrape(url).items():
        for (suffix, labels), value in samples.items():
            shown = "{%s}" % ",".join('%s="%s"' % label for label in labels) if labels else ""
            print("%s%s%s %r" % (name, suffix, shown, int(value) if value == int(value) else value))


def check_document(path, urls):
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram|info) \|", open(path).read(), re.M))
    there = {}
    for url in urls:
        for name, (kind, samples) in scrape(url).items():
            if not samples:
                print("%s: no figure" % name)
            there[name + {"counter": "_total", "info": "_info"}.get(kind, "")] = kind
    for name in sorted(set(documented) ^ set(there)):
        print("%s: %s" % (name, "only in %s" % path if name in documented else "not in %s" % path))
    for name in sorted(set(documented) & set(there)):
        if documented[name] != there[name]:
            print("%s is a %s" % (name, there[name]))
    sys.exit(documented != there)


def hostile(host, port, seconds):
    """Connections that are refused are made anew, so the number holds."""
    begin, ends = b"GET /metrics HTTP/1.1\r\nHost: x\r\n", time.monotonic() + seconds
    selector, made, refused = selectors.DefaultSelector(), 0, 0
    big = begin + b"X: " + b"a" * (1 << 20)

    def dial():
        one = socket.socket(socket.AF_INET)
        one.setblocking(False)
        one.connect_ex((host, port))
        selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE, [made % 3, 0])

    for made in range(1000):
        dial()
    while time.monotonic() < ends:
        for key, events in selector.select(0.2):
            kind, sent = key.data
            text = big if kind == 2 else begin
            try:
                if events & selectors.EVENT_READ and not key.fileobj.recv(65536):
                    raise ConnectionError
                if events & selectors.EVENT_WRITE and sent < len(text):
                    key.data[1] += key.fileobj.send(text[sent:sent + (65536 if kind == 2 else 1)])
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                refused += 1
                made += 1
                dial()
        time.sleep(0.02)
    print("%d connections, %d of them refused or ended" % (made + 1, refused))


if __name__ == "__main__":
    if sys.argv[1] == "scrape":
        print_samples(sys.argv[2])
    elif sys.argv[1] == "documented":
        check_document(sys.argv[2], sys.argv[3:])
    else:
        hostile(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
