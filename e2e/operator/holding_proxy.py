#!/usr/bin/env python3
"""A proxy in front of an API server that holds a chosen request until the test releases it.

    holding_proxy.py FOLDER SERVER CA

FOLDER is the same as for kube/fault_proxy.py. FOLDER/hold names a kind of write to a MoETopology, and the proxy holds the next
write of this kind. It writes FOLDER/held when the request has arrived, passes it on when FOLDER/hold is removed, and then
writes the server's status to FOLDER/held. The kinds:

    make             the object is created
    raise            its fence is raised: the first write of a new leader
    propose, abort   a proposal is added; removed
    commit           the proposal is committed
    end              what is committed is ended
    7                another rule: the seventh request, not counting watches, Leases and Events

FOLDER/requests has a line for each request that counts.

Clients send their own credentials; the proxy has none.
"""

import json
import pathlib
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kube"))

import fault_proxy  # noqa: E402


def kind_of(method, before, spec):
    """`before`: the spec that this client wrote last."""
    if method == "POST":
        return "make"
    if before is None or spec["fence"] != before["fence"]:
        return "raise"
    if spec.get("endedEpoch") != before.get("endedEpoch"):
        return "end"
    if "proposed" in spec:
        return "propose"
    return "commit" if spec.get("committed") != before.get("committed") else "abort"


class HoldingProxy(fault_proxy.Proxy):
    def __init__(self, folder, server, authority):
        # The same as the base class, but without a certificate.
        fault_proxy.socketserver.ThreadingTCPServer.__init__(self, ("127.0.0.1", 0), HoldingConnection)
        self.folder = folder
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        self.to_server = ssl.create_default_context(cafile=authority)
        self.lock = threading.Lock()
        self.open = set()
        self.written = None
        self.count = 0
        self.reload()

    def hold(self, method, path, body):
        """Whether this request was held. Returns when it may continue."""
        if "watch=" in path or "/leases" in path or "/events" in path:
            return False
        kind = ""
        with self.lock:
            if method in ("POST", "PUT") and "/moetopologies" in path:
                spec = json.loads(body)["spec"]
                kind = kind_of(method, self.written, spec)
                self.written = spec
            self.count += 1
            number = str(self.count)
            with open(self.folder / "requests", "a", encoding="utf-8") as log:
                log.write(f"{number} {method} {path} {kind}\n")
        hold = self.folder / "hold"
        try:
            if hold.read_text() not in (kind, number):
                return False
        except FileNotFoundError:
            return False
        (self.folder / "held").write_text("held")
        while hold.exists():
            time.sleep(0.01)
        return True

    def answered(self, status):
        (self.folder / "held.new").write_text(status)
        (self.folder / "held.new").rename(self.folder / "held")


class HoldingConnection(fault_proxy.Connection):
    def one(self, client, server):
        head, first, fields = client.head()
        body = b"".join(client.body(fields))
        method, path, _ = first.split(" ", 2)
        was_held = self.server.hold(method, path, body)
        server.sock.sendall(head + body)
        reply, status, reply_fields = server.head()
        if was_held:
            self.server.answered(status.split(" ")[1])
        client.sock.sendall(reply)
        for piece in server.body(reply_fields):
            client.sock.sendall(piece)
        return "close" not in reply_fields.get("connection", "")


def main():
    folder = pathlib.Path(sys.argv[1])
    proxy = HoldingProxy(folder, *sys.argv[2:4])
    (folder / "port.new").write_text(str(proxy.server_address[1]))
    (folder / "port.new").rename(folder / "port")
    proxy.serve_forever()


if __name__ == "__main__":
    main()
