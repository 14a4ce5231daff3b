"""What this machine lacks for the tests' clusters, in one line: needs.py build|api|node|images

build: to compile their programs (e2e/build). api and node: what else the tiers of e2e/cluster need. images: to make
images of Janus' programs, and to use them in tests.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# A Python with the openai client.
PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus/test-venv/bin/python"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# Programs by tier, with the Debian package of each.
PROGRAMS = {
    "build": {"flock": "util-linux", "awk": "mawk", "tar": "tar", "gcc": "gcc"},
    "api": {"curl": "curl", "diff": "diffutils", "ip": "iproute2", "mount": "mount", "nsenter": "util-linux",
            "openssl": "openssl", "setsid": "util-linux", "sysctl": "procps", "unshare": "util-linux"},
    "node": {"busybox": "busybox-static", "conntrack": "conntrack", "containerd": "containerd", "ctr": "containerd",
             "iptables": "iptables", "runc": "runc", "/usr/lib/cni/bridge": "containernetworking-plugins"},
    "images": {"buildah": "buildah", "readelf": "binutils", "strip": "binutils"},
}
BENEATH = {"build": ("build",), "api": ("build", "api"), "node": ("build", "api", "node"), "images": ("images",)}


def wanted_go():
    """The newest version that any of the modules requires."""
    versions = [re.search(r"^go (\S+)$", path.read_text(), re.M)[1]
                for path in sorted((HERE.parent / "build").glob("*/go.mod"))]
    return max(versions, key=numbers)


def numbers(version):
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def missing_go():
    wanted = wanted_go()
    how = f"install Go {wanted} or newer (https://go.dev/doc/install) and put it into PATH"
    if shutil.which("go") is None:
        return f"Go is not installed; {how}"
    # Ignores the module's request: a newer toolchain may not be available.
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd="/",
                          env={**os.environ, "GOTOOLCHAIN": "local"}).stdout.strip()
    if numbers(said) < numbers(wanted):
        return f"Go is {said.removeprefix('go') or 'older than 1.21'}; {how}"
    return ""


def missing_programs(tier):
    packages = {program: package for one in BENEATH[tier] for program, package in PROGRAMS[one].items()
                if shutil.which(program) is None}
    if not packages:
        return ""
    group = "images" if tier == "images" else "cluster"
    return (f"not installed: {', '.join(sorted(packages))}; scripts/deps {group} installs them (Debian packages "
            f"{' '.join(sorted(set(packages.values())))})")


def missing_rights():
    if os.geteuid() != 0:
        return "it needs root, for namespaces"
    probe = subprocess.run(["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "true"],
                           capture_output=True, text=True, check=False)
    return f"no namespaces can be made: {probe.stderr.strip()}" if probe.returncode != 0 else ""


def missing_cgroups():
    if not (CGROUPS / "memory" / "cgroup.procs").exists():
        return "cgroup v1 with its memory controller is not mounted at /sys/fs/cgroup"
    try:
        probe = CGROUPS / "memory" / f"janus-probe-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"no cgroup can be made: {error}"
    return ""


def missing(tier):
    """Why this machine cannot run the tier; empty: it can."""
    if tier == "images":
        venv = "" if PYTHON.exists() else f"no {PYTHON}; scripts/deps test makes it"
        return "; ".join(filter(None, (missing_programs(tier), venv)))
    reasons = [missing_go(), missing_programs(tier)]
    if tier != "build" and not any(reasons):
        reasons.append(missing_rights())
    if tier == "node":
        reasons.append(missing_cgroups())
    return "; ".join(filter(None, reasons))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in BENEATH:
        sys.exit(__doc__)
    reason = missing(sys.argv[1])
    if reason:
        what = "the test cluster's programs cannot be built" if sys.argv[1] == "build" else f"{sys.argv[1]} cannot run"
        sys.exit(f"{what} here: {reason}")
