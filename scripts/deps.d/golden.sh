#!/usr/bin/env bash
# The group "golden" of scripts/deps: tools that make golden files and the demo model (tests/golden,
# examples/demo-model). Building, testing and running Janus do not need them.
#
# Sourced, it defines deps_golden; run, it calls it. Safe to run twice.
#
# Torch comes from PyPI. Its Linux build needs several GB of CUDA libraries; they are left out and
# replaced by stubs (tests/golden/cpu_stubs.py). This environment must therefore never be used with a
# GPU. It takes 1.8 GB.

# Every package is pinned: a golden file is valid for one version.
JANUS_GOLDEN_WITHOUT_THEIR_NEEDS=(
  torch==2.15.0
  nvidia-cuda-runtime==13.2.86
  nvidia-cuda-cupti==13.2.86
)
JANUS_GOLDEN_PACKAGES=(
  transformers==5.23.0
  tokenizers==0.23.3
  safetensors==0.8.0
  huggingface-hub==2.4.0
  numpy==2.4.6
  Jinja2==3.1.6
  filelock==4.2.11
  fsspec==2026.9.0
  networkx==3.6.1
  setuptools==84.2.1
  regex==2026.11.19
  sympy==1.14.0
  tiktoken==0.14.0
  typing-extensions==4.16.0
)

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

deps_golden() {
  local here venv python
  here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)" || return 1
  venv="${XDG_CACHE_HOME:-$HOME/.cache}/janus/golden-venv"

  # The novels that the demo model and the golden tokenizers learn from; gcc and readelf for the
  # stubs.
  local missing=()
  [[ -f /usr/lib/R/site-library/janeaustenr/data/Rdata.rdb ]] || missing+=(r-cran-janeaustenr)
  command -v gcc >/dev/null || missing+=(gcc)
  command -v readelf >/dev/null || missing+=(binutils)
  # shellcheck disable=SC2046 # no word where it is there
  install_debian golden "${missing[@]}" $(venv_package) || return 1

  if [[ $(uname -m) != x86_64 ]]; then
    echo "golden: torch is pinned for x86_64; this machine is $(uname -m)" >&2
    return 1
  fi
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "golden: python3 is $(python3 -V 2>&1); 3.11 or later is needed" >&2
    return 1
  fi

  # The stamp lists what is installed: if a pin in this file changes, the environment is installed
  # again.
  local stamp="$venv/janus-packages" want
  want="$(printf '%s\n' "${JANUS_GOLDEN_WITHOUT_THEIR_NEEDS[@]}" "${JANUS_GOLDEN_PACKAGES[@]}")"
  if [[ -f $stamp && "$(<"$stamp")" == "$want" ]]; then
    echo "golden: $venv is up to date"
    return 0
  fi
  echo "golden: installing torch, transformers and their needs into $venv (a minute, 1.8 GB)"
  python="$venv/bin/python"
  [[ -x $python ]] || python3 -m venv "$venv" || return 1
  # The packages below come first, with their dependencies. Torch is then installed without
  # dependencies.
  "$python" -m pip install --quiet --disable-pip-version-check \
    "${JANUS_GOLDEN_PACKAGES[@]}" || return 1
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    "${JANUS_GOLDEN_WITHOUT_THEIR_NEEDS[@]}" || return 1
  "$python" "$here/tests/golden/cpu_stubs.py" || return 1
  "$python" -c 'import torch, transformers; torch.ones(2) @ torch.ones(2)' || return 1
  printf '%s\n' "$want" >"$stamp"
  echo "golden: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_golden
fi
