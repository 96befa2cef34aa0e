#!/usr/bin/env python3
"""A proxy in front of a bucket that does harm on demand.

    s3_proxy.py --to PORT            serve; prints `ready PORT`
    s3_proxy.py --set RULE --port P  tell a running one what to do from now on

Rules: none; wrong (other bytes for some objects), missing (404 for some), cut
(half of the bytes, as if that were all), failing (a 500 for every third request), broken (the
connection ends in the middle of a body, once per name), slow (a byte at a
time), careless (conditional writes are written all the same). Objects are
chosen by name, so the same ones each time. Only the standard library.
"""

import argparse
import http.client
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATE = {"rule": "none", "count": 0, "seen": set(), "to": 0}
LOCK = threading.Lock()
HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one(self):
        if self.path.startswith("/-/rule/"):
            with LOCK:
                STATE.update(rule=self.path.rsplit("/", 1)[1], count=0, seen=set())
            return self.reply(200, [], b"")
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        with LOCK:
            rule = STATE["rule"]
            STATE["count"] += 1
            count = STATE["count"]
        if rule == "failing" and count % 3 == 0:
            return self.reply(500, [], b"<Error><Code>InternalError</Code></Error>")
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        if rule == "careless":
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        upstream = http.client.HTTPConnection("127.0.0.1", STATE["to"], timeout=60)
        upstream.request(self.command, self.path, body=body, headers=headers)
        answer = upstream.getresponse()
        data = answer.read()
        passed = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP]
        stated = answer.getheader("content-length")
        chosen = "/objects/" in self.path and int(self.path.split("/objects/")[1][:1], 16) % 2 == 0
        if self.command == "GET" and answer.status == 200 and chosen and data:
            if rule == "wrong":
                data = data[:-1] + bytes([data[-1] ^ 1])
            elif rule == "missing":
                return self.reply(404, [], b"<Error><Code>NoSuchKey</Code></Error>")
            elif rule == "cut":
                data = data[: len(data) // 2]
            elif rule == "slow":
                return self.drip(answer.status, passed, data)
            elif rule == "broken":
                with LOCK:
                    first = self.path not in STATE["seen"]
                    STATE["seen"].add(self.path)
                if first:
                    return self.part(answer.status, passed, len(data), data[: len(data) // 2])
        if self.command == "HEAD":
            return self.reply(answer.status, passed + [("content-length", stated or "0")], None)
        self.reply(answer.status, passed, data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_one

    def head(self, status, headers):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)

    def reply(self, status, headers, body):
        self.head(status, headers)
        if body is not None:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(body)

    def part(self, status, headers, stated, body):
        self.head(status, headers)
        self.send_header("content-length", str(stated))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def drip(self, status, headers, body):
        self.head(status, headers)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                self.wfile.flush()
                time.sleep(0.25)
        except OSError:
            pass
        self.close_connection = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=int)
    parser.add_argument("--set")
    parser.add_argument("--port", type=int)
    args = parser.parse_args()
    if args.set:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{args.port}/-/rule/{args.set}", timeout=10
        ).read()
        return
    STATE["to"] = args.to
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"ready {server.server_address[1]}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # It ends with the test that started it.
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)


main()
