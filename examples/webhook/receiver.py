"""A receiver of webhooks: it prints the events whose signature is right.

    pawl webhook create alerts http://127.0.0.1:8080/ --out secret
    python3 receiver.py secret
"""

import base64
import hashlib
import hmac
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE = 5 * 60  # seconds; an older message may be one that somebody sends again


def verify(secret, headers, body):
    """Reports whether one of the signatures of a message is that of the secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    timestamp = headers["webhook-timestamp"]
    if abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    signed = b".".join([headers["webhook-id"].encode(), timestamp.encode(), body])
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(want, got) for got in headers["webhook-signature"].split())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        right = verify(self.server.secret, self.headers, body)
        if right:  # drop a webhook-id that you have seen
            print(self.headers["webhook-id"], body.decode(), flush=True)
        self.send_response(204 if right else 401)
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    host, port = (sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:8080").split(":")
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    with open(sys.argv[1]) as f:
        server.secret = f.read().strip()
    server.serve_forever()
