"""Makes container images without a registry: a folder becomes the single layer of a docker-archive."""

import hashlib
import io
import json
import tarfile


def _plain(info):
    """Removes owner and time, so that the bytes are the same for every maker."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    return info


def write_image(path, reference, root, entrypoint=None, command=None):
    """`path`: the archive; `root`: the folder; reference: "janus.test/pause:1"."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry in sorted(root.iterdir()):
            tar.add(entry, arcname=entry.name, filter=_plain)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": {"Env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"], "Entrypoint": entrypoint,
                   "Cmd": command, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }, sort_keys=True).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = f"{digest}/layer.tar"
    manifest = json.dumps([
        {"Config": config_name, "RepoTags": [reference], "Layers": [layer_name]}]).encode()
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in ((config_name, config), (layer_name, layer.getvalue()),
                           ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(data))
