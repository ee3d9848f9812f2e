# SPDX-License-Identifier: Apache-2.0
"""Opens the site of scripts/docs in a headless Chromium. Search must find each public function, and each picture
must show. In a window of 400 pixels no page may be wider than the window. reference_test.py checks links and
entries without a browser."""

import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import source_tree as tree

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTH = 400
LIMIT_SECONDS = 240
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
DRIVER = '<!DOCTYPE html><title>driver</title><body><script src="/driver.js"></script>'


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, the driver and its list of checks, and receives the driver's results."""

    def do_GET(self):
        own = {"/driver.html": ("text/html", DRIVER),
               "/driver.js": ("text/javascript", tree.read("tests/lint/site_driver.js")),
               "/asked": ("application/json", json.dumps(self.server.asked))}.get(self.path)
        if own is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", own[0])
        self.end_headers()
        self.wfile.write(own[1].encode())

    def do_POST(self):
        self.server.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Reports an error, unless the browser has left the page before the whole page had arrived."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def end_group(process):
    """Kills the process group that `process` leads, and waits until it has no process."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    deadline = time.monotonic() + 60
    while is_alive(process.pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of group {process.pid} do not end")
        time.sleep(0.02)


def is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def visit(site, asked):
    """Returns what the driver finds in the browser."""
    server = Server(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    server.asked, server.result, server.done = asked, None, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        # The command may be a script that waits for the browser, so the browser gets a process group of its own.
        browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
             f"--user-data-dir={profile}", "--remote-debugging-port=0",
             f"http://127.0.0.1:{server.server_port}/driver.html"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            server.done.wait(LIMIT_SECONDS)
        finally:
            end_group(browser)
            server.shutdown()
            server.server_close()
    return server.result


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rondo-site-")
        cls.addClassCleanup(folder.cleanup)
        site = Path(folder.name)
        subprocess.run([str(tree.ROOT / "scripts/docs"), site], check=True, timeout=100, stdout=subprocess.DEVNULL)
        (site / "wide.html").write_text('<body style="margin:0"><div style="width:500px">wide</div>'
                                        '<object type="image/svg+xml" data="nowhere.svg"></object>', encoding="utf-8")
        pages = sorted(page.name for page in site.glob("*.html") if not page.name.endswith("_source.html"))
        functions = {line for line in tree.read("tests/abi/symbols.txt").splitlines() if line and line[0] != "#"}
        cls.asked = {"pages": pages, "functions": sorted(functions) + ["rondo_no_such_function"]}
        cls.result = visit(site, cls.asked)

    def test_the_browser_has_visited_all(self):
        self.assertIsNotNone(self.result, f"nothing came from {BROWSER} in {LIMIT_SECONDS} s")
        self.assertEqual(sorted(self.result), ["functions", "pages"], self.result)
        self.assertEqual([page["page"] for page in self.result["pages"]], self.asked["pages"])
        self.assertGreater(len(self.asked["pages"]), 50)

    def test_no_page_is_wider_than_a_narrow_window(self):
        wide = [(page["page"], page["width"]) for page in self.result["pages"]
                if page["window"] != WIDTH or page["width"] > WIDTH]
        self.assertEqual(wide, [("wide.html", 500)])

    def test_a_narrow_window_leaves_its_width_to_the_text(self):
        narrow = [(page["page"], page["text"]) for page in self.result["pages"] if 0 < page["text"] < 0.9 * WIDTH]
        self.assertEqual(narrow, [])

    def test_each_picture_is_shown(self):
        broken = [page["page"] for page in self.result["pages"] if page["broken"]]
        self.assertEqual(broken, ["wide.html"])

    def test_search_finds_each_function(self):
        found = dict(self.result["functions"])
        self.assertIsNone(found.pop("rondo_no_such_function"))
        lost = {name: link for name, link in found.items() if not re.search(r"group__\w+\.html#\w+", link or "")}
        self.assertEqual(lost, {})
        self.assertGreater(len(found), 40)


if __name__ == "__main__":
    missing = "Chromium" if BROWSER is None else "Doxygen" if shutil.which("doxygen") is None else None
    if missing:
        print(f"skipped: site: there is no {missing} here")
        sys.exit(77)
    unittest.main(verbosity=2)
