#!/usr/bin/env python3
"""A proxy in front of an API server that spoils chosen requests.

    fault_proxy.py FOLDER SERVER CA CERTIFICATE KEY

FOLDER holds server.crt and server.key, with which it identifies itself to its clients; CA, CERTIFICATE and KEY are for
SERVER (host:port). It writes its port to FOLDER/port and, to FOLDER/requests, a line for each request: number, what was
done to it, method, path, class. FOLDER/faults.json says what to do, by the request's number, {"7": "lost"}, or for the
requests of a class one after the other, {"watch": ["cut@1"]}. Classes are list (a page of one), stream (a watch that
begins with a list), watch, and call for all others. As long as there are faults left for lists or streams, watches
without a fault are ended with "expire".

    429, 500, 503    the request is refused with this status and not passed on
    reset            the connection ends, and the request is not passed on
    lost             it is passed on, and the connection ends before the reply
    half             the connection ends in the middle of the reply (a watch: after its first event)
    stall            it is passed on, and the reply is withheld
    cut@N            after N events of a watch (pieces of a reply) the connection ends within the next one
    hang@N           the same, but the connection stays open and silent
    garble@N         the same, but the rest of that event is noise, and the reply continues
    quiet            a watch begins, and no event arrives
    expire           the first event of a watch says that its version is too old (410)
SIGHUP: reads server.crt and server.key again and ends every connection.
"""

import json
import pathlib
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time

STALL_SECONDS = 7  # longer than the client's timeout


class Ended(Exception):
    """One side's connection has ended."""


class Stream:
    """Reads HTTP messages from a socket."""

    def __init__(self, sock):
        self.sock = sock
        self.rest = b""

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Ended
        self.rest += data

    def take(self, count):
        while len(self.rest) < count:
            self.more()
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def until(self, mark):
        while mark not in self.rest:
            self.more()
        return self.take(self.rest.index(mark) + len(mark))

    def head(self):
        """Bytes of a head, its first line, and its fields in lower case."""
        raw = self.until(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        return raw, first, fields

    def body(self, fields):
        """The pieces of the body as they arrive, with their framing."""
        if fields.get("transfer-encoding") == "chunked":
            while True:
                size = self.until(b"\r\n")
                count = int(size.split(b";")[0], 16)
                yield size + self.take(count + 2)
                if count == 0:
                    return
        count = int(fields.get("content-length", "0"))
        if count:
            yield self.take(count)


def class_of(method, path):
    """The class of a request. Only collections of one kind of object count as lists and watches."""
    place, _, query = path.partition("?")
    if method != "GET" or not place.endswith("/configmaps"):
        return "call"
    if "watch=" not in query:
        return "list"
    return "stream" if "sendInitialEvents=" in query else "watch"


def garbled(piece, is_chunk):
    """Keeps the framing and the first half; replaces the rest by invalid bytes."""
    begin = piece.index(b"\r\n") + 2 if is_chunk else 0
    end = len(piece) - (2 if is_chunk else 0)
    middle = (begin + end) // 2
    return piece[:middle] + b"\xff" * (end - middle) + piece[end:]


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder, server, authority, certificate, key):
        super().__init__(("127.0.0.1", 0), Connection)
        self.folder = folder
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        self.to_server = ssl.create_default_context(cafile=authority)
        self.to_server.load_cert_chain(certificate, key)
        self.lock = threading.Lock()
        self.count = 0
        self.spent = {}  # by class: how many of its planned faults were used
        self.open = set()
        self.reload()

    def reload(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        self.to_client = context
        with self.lock:
            for sock in self.open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def fault(self, method, path):
        with self.lock:
            number = self.count
            self.count += 1
            faults = json.loads((self.folder / "faults.json").read_text())
            kind = class_of(method, path)
            fault = faults.get(str(number)) or self.next_of(kind, faults)
            if not fault and kind == "watch" and any(self.is_left(other, faults) for other in ("list", "stream")):
                fault = "expire"
            with open(self.folder / "requests", "a", encoding="utf-8") as log:
                log.write(f"{number} {fault or '-'} {method} {path} {kind}\n")
        return fault

    def is_left(self, kind, faults):
        return self.spent.get(kind, 0) < len(faults.get(kind, []))

    def next_of(self, kind, faults):
        if not self.is_left(kind, faults):
            return ""
        self.spent[kind] = self.spent.get(kind, 0) + 1
        return faults[kind][self.spent[kind] - 1]

    def handle_error(self, request, client_address):
        pass  # the end of a connection need not be reported


class Connection(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(600)
        client_socket = None
        try:
            client_socket = self.server.to_client.wrap_socket(self.request, server_side=True)
            with self.server.lock:
                self.server.open.add(client_socket)
            raw = socket.create_connection(self.server.server, timeout=600)
            server_socket = self.server.to_server.wrap_socket(raw, server_hostname=self.server.server[0])
            with client_socket, server_socket:
                client, server = Stream(client_socket), Stream(server_socket)
                while self.one(client, server):
                    pass
        except (Ended, OSError):
            pass
        finally:
            with self.server.lock:
                self.server.open.discard(client_socket)

    def hold(self, client):
        """Sends nothing until the client gives up."""
        client.sock.settimeout(60)
        while client.sock.recv(65536):
            pass
        return False

    def one(self, client, server):
        """Handles a request and its reply; False: the connection must end."""
        head, first, fields = client.head()
        body = b"".join(client.body(fields))
        method, path, _ = first.split(" ", 2)
        fault = self.server.fault(method, path)
        if fault == "reset":
            return False
        if fault.isdigit():
            text = json.dumps({"kind": "Status", "code": int(fault), "message": "injected"}).encode()
            client.sock.sendall(f"HTTP/1.1 {fault} Injected\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                                f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
            return True
        if fault == "expire":
            event = json.dumps({"type": "ERROR", "object": {
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                "message": "injected"}}).encode() + b"\n"
            client.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                                b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(event), event))
            return True
        server.sock.sendall(head + body)
        reply, status, reply_fields = server.head()
        pieces = server.body(reply_fields)
        if fault in ("lost", "stall"):
            if "watch=" not in path:
                for _ in pieces:
                    pass  # the server has done the request
            if fault == "stall":
                time.sleep(STALL_SECONDS)
            return False
        client.sock.sendall(reply)
        if fault == "quiet":
            return self.hold(client)
        what, _, place = fault.partition("@")
        for number, piece in enumerate(pieces):
            if place and number == int(place):
                if what == "garble":
                    piece = garbled(piece, reply_fields.get("transfer-encoding") == "chunked")
                else:
                    client.sock.sendall(piece[:len(piece) // 2])
                    return what == "hang" and self.hold(client)
            if fault == "half":
                client.sock.sendall(piece if "watch=" in path else piece[:len(piece) // 2])
                return False
            client.sock.sendall(piece)
        return "close" not in reply_fields.get("connection", "") and " 101 " not in status


def main():
    folder = pathlib.Path(sys.argv[1])
    proxy = Proxy(folder, *sys.argv[2:6])
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=proxy.reload).start())
    (folder / "port.new").write_text(str(proxy.server_address[1]))
    (folder / "port.new").rename(folder / "port")
    proxy.serve_forever()


if __name__ == "__main__":
    main()
