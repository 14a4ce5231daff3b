#!/usr/bin/env bash
# The group "ucx" of scripts/deps: a UCX newer than Debian's, with CUDA support, for tests. It is that of NVIDIA's wheel,
# which was built without RDMA: do not build a worker for a network device with it. It is in the cache, outside the tree.
#
# Sourced, it defines deps_ucx; run, it calls it. Safe to run twice. CMake uses it with
# -DCMAKE_PREFIX_PATH=~/.cache/janus/ucx-1.22.

JANUS_UCX_WHEEL=libucx-cu13==1.22.0

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

deps_ucx() {
  local root="${XDG_CACHE_HOME:-$HOME/.cache}/janus/ucx-1.22"
  if [[ -f $root/janus-packages && "$(<"$root/janus-packages")" == "$JANUS_UCX_WHEEL" ]]; then
    echo "ucx: $root is up to date"
    return 0
  fi
  if [[ $(uname -m) != x86_64 ]]; then
    echo "ucx: the wheel is pinned for x86_64; this machine is $(uname -m)" >&2
    return 1
  fi
  # shellcheck disable=SC2046 # no word where it is there
  install_debian ucx $(venv_package) || return 1
  echo "ucx: installing UCX 1.22 into $root (0.2 GB)"
  rm -rf "$root"
  python3 -m venv "$root/venv" || return 1
  "$root/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$JANUS_UCX_WHEEL" || return 1
  ln -s "$root"/venv/lib/python3*/site-packages/libucx/{include,lib} "$root/" || return 1
  cp "$root"/venv/lib/python3*/site-packages/libucx_*.dist-info/licenses/LICENSE "$root/" || return 1
  printf '%s\n' "$JANUS_UCX_WHEEL" >"$root/janus-packages"
  echo "ucx: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_ucx
fi
