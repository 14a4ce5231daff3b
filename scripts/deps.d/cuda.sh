#!/usr/bin/env bash
# The group "cuda" of scripts/deps: a CUDA toolkit from NVIDIA's wheels, for compiling kernels/cuda if none
# is installed. It takes 0.5 GB in the cache, outside the tree. It has no driver: kernels run only on a
# machine that has one.
#
# Sourced, it defines deps_cuda; run, it calls it. Safe to run twice. CMake's preset `cuda` finds it.

# 13.0 runs on drivers from 580 on. Every part is pinned: the bounds on registers (kernels/cuda/bounds.txt)
# hold for one compiler.
JANUS_CUDA_WHEELS=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85
)

# The wheels lack lib64 and the unversioned .so links that CMake's compiler check needs.
cuda_root_from_wheels() { # SITE_PACKAGES ROOT
  local wheels=$1/nvidia/cu13 root=$2 file base
  mkdir -p "$root/bin" "$root/include" "$root/lib64/stubs"
  ln -s "$wheels/nvvm" "$root/nvvm"
  ln -s "$wheels"/include/* "$root/include/"
  # nvcc finds its root from its real path: it must be copied, not linked.
  cp "$wheels/bin/nvcc" "$wheels/bin/nvcc.profile" "$root/bin/"
  for file in "$wheels"/bin/*; do
    [[ -e $root/bin/${file##*/} ]] || ln -s "$file" "$root/bin/"
  done
  ln -s "$wheels"/lib/* "$root/lib64/"
  for file in "$root"/lib64/lib*.so.*; do
    base=${file##*/}
    ln -sf "$base" "$root/lib64/${base%%.so.*}.so"
  done
  ln -s lib64 "$root/lib"
}

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

deps_cuda() {
  local cache="${XDG_CACHE_HOME:-$HOME/.cache}/janus" root venv want missing=()
  root="$cache/cuda-13.0"
  if command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
    echo "cuda: a toolkit is installed on this machine"
    return 0
  fi
  want="$(printf '%s\n' "${JANUS_CUDA_WHEELS[@]}")"
  if [[ -f $root/janus-packages && "$(<"$root/janus-packages")" == "$want" ]]; then
    echo "cuda: $root is up to date"
    return 0
  fi
  if [[ $(uname -m) != x86_64 ]]; then
    echo "cuda: the wheels are pinned for x86_64; this machine is $(uname -m)" >&2
    return 1
  fi
  command -v g++ >/dev/null || missing+=(g++)
  # shellcheck disable=SC2046 # no word where it is there
  install_debian cuda "${missing[@]}" $(venv_package) || return 1
  echo "cuda: installing nvcc 13.0 and its headers into $root (half a minute, 0.5 GB)"
  rm -rf "$root"
  mkdir -p "$root"
  venv="$root/venv"
  python3 -m venv "$venv" || return 1
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    "${JANUS_CUDA_WHEELS[@]}" || return 1
  cuda_root_from_wheels "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    "$root" || return 1
  "$root/bin/nvcc" --version >/dev/null || return 1
  printf '%s\n' "$want" >"$root/janus-packages"
  echo "cuda: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_cuda
fi
