#!/usr/bin/env python3
"""The page that daemons serve beside their metrics, and the dashboard: what they name exists, and a browser shows it.

  page.py answers URL                  the page's headers, HEAD, 404 and 405
  page.py names PAGE DOCUMENT URL...   each metric in the page is documented, and has a sample at one of the URLs
  page.py dashboard FILE URL...        so have the metrics of its expressions, with the labels that they use
  page.py render BROWSER URL WIDTH scheme=dark|light [PICTURE] [PID]
      shows URL in a Chromium until it has rates, prints its text; with PID, the daemon's, stops that and continues it
"""
import base64
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.parse

import metrics

# What PromQL has beside metrics and labels.
WORDS = {"sum", "by", "rate", "histogram_quantile", "max", "or", "on", "le"}


def expect(holds, what):
    if not holds:
        sys.exit(what)


def ask(url, method, path):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def check_answers(url):
    answer, page = ask(url, "GET", "/")
    policy = answer.getheader("Content-Security-Policy")
    expect(answer.status == 200 and answer.getheader("Content-Type") == "text/html; charset=utf-8", "no page")
    expect("default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy, policy)
    expect(answer.getheader("X-Content-Type-Options") == "nosniff", "no nosniff")
    expect(not re.search(r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|insertAdjacent|document\.write|eval\(", page), "the page is not by itself")
    head, nothing = ask(url, "HEAD", "/")
    expect(head.status == 200 and not nothing and head.getheader("Content-Length") == str(len(page.encode())), "HEAD /")
    expect(head.getheader("Content-Security-Policy") == policy, "HEAD / has another policy")
    expect(ask(url, "GET", "/page.html")[0].status == 404, "/page.html is not 404")
    refused = ask(url, "POST", "/")[0]
    expect(refused.status == 405 and refused.getheader("Allow") == "GET, HEAD", "POST / is not 405")


def samples_of(urls):
    """{sample's name: names of its labels}"""
    there = {}
    for url in urls:
        for name, (_, samples) in metrics.scrape(url).items():
            for suffix, labels in samples:
                there.setdefault(name + suffix, set()).update(label for label, _ in labels)
    return there


def check_names(page, document, urls):
    text, there = open(page).read(), samples_of(urls)
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", open(document).read(), re.M))
    # A histogram's name stands without the suffix, which the script adds.
    named = set(re.findall(r"\b(?:kairan|process)_[a-z_]+\b", text))
    expect(len(named) > 30, "the page names %d metrics" % len(named))
    for name in sorted(named):
        expect(name in documented, "%s is not in %s" % (name, document))
        expect(name in there or name + "_bucket" in there, "%s is at no endpoint" % name)


def check_dashboard(path, urls):
    dashboard, there = json.load(open(path)), samples_of(urls)
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expect(len(expressions) > 15, "%d expressions" % len(expressions))
    for panel in panels:
        expect(panel["title"] and panel["fieldConfig"]["defaults"]["unit"], "a panel without title or unit")
        for target in panel["targets"]:
            known = {"job", "instance"} # Prometheus's own
            for name in re.findall(r"\b(?:kairan|process)_[a-z_]+", target["expr"]):
                expect(name in there, "%s: %s is at no endpoint" % (panel["title"], name))
                known |= there[name]
            rest = re.sub(r'"[^"]*"|\$__rate_interval|\[[^]]*\]|[0-9.]+', " ", target["expr"])
            for word in re.findall(r"[a-z_]+", rest):
                expect(word in there or word in known or word in WORDS, "%s: %s in %s" % (panel["title"], word, target["expr"]))
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                expect(label in known, "%s: label %s in the legend" % (panel["title"], label))


class Browser:
    """A Chromium at the ends of two pipes: --remote-debugging-pipe, messages end with NUL."""

    def __init__(self, program, profile):
        to_browser, to_us = os.pipe(), os.pipe()

        def ends():
            ours = [os.dup(to_browser[0]), os.dup(to_us[1])]
            os.dup2(ours[0], 3)
            os.dup2(ours[1], 4)

        self.process = subprocess.Popen([program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank"], preexec_fn=ends, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(to_browser[0])
        os.close(to_us[1])
        self.write, self.read, self.heard, self.number = to_browser[1], to_us[0], b"", 0
        self.session, self.complaints = None, []

    def hear(self, ends):
        while b"\0" not in self.heard:
            expect(select.select([self.read], [], [], max(0, ends - time.monotonic()))[0], "the browser does not answer")
            more = os.read(self.read, 65536)
            expect(more, "the browser has ended")
            self.heard += more
        text, self.heard = self.heard.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append({"source": "script", "text": json.dumps(message["params"])})
        return message

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + 60
        while True:
            answer = self.hear(ends)
            if answer.get("id") == self.number:
                expect("error" not in answer, "%s: %s" % (method, answer))
                return answer["result"]

    def open(self, url, width, scheme):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Log", "Runtime":
            self.ask(domain + ".enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=1800, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=url)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression, what, seconds=60):
        ends = time.monotonic() + seconds
        while not self.value(expression):
            expect(time.monotonic() < ends, "the page does not show %s: %s" % (what, self.value("document.body.innerText")))
            time.sleep(0.1)


def render(program, url, width, scheme, picture=None, pid=None):
    browser = Browser(program, os.path.join(os.environ["WORK"], "browser"))
    try:
        browser.open(url, int(width), scheme)
        browser.until("typeof samples === 'object' && samples.length > 2", "rates")
        print(browser.value("document.body.innerText"))
        expect(browser.value("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than %s" % width)
        if pid:
            os.kill(int(pid), signal.SIGSTOP)
            try:
                browser.until("document.body.classList.contains('silent')", "that the daemon is silent")
                print(browser.value("document.getElementById('silent').innerText"))
            finally:
                os.kill(int(pid), signal.SIGCONT)
            browser.until("!document.body.classList.contains('silent')", "that the daemon answers again")
        if picture:
            shot = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
            with open(picture, "wb") as file:
                file.write(base64.b64decode(shot["data"]))
        # The favicon, which nothing serves, and the answers that did not come are network's; all else is the page's fault.
        bad = [one for one in browser.complaints if one["source"] != "network"]
        expect(not bad, "the browser complains: %s" % bad)
    finally:
        browser.process.kill()
        browser.process.wait()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "answers":
        check_answers(*rest)
    elif what == "names":
        check_names(rest[0], rest[1], rest[2:])
    elif what == "dashboard":
        check_dashboard(rest[0], rest[1:])
    else:
        render(*rest)
