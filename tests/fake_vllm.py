"""
What a real process of vLLM's server looks like from outside, without vLLM.

A copy of it, named `vllm`, is run as `python FOLDER/vllm serve MODEL --port N ...`, so that its
command line is that of a server; all other words and its environment are taken as they come. It
answers `/metrics` with the pages `*.prom` of the folder PAGES in its environment, one after the
other, as of a process that starts now; the last one repeats.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

START = re.compile(r"^(process_start_time_seconds) \S+$", re.MULTILINE)


def port_of(words: list[str]) -> int:
    return int(words[words.index("--port") + 1])


def main() -> None:
    pages = sorted(Path(os.environ["PAGES"]).glob("*.prom"))
    now = time.time()
    bodies = [START.sub(rf"\1 {now}", page.read_text()) for page in pages]
    answers = {
        "/version": json.dumps({"version": "0.32.0"}),
        "/v1/models": json.dumps({"data": [{"id": "tiny", "root": sys.argv[2]}]}),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            if self.path == "/metrics":
                found = bodies.pop(0) if len(bodies) > 1 else bodies[0]
            body = (found or "").encode()
            self.send_response(404 if found is None else 200)
            kind = "text/plain; version=1.0.0" if self.path == "/metrics" else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port_of(sys.argv)), Handler).serve_forever()


if __name__ == "__main__":
    main()
