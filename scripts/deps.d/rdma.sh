#!/usr/bin/env bash
# The group "rdma" of scripts/deps: qemu, and Debian's kernel for its guests (e2e/rdma). The kernel is in the cache,
# outside the tree; it is not installed, so that this machine boots as before.

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

JANUS_RDMA_PACKAGES=(binutils busybox-static ibverbs-providers iproute2 qemu-system-x86 ucx-utils)

deps_rdma() {
  local root="${XDG_CACHE_HOME:-$HOME/.cache}/janus/guest-kernel" package missing=()
  if [[ $(uname -m) != x86_64 ]]; then
    echo "rdma: the guest is for x86_64; this machine is $(uname -m)" >&2
    return 1
  fi
  for package in "${JANUS_RDMA_PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
  done
  if ((${#missing[@]})); then
    [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null || apt-get update -qq || return 1
    install_debian rdma "${missing[@]}" || return 1
  fi
  if [[ -f $root/vmlinuz && -d $root/modules ]]; then
    echo "rdma: $root has $(<"$root/janus-package")"
    return 0
  fi
  package=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ {print $2; exit}')
  if [[ -z $package ]]; then
    echo "rdma: apt knows no linux-image-amd64; run apt-get update as root, then this again" >&2
    return 1
  fi
  echo "rdma: unpacking $package into $root (0.5 GB while it works, then 20 MB)"
  rm -rf "$root" "$root.new"
  mkdir -p "$root.new/deb" || return 1
  (cd "$root.new/deb" && apt-get download -qq "$package") || return 1
  dpkg-deb -x "$root.new"/deb/*.deb "$root.new/files" || return 1
  mv "$root.new"/files/boot/vmlinuz-* "$root.new/vmlinuz" || return 1
  mkdir -p "$root.new/modules/drivers" || return 1
  mv "$root.new"/files/lib/modules/*/kernel/{crypto,lib,net} "$root.new/modules/" || return 1
  mv "$root.new"/files/lib/modules/*/kernel/drivers/{infiniband,net,virtio} "$root.new/modules/drivers/" || return 1
  rm -rf "$root.new/files" "$root.new/deb" "$root.new"/modules/drivers/{infiniband/hw,net/{ethernet,wireless}}
  echo "$package" >"$root.new/janus-package"
  mv "$root.new" "$root"
  echo "rdma: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_rdma
fi
