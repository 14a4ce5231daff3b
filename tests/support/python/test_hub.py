"""A Hugging Face hub for tests: the URLs, redirects, headers, ranges and errors of the public one, and its faults.

tests/integration/hub/official_client_test.py holds it to the official client. Files of weights lie on a second server,
under another host name, as on the public hub. Each request is recorded.
"""

import dataclasses
import hashlib
import http.server
import json
import threading
import urllib.parse

LARGE = (".safetensors", ".bin")


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclasses.dataclass
class Fault:
    """What one GET of a file, or of the listing, gets in place of its usual answer."""

    status: int | None = None  # answer with this status and no content
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes | None = None  # the content, with the usual headers
    after: int | None = None  # send so many bytes, then do as the next two say
    hold: threading.Event | None = None  # wait for this, then go on
    cut: bool = False  # close the connection
    ignore_range: bool = False  # send everything, with status 200


@dataclasses.dataclass
class Got:
    """A request that arrived."""

    what: str  # the file's name, or "listing"
    server: str  # "hub" or "store"
    start: int  # of its range
    token: str | None
    head: bool = False


class Repo:
    """A model. `gated`: only with the hub's token; `private`: unknown without it."""

    def __init__(self, files, gated=False, private=False):
        self.commits = {}
        self.revisions = {}
        self.gated = gated
        self.private = private
        self.commit(files)

    def commit(self, files, revision="main"):
        """Makes a commit with these files {name: content}; returns its digest."""
        names = "".join(f"{name} {git_sha1(content)}\n" for name, content in sorted(files.items()))
        digest = hashlib.sha1(names.encode()).hexdigest()
        self.commits[digest] = dict(files)
        self.revisions[revision] = digest
        return digest


