"""etcd, API server, controller-manager, scheduler, and KWOK for pods that exist only in the API."""

import re

from box import Box, ClusterError, wait_for
from certificates import CONTROL_PLANE, SERVICE_NETWORK

# The network of fake pods. It is local to the control plane's machine: a test there can answer for any pod.
FAKE_PODS = "100.64.0.0/12"


class ControlPlane:
    def __init__(self, folder, programs):
        self.box = Box(folder, "control-plane")
        self.folder = folder
        self.programs = programs
        self.pki = folder / "pki"

    def create(self):
        self.box.create(self.programs / "pause")
        self.box.run("ip", "link", "add", "nodes", "type", "bridge")
        self.box.run("ip", "addr", "add", f"{CONTROL_PLANE}/24", "dev", "nodes")
        self.box.run("ip", "link", "set", "nodes", "up")
        self.box.run("sysctl", "-qw", "net.ipv4.ip_forward=1")

    def start_etcd(self):
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        self.box.start(
            "etcd", self.programs / "etcd", "--name=etcd", f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=etcd={peer}",
            "--unsafe-no-fsync", "--log-level=warn")  # the data need not outlive the machine

    def start_api_server(self, *more):
        """`more`: additional flags."""
        pki = self.pki
        self.box.start(
            "kube-apiserver", self.programs / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443",
            f"--advertise-address={CONTROL_PLANE}", f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
            f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            # Aggregation: a separate authority, and endpoints by route, as there is no proxy here.
            f"--requestheader-client-ca-file={pki}/front-ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
            f"--proxy-client-key-file={pki}/front-proxy-client.key",
            "--enable-aggregator-routing=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--service-account-key-file={pki}/sa.pub",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            f"--admission-control-config-file={self.folder}/config/admission.yaml",
            "--allow-privileged=true", "--profiling=false",
            f"--audit-policy-file={self.folder}/config/audit.yaml",
            # Tests read this log: a rotated part would be missing.
            f"--audit-log-path={self.folder}/log/audit.log", "--audit-log-maxsize=4096", *more)

    def start_controllers(self):
        """Intervals for which tests wait are shorter than usual."""
        pki = self.pki
        self.box.start(
            "kube-controller-manager", self.programs / "kube-controller-manager",
            *(f"--{use}kubeconfig={pki}/controller-manager.kubeconfig"
              for use in ("", "authentication-", "authorization-")),
            "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/controller-manager",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
            f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
            "--allocate-node-cidrs=false", "--leader-elect=false",
            "--kube-api-qps=100", "--kube-api-burst=200",
            "--node-monitor-grace-period=20s", "--node-monitor-period=2s",
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--horizontal-pod-autoscaler-downscale-stabilization=5s")
        self.box.start(
            "kube-scheduler", self.programs / "kube-scheduler",
            *(f"--{use}kubeconfig={pki}/scheduler.kubeconfig"
              for use in ("", "authentication-", "authorization-")),
            "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/scheduler",
            "--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400")

    def start_kwok(self):
        """Only for nodes that ask for it; they and their pods exist only in the API."""
        self.box.run("ip", "route", "replace", "local", FAKE_PODS, "dev", "lo")
        # KWOK would set the readiness gates of a pod. A kubelet leaves them to the controllers to which they belong.
        stages, count = re.subn(r"\{\{ range \.spec\.readinessGates \}\}.*?\{\{ end \}\}\n", "",
                                (self.programs / "kwok-stages.yaml").read_text(), flags=re.DOTALL)
        if count == 0:
            raise ClusterError("KWOK's stages set no readiness gates any more; see what they do instead")
        (self.folder / "kwok-stages.yaml").write_text(stages)
        self.box.start(
            "kwok", self.programs / "kwok", f"--config={self.folder}/kwok-stages.yaml",
            f"--kubeconfig={self.pki}/admin.kubeconfig", "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--cidr={FAKE_PODS}", "--node-lease-duration-seconds=40")

    def kubectl(self, *words, **options):
        return self.box.run(self.programs / "kubectl",
                            f"--kubeconfig={self.pki}/admin.kubeconfig", *words, **options)

    def succeeds(self, *words):
        try:
            self.kubectl(*words)
        except ClusterError:
            return False
        return True

    def await_ready(self):
        wait_for(lambda: self.succeeds("get", "--raw", "/readyz"), "the API server's /readyz")

    def await_service_accounts(self):
        wait_for(lambda: self.succeeds("get", "serviceaccount", "default"),
                 "the default service account")
