"""A virtual machine that runs Debian's kernel and commands that a test gives it.

    with Guest(folder, "a", image, address="10.77.0.1") as a:
        a.run("ip link show eth0")

It is emulated where this machine cannot run an unmodified kernel on its own processor (how_to_run).
"""

import base64
import pathlib
import secrets
import shlex
import socket
import subprocess
import time

from image import Image, libraries_of, modules_in_order
from janus_test import scaled

# What the guest's init loads, besides what these depend on. crc32_generic is found by name only.
MODULES = ("virtio_pci", "virtio_net", "crc32_generic", "rdma_rxe", "ib_uverbs", "sch_netem", "veth")
MTU = 9000
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /usr/bin
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
for module in $(cat /modules); do insmod $module || echo "insmod $module failed"; done
/usr/sbin/ip link set lo up
. /network
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo "guest ready" >&3
while read -r token script <&3; do
  echo "$script" | base64 -d >/tmp/.command
  sh /tmp/.command >/tmp/.output 2>&1 </dev/null
  code=$?
  { base64 /tmp/.output | tr -d '\\n'; echo " $token $code"; } >&3
done
"""


class GuestError(Exception):
    """A guest that does not start, or does not answer."""


def how_to_run():
    """("kvm", "") where the processor runs the guest, otherwise ("tcg", why it is emulated)."""
    if not pathlib.Path("/dev/kvm").exists():
        return "tcg", "there is no /dev/kvm"
    # Another implementation of /dev/kvm, such as PVM, runs only kernels that were made for it.
    if not any(pathlib.Path("/sys/module", name).exists() for name in ("kvm_intel", "kvm_amd")):
        return "tcg", "/dev/kvm is neither kvm_intel nor kvm_amd, and does not run Debian's kernel"
    try:
        with open("/dev/kvm", "rb"):
            return "kvm", ""
    except OSError as error:
        return "tcg", f"/dev/kvm cannot be opened: {error.strerror}"


def base_image(kernel):
    """What every guest has: busybox, tools, libibverbs' and UCX's drivers, the modules of `kernel`."""
    image = Image()
    image.program("/usr/bin/busybox")
    image.link("usr/bin/sh", "busybox")
    for tool in ("/usr/sbin/ip", "/usr/sbin/tc", "/usr/bin/rdma", "/usr/bin/ucx_info", "/usr/bin/ucx_perftest"):
        image.program(tool)
    libraries = next(path.parent for path in libraries_of("/usr/bin/ucx_info") if path.name.startswith("libucp.so"))
    for library in sorted((libraries / "ucx").glob("*.so.0")):
        image.program(library)
    image.program(libraries / "libibverbs" / "librxe-rdmav34.so")
    image.write("/etc/libibverbs.d/rxe.driver", "driver rxe\n")
    files = modules_in_order(kernel / "modules", MODULES)
    for file in files:
        image.write(f"/modules.d/{file.name}", file.read_bytes())
    image.write("/modules", "".join(f"/modules.d/{file.name}\n" for file in files))
    image.write("/init", INIT, 0o755)
    image.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    image.write("/etc/group", "root:x:0:\n")
    image.write("/etc/hosts", "127.0.0.1 localhost\n")
    return image


class Guest:
    """One machine. `link`: a Unix socket that joins two guests by a cable; the one with `serves_link` starts first."""

    def __init__(self, folder, name, kernel, image, network, link=None, serves_link=False, memory_mb=1536, cores=2):
        self.name = name
        self._folder = pathlib.Path(folder)
        image.write("/network", network)
        disk = self._folder / f"{name}.cpio"
        image.save(disk)
        self._console = self._folder / f"{name}.console"
        self._commands = self._folder / f"{name}.commands"
        accelerator, _ = how_to_run()
        # no_timer_check: on a busy machine the guest's timer comes late, and the kernel would take it for broken.
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-accel", "kvm" if accelerator == "kvm" else "tcg,thread=multi",
                   "-cpu", "host" if accelerator == "kvm" else "max",
                   "-smp", str(cores), "-m", str(memory_mb), "-kernel", str(kernel / "vmlinuz"), "-initrd", str(disk),
                   "-append", "console=ttyS0 panic=-1 quiet nokaslr mitigations=off no_timer_check rdinit=/init",
                   "-serial", f"file:{self._console}",
                   "-serial", f"unix:{self._commands},server=on,wait=off"]
        if link:
            command += ["-netdev", f"stream,id=cable,server={'on' if serves_link else 'off'},addr.type=unix,addr.path={link}",
                        "-device", f"virtio-net-pci,netdev=cable,host_mtu={MTU},mac=52:54:00:77:00:0{1 + (not serves_link)}"]
        self._errors = open(self._folder / f"{name}.qemu", "w+", encoding="utf-8")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._errors, stderr=subprocess.STDOUT)
        self._read = b""
        self._socket = self._connect()  # before the guest writes to it, because qemu keeps nothing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _fail(self, what):
        self._errors.flush()
        console = self._console.read_text(errors="replace")[-3000:] if self._console.exists() else ""
        said = (self._folder / f"{self.name}.qemu").read_text(errors="replace")
        raise GuestError(f"guest {self.name}: {what}\nqemu: {said}\nconsole: {console}")

    def await_ready(self, seconds=400):
        """Returns once it takes commands."""
        until = time.monotonic() + scaled(seconds)
        while self._line(until) != "guest ready":
            pass
        return self

    def _connect(self):
        until = time.monotonic() + scaled(30)
        while True:
            commands = socket.socket(socket.AF_UNIX)
            try:
                commands.connect(str(self._commands))
                return commands
            except OSError:
                commands.close()
            if self._process.poll() is not None or time.monotonic() > until:
                self._fail("qemu has not started")
            time.sleep(0.05)

    def _line(self, until):
        while b"\n" not in self._read:
            self._socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                more = self._socket.recv(1 << 16)
            except TimeoutError:
                self._fail("no answer in time")
            if not more:
                self._fail("it has ended")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace").strip()

    def ask(self, script, seconds=120):
        """Runs a shell script. Returns (exit code, output)."""
        token = secrets.token_hex(8)
        self._socket.settimeout(scaled(seconds))
        self._socket.sendall(f"{token} {base64.b64encode(script.encode()).decode()}\n".encode())
        until = time.monotonic() + scaled(seconds)
        while True:
            words = self._line(until).split()
            if len(words) >= 2 and words[-2] == token:
                output = base64.b64decode(words[0]).decode(errors="replace") if len(words) == 3 else ""
                return int(words[-1]), output

    def run(self, script, seconds=120):
        """The output of a script that must succeed."""
        code, output = self.ask(script, seconds)
        if code != 0:
            raise GuestError(f"guest {self.name}: {script}: exit code {code}\n{output}")
        return output

    def start(self, command, log, environment=None):
        """Runs a program in the background, with its output in a file of the guest. Returns its process id."""
        words = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
        return int(self.run(f"{' '.join(words)} {command} >{log} 2>&1 </dev/null & echo $!").split()[-1])