class TestHub:
    """Serves `repos` {owner/name: Repo} until close(), at this address and the store's name, in the network of the thread
    that makes it."""

    __test__ = False  # it is no test, whatever its name begins with

    def __init__(self, repos, token="hf_secret", tls=None, address="127.0.0.1", store="localhost"):
        self.repos = repos
        self.token = token
        self.got = []
        self.faults = {}  # by file or "listing", of all models or as "owner/name:file": a list of Fault, one for each GET
        self.lock = threading.Lock()
        self.servers = [Server(self, "hub", tls, address), Server(self, "store", None, address)]
        self.endpoint = f"{'https' if tls else 'http'}://{address}:{self.servers[0].server_port}"
        self.store = f"http://{store}:{self.servers[1].server_port}"
        for server in self.servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def starts(self, what):
        """The first bytes of the GETs of a file's content, in order."""
        with self.lock:
            return [one.start for one in self.got
                    if one.what == what and not one.head and (one.server == "store" or not what.endswith(LARGE))]

    def fetched(self):
        """The names of the files whose content was asked for, sorted, each as often as it was."""
        with self.lock:
            return sorted(one.what for one in self.got if not one.head and one.what != "listing"
                          and (one.server == "store" or not one.what.endswith(LARGE)))

    def next_fault(self, what, name):
        with self.lock:
            faults = self.faults.get(f"{name}:{what}") or self.faults.get(what)
            return faults.pop(0) if faults else Fault()

    # What the API says of one file.

    @staticmethod
    def sibling(name, content, blobs):
        out = {"rfilename": name}
        if blobs:
            out |= {"size": len(content), "blobId": git_sha1(content)}
            if name.endswith(LARGE):
                out["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return out

    @staticmethod
    def entry(name, content):
        out = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
        if name.endswith(LARGE):
            out["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return out


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hub, role, tls, address):
        super().__init__((address, 0), Handler)
        self.hub = hub
        self.role = role
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        pass  # clients are killed and cut off here


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        self.answer(head=False)

    # Answers

    def answer(self, head):
        self.hub = self.server.hub
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[1:]]
        query = urllib.parse.parse_qs(url.query)
        self.head = head
        if self.server.role == "store":
            return self.send_file("/".join(parts[:2]), parts[2], parts[3])
        if parts[:2] == ["api", "models"] and parts[4:5] in ([], ["revision"]):
            return self.send_listing("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main", "blobs" in query)
        if parts[:2] == ["api", "models"] and parts[4] == "tree":
            return self.send_tree("/".join(parts[2:4]), parts[5])
        if parts[:3] == ["api", "resolve-cache", "models"]:
            return self.send_file("/".join(parts[3:5]), parts[5], "/".join(parts[6:]))
        if len(parts) >= 5 and parts[2] == "resolve":
            return self.resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        return self.refuse(404, "EntryNotFound")

    def note(self, what, start=0):
        token = self.headers.get("Authorization")
        with self.hub.lock:
            self.hub.got.append(Got(what, self.server.role, start, token, self.head))

    def has_token(self):
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def refuse(self, status, code="", headers=None):
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def find(self, name, revision, files=True):
        """The repository and the commit; None after a refusal."""
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not self.has_token()):
            self.refuse(404 if self.headers.get("Authorization") else 401, "RepoNotFound")
            return None
        if files and repo.gated and not self.has_token():
            self.refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            return None
        commit = revision if revision in repo.commits else repo.revisions.get(revision)
        if commit is None:
            self.refuse(404, "RevisionNotFound")
            return None
        return repo, commit

    def send_json(self, value):
        self.send_content(json.dumps(value).encode(), {"Content-Type": "application/json"}, Fault())

    def send_listing(self, name, revision, blobs):
        self.note("listing")
        fault = self.hub.next_fault("listing", name)
        if fault.status is not None:
            return self.refuse(fault.status, headers=fault.headers)
        found = self.find(name, revision, files=False)
        if found is None:
            return None
        repo, commit = found
        value = {"id": name, "modelId": name, "sha": commit, "private": repo.private, "gated": "auto" if repo.gated else False,
                 "siblings": [self.hub.sibling(file, content, blobs) for file, content in repo.commits[commit].items()]}
        content = json.dumps(value).encode() if fault.body is None else fault.body
        return self.send_content(content, {"Content-Type": "application/json"}, fault)

    def send_tree(self, name, revision):
        found = self.find(name, revision, files=False)
        if found is not None:
            repo, commit = found
            self.send_json([self.hub.entry(file, content) for file, content in repo.commits[commit].items()])

    def resolve(self, name, revision, file):
        """Redirects to where the content lies."""
        found = self.find(name, revision)
        if found is None:
            return None
        repo, commit = found
        content = repo.commits[commit].get(file)
        if content is None:
            return self.refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit}
        if file.endswith(LARGE):
            self.note(file)
            headers |= {"X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Linked-Size": str(len(content)),
                        "Location": f"{self.hub.store}/{name}/{commit}/{urllib.parse.quote(file)}"}
            return self.refuse(302, headers=headers)
        headers["Location"] = f"/api/resolve-cache/models/{name}/{commit}/{urllib.parse.quote(file)}"
        return self.refuse(307, headers=headers)

    def send_file(self, name, commit, file):
        content = self.hub.repos[name].commits[commit][file]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.note(file, start)
        fault = Fault() if self.head else self.hub.next_fault(file, name)
        if fault.status is not None:
            return self.refuse(fault.status, headers=fault.headers)
        etag = hashlib.sha256(content).hexdigest() if file.endswith(LARGE) else git_sha1(content)
        if fault.body is not None:
            content = fault.body
        return self.send_content(content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, fault)

    def send_content(self, content, headers, fault):
        """With its range, unless a fault ignores it."""
        wanted = None if fault.ignore_range else self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        if wanted and start >= len(content):
            return self.refuse(416)
        self.send_response(206 if wanted else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.head:
            return None
        rest = content[start:]
        if fault.after is not None:
            self.wfile.write(rest[:fault.after])
            self.wfile.flush()
            rest = rest[fault.after:]
            if fault.hold is not None:
                fault.hold.wait()
            if fault.cut:
                self.close_connection = True
                return None
        return self.wfile.write(rest)
