"""Keys, certificates and kubeconfigs of the test cluster, made by openssl: ECDSA, in about a second."""

import json
import subprocess

CONTROL_PLANE = "172.30.0.1"
SERVICE_NETWORK = "10.96.0.0/16"


def address(number):
    """The address of node `number`."""
    return f"172.30.0.{10 + number}"


class Certificates:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name):
        return self.folder / name

    def openssl(self, *words):
        subprocess.run(["openssl", *(str(word) for word in words)], cwd=self.folder, check=True,
                       capture_output=True)

    def key(self, name):
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    def authority(self, name):
        self.key(name)
        self.openssl("req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN=janus-test-{name}",
                     "-days", "3650", "-out", f"{name}.crt")

    def leaf(self, name, subject, usage, names="", authority="ca"):
        self.key(name)
        extensions = ["basicConstraints=CA:FALSE", "keyUsage=digitalSignature,keyEncipherment",
                      f"extendedKeyUsage={usage}"]
        if names:
            extensions.append(f"subjectAltName={names}")
        self.path(f"{name}.ext").write_text("\n".join(extensions) + "\n")
        self.openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.crt", "-CAkey",
                     f"{authority}.key", "-CAcreateserial", "-days", "3650", "-extfile",
                     f"{name}.ext", "-out", f"{name}.crt")

    def kubeconfig(self, name):
        self.path(f"{name}.kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://{CONTROL_PLANE}:6443",
                "certificate-authority": str(self.path("ca.crt"))}}],
            "users": [{"name": name, "user": {
                "client-certificate": str(self.path(f"{name}.crt")),
                "client-key": str(self.path(f"{name}.key"))}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test"}, indent=1) + "\n")

    def create(self, nodes):
        """Makes all that a control plane and `nodes` nodes need, unless it exists."""
        done = self.path(f"nodes-{nodes}")
        if done.exists():
            return
        self.authority("ca")
        self.authority("front-ca")
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        service = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost"
        self.leaf("apiserver", "/CN=kube-apiserver", "serverAuth",
                  f"{service},IP:127.0.0.1,IP:10.96.0.1,IP:{CONTROL_PLANE}")
        self.leaf("apiserver-kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client", "clientAuth")
        self.leaf("front-proxy-client", "/CN=front-proxy-client", "clientAuth", authority="front-ca")
        for name, subject in (("admin", "/O=system:masters/CN=admin"),
                              ("controller-manager", "/CN=system:kube-controller-manager"),
                              ("scheduler", "/CN=system:kube-scheduler"),
                              ("proxy", "/CN=system:kube-proxy")):
            self.leaf(name, subject, "clientAuth")
            self.kubeconfig(name)
        for number in range(1, nodes + 1):
            name = f"node{number}"
            self.leaf(name, f"/O=system:nodes/CN=system:node:{name}", "serverAuth,clientAuth",
                      f"DNS:{name},IP:127.0.0.1,IP:{address(number)}")
            self.kubeconfig(name)
        done.touch()
