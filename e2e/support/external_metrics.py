"""external.metrics.k8s.io by aggregation: external_metrics.py CERTIFICATE KEY ADDRESS PORT FOLDER

Stands in for an adapter of a monitoring system. The value of metric NAME is the content of the file FOLDER/NAME; without
such a file the metric does not exist.
"""

import datetime
import http.server
import json
import pathlib
import ssl
import sys

GROUP_VERSION = "external.metrics.k8s.io/v1beta1"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        # apis/GROUP/VERSION[/namespaces/NAMESPACE/METRIC]
        parts = self.path.split("?")[0].strip("/").split("/")
        status, answer = 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        if parts == ["apis", *GROUP_VERSION.split("/")]:
            status, answer = 200, {
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION,
                "resources": [{"name": "externalmetrics", "singularName": "", "namespaced": True,
                               "kind": "ExternalMetricValueList", "verbs": ["get"]}]}
        elif len(parts) == 6 and (self.folder / parts[5]).exists():
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            status, answer = 200, {
                "kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {},
                "items": [{"metricName": parts[5], "metricLabels": {}, "timestamp": now,
                           "value": (self.folder / parts[5]).read_text().strip()}]}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    certificate, key, address, port, folder = sys.argv[1:]
    Handler.folder = pathlib.Path(folder)
    server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
