"""A node: containerd, kubelet and kube-proxy in a separate machine, with a cable to the bridge."""

import os
import pathlib
import shutil
import string
import subprocess
import zlib

from box import Box, ClusterError, wait_for
from certificates import CONTROL_PLANE, address
from image import write_image
from needs import CGROUPS

HERE = pathlib.Path(__file__).resolve().parent
GPUS = 4  # GPUs that each node claims to have
MIG_SLICES = ("nvidia.com/mig-1g.18gb", 7)


def cgroup_hierarchies():
    """The folders of cgroup v1: one for each controller."""
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()
            and path.name not in ("unified",)]


def cgroup_name(folder, node):
    """Groups are global on the machine: clusters with the same name and another state folder may exist."""
    return f"janus-{folder.name}-{zlib.crc32(str(folder).encode()):08x}-{node}"


def remove_cgroups(folder):
    def rest():
        left = sorted((path for hierarchy in CGROUPS.iterdir() if hierarchy.is_dir()
                       for top in hierarchy.glob(cgroup_name(folder, "*"))
                       for path in [top, *(p for p in top.rglob("*") if p.is_dir())]),
                      key=lambda path: len(path.parts), reverse=True)
        for path in left:
            try:
                path.rmdir()
            except OSError:
                pass  # its last process is just ending
        return not left

    wait_for(rest, "the removal of the nodes' cgroups")


def make_images(folder, programs):
    """Images that every cluster runs; made once per set of programs."""
    images = programs / "images"
    if images.exists():
        return
    parts = programs / "images.new"
    shutil.rmtree(parts, ignore_errors=True)
    busybox = pathlib.Path(shutil.which("busybox") or "/bin/busybox")
    for name, program, entrypoint, command in (("pause", programs / "pause", ["/pause"], None),
                                               ("coredns", programs / "coredns", ["/coredns"], None),
                                               ("busybox", busybox, None, ["sh"])):
        root = parts / name
        target = root / "bin" if name == "busybox" else root
        target.mkdir(parents=True)
        shutil.copy(program, target / name)
        if name == "busybox":
            (root / "tmp").mkdir()
            for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True,
                                         check=True).stdout.split():
                if applet != "busybox":
                    (target / applet).symlink_to("busybox")
        write_image(parts / f"{name}.tar", f"janus.test/{name}:1", root, entrypoint, command)
        shutil.rmtree(root)
    parts.rename(images)


class Node:
    def __init__(self, folder, programs, number, control_plane):
        self.name = f"node{number}"
        self.number = number
        self.folder = folder
        self.programs = programs
        self.control_plane = control_plane
        self.box = Box(folder, self.name)

    def write(self, template, name=None):
        """Writes a configuration file of this node; returns its path."""
        out = self.box.own / (name or template)
        out.parent.mkdir(parents=True, exist_ok=True)
        values = {"pki": self.folder / "pki", "run": self.folder, "node": self.name,
                  "number": self.number, "cgroup": cgroup_name(self.folder, self.name)}
        out.write_text(string.Template((HERE / "config" / template).read_text()).substitute(values))
        return out

    def create(self, nodes):
        """Makes the machine, its cable to the bridge, its routes to the other nodes' pods, and its cgroups."""
        self.write("bridge.conflist", "root/etc/cni/net.d/10-bridge.conflist")
        self.box.create(self.programs / "pause")
        cable = f"to-{self.name}"
        plane = self.control_plane.box
        plane.run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0")
        plane.run("ip", "link", "set", cable, "master", "nodes", "up")
        # Only the network of the other machine: its pid is a process of this machine.
        subprocess.run(["nsenter", "-t", str(plane.pid()), "-n", "ip", "link", "set", "eth0", "netns",
                        str(self.box.pid())], check=True)
        self.box.run("ip", "addr", "add", f"{address(self.number)}/24", "dev", "eth0")
        self.box.run("ip", "link", "set", "eth0", "up")
        self.box.run("ip", "route", "add", "default", "via", CONTROL_PLANE)
        self.box.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        for other in range(1, nodes + 1):
            if other != self.number:
                self.box.run("ip", "route", "add", f"10.244.{other}.0/24", "via", address(other))
        plane.run("ip", "route", "replace", f"10.244.{self.number}.0/24", "via", address(self.number))
        for hierarchy in cgroup_hierarchies():
            (hierarchy / cgroup_name(self.folder, self.name)).mkdir(exist_ok=True)
        cpuset = CGROUPS / "cpuset"
        for what in ("cpuset.cpus", "cpuset.mems"):  # a new one is empty and accepts no process
            if (cpuset / what).exists():
                value = (cpuset / what).read_text()
                (cpuset / cgroup_name(self.folder, self.name) / what).write_text(value)

    def start_runtime(self):
        self.box.start("containerd", "containerd", "-c", self.write("containerd.toml"))

    def ctr(self, *words):
        return self.box.run("ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", *words)

    def answers(self):
        try:
            self.ctr("version")
        except ClusterError:
            return False
        return True

    def load_images(self):
        wait_for(self.answers, f"containerd on {self.name}")
        for archive in sorted((self.programs / "images").glob("*.tar")):
            self.ctr("images", "import", archive)

    def start_kubelet(self):
        pki = self.folder / "pki"
        self.box.start(
            "kubelet", self.programs / "kubelet", f"--config={self.write('kubelet.yaml')}",
            f"--kubeconfig={pki}/{self.name}.kubeconfig", f"--hostname-override={self.name}",
            f"--node-ip={address(self.number)}", "--cert-dir=/var/lib/kubelet/pki", "--v=2")
        self.box.start("kube-proxy", self.programs / "kube-proxy",
                       f"--config={self.write('proxy.yaml')}", "--v=2")

    def await_ready(self):
        wait_for(lambda: self.control_plane.succeeds("wait", "--for=condition=Ready",
                                                     f"node/{self.name}", "--timeout=20s"),
                 f"{self.name} to be Ready")

    def claim_gpus(self):
        """Like a device plugin, for the scheduler only; no pod gets a device."""
        mig, slices = MIG_SLICES
        capacity = f'{{"nvidia.com/gpu": "{GPUS}", "{mig}": "{slices}"}}'
        self.control_plane.kubectl("patch", "node", self.name, "--subresource=status", "--type=merge",
                                   "-p", f'{{"status": {{"capacity": {capacity}}}}}')
