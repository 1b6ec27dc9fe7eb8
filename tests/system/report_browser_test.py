#!/usr/bin/env python3
"""Opens a report in a real browser and looks at it.

    report_browser_test.py REPORT.html [--out FOLDER] [--picture FILE.png]

Checks, at the widths of a telephone and of a desk, that every figure is drawn (an <svg> with marks), that
nothing was written to the console, that nothing was asked of the network, that the page does not scroll
sideways and that no two labels of a figure overlap; and that the page prints. --out keeps the screenshots and
the PDF. Needs chromium (LOOPSCOPE_CHROMIUM names another); exits with 77, a skip for ctest, where there is none.
Standard library only: the browser is spoken to in its DevTools protocol through a pair of pipes.
"""
import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = {"telephone": (390, 844, True), "desk": (1280, 900, False)}

# Pairs of labels in one figure whose boxes overlap by more than a hair.
OVERLAPS = """
(() => {
    const found = [];
    for (const chart of document.querySelectorAll("[data-figure]")) {
        const boxes = [];
        for (const text of chart.querySelectorAll("svg text")) {
            const box = text.getBoundingClientRect();
            const style = getComputedStyle(text);
            if (box.width > 0 && style.opacity !== "0" && text.textContent.trim() && text.getAttribute("opacity") !== "0")
                boxes.push([text.textContent, box]);
        }
        for (let i = 0; i < boxes.length; ++i)
            for (let j = i + 1; j < boxes.length; ++j) {
                const [a, b] = [boxes[i][1], boxes[j][1]];
                const w = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (w > 1.5 && h > 3)
                    found.push(chart.id + ": '" + boxes[i][0] + "' over '" + boxes[j][0] + "'");
            }
    }
    return found;
})()
"""

# Labels that stick out of their figure.
OUTSIDE = """
(() => {
    const found = [];
    for (const chart of document.querySelectorAll("[data-figure]")) {
        const frame = chart.getBoundingClientRect();
        for (const text of chart.querySelectorAll("svg text")) {
            const box = text.getBoundingClientRect();
            if (box.width > 0 && (box.left < frame.left - 2 || box.right > frame.right + 2))
                found.push(chart.id + ": '" + text.textContent + "'");
        }
    }
    return found;
})()
"""

FIGURES = """
Array.from(document.querySelectorAll("[data-figure]")).map((chart) => ({
    name: chart.id,
    svg: chart.querySelectorAll("svg").length,
    marks: chart.querySelectorAll("svg path, svg rect, svg line").length,
    label: chart.getAttribute("aria-label") || "",
    table: !!chart.closest("section").querySelector("table"),
    width: chart.clientWidth,
    drawn: chart.querySelector("svg") ? chart.querySelector("svg").getBoundingClientRect().width : 0,
}))
"""


class Browser:
    def __init__(self, program, profile):
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def pipes():  # the protocol's pipes are the descriptors 3 and 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe", "--user-data-dir=" + profile,
             "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.events = []
        self.session = None

    def read(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, seconds=60, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        deadline = time.monotonic() + seconds
        while True:
            message = self.read(deadline)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(method + ": " + message["error"]["message"])
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", seconds=10)
        except (OSError, EOFError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)


def complaints(events, url):
    found = []
    for event in events:
        parameters = event.get("params", {})
        if event["method"] == "Runtime.consoleAPICalled":
            found.append("console: " + json.dumps([a.get("value", a.get("description")) for a in parameters["args"]]))
        elif event["method"] == "Runtime.exceptionThrown":
            found.append("exception: " + json.dumps(parameters["exceptionDetails"])[:500])
        elif event["method"] == "Log.entryAdded":
            found.append("log: " + parameters["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            asked = parameters["request"]["url"]
            if asked.split("#")[0] != url and not asked.startswith(("about:", "data:")):
                found.append("request: " + asked)
    return found


def look(browser, url, name, expected, out):
    width, height, mobile = WIDTHS[name]
    problems = []
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
    browser.call("Page.navigate", url=url)
    deadline = time.monotonic() + 60
    while browser.evaluate("document.documentElement?.dataset.figures || ''") == "":
        if time.monotonic() > deadline:
            problems.append("the figures were not drawn within 60 s")
            break
        time.sleep(0.05)
    figures = browser.evaluate(FIGURES)
    for figure in figures:
        if figure["svg"] != 1 or figure["marks"] < 3:
            problems.append("not drawn: " + json.dumps(figure))
        if len(figure["label"]) < 30:
            problems.append("no description: " + figure["name"])
        if not figure["table"]:
            problems.append("no table beside it: " + figure["name"])
        if figure["drawn"] > figure["width"] + 1:
            problems.append("wider than its column: " + json.dumps(figure))
    if expected is not None and len(figures) != expected:
        problems.append("%d figures, expected %d" % (len(figures), expected))
    problems += ["labels overlap in " + pair for pair in browser.evaluate(OVERLAPS)]
    problems += ["label outside " + label for label in browser.evaluate(OUTSIDE)]
    sideways = browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if sideways > 0:
        problems.append("the page scrolls sideways by %d px" % sideways)
    if out:
        shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        (out / (name + ".png")).write_bytes(base64.b64decode(shot["data"]))
    problems += complaints(browser.events, url)
    return [name + ": " + problem for problem in problems]


def print_page(browser, out):
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False,
                                        paperWidth=8.27, paperHeight=11.69)["data"])
    if out:
        (out / "report.pdf").write_bytes(pdf)
    pages = pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/")
    return [] if pdf.startswith(b"%PDF") and len(pdf) > 20000 else ["print: %d bytes, %d pages" % (len(pdf), pages)]


def take_picture(browser, url, file):
    """The top of the report, for the documentation."""
    browser.call("Emulation.setDeviceMetricsOverride", width=1180, height=1505, deviceScaleFactor=1, mobile=False)
    browser.call("Page.navigate", url=url)
    while browser.evaluate("document.documentElement?.dataset.figures || ''") == "":
        time.sleep(0.05)
    shot = browser.call("Page.captureScreenshot", format="png")
    pathlib.Path(file).write_bytes(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report")
    parser.add_argument("--figures", type=int, help="how many figures it must have")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--picture")
    options = parser.parse_args()
    program = os.environ.get("LOOPSCOPE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        print("skipped: no chromium (apt-get install chromium)")
        return 77
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    url = pathlib.Path(options.report).resolve().as_uri()
    problems = []
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            browser.attach()
            for name in WIDTHS:
                problems += look(browser, url, name, options.figures, options.out)
            problems += print_page(browser, options.out)
            if options.picture:
                take_picture(browser, url, options.picture)
        finally:
            browser.close()
    for problem in problems:
        print(problem)
    print("%s: %s" % (options.report, "%d problems" % len(problems) if problems else "drawn, quiet, printed"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
