#!/usr/bin/env bash
# The group "test" of scripts/deps: the virtual environment of the Python tests (the official clients
# against the gateway), and the clients for Node where npm is there.
#
# Sourced, it defines deps_test and deps_node; run, it calls deps_test. Safe to run twice.

JANUS_TEST_PACKAGES=(
  anthropic==2.14.0
  openai==2.8.1
  httpx==0.28.1
  pytest==9.0.1
  huggingface-hub==2.4.0
)
JANUS_NODE_PACKAGES=(
  @anthropic-ai/sdk@1.14.0
  openai@6.49.0
)

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

# The stamp lists what is installed, as below.
deps_node() {
  local folder="${XDG_CACHE_HOME:-$HOME/.cache}/janus/test-node" want
  if ! command -v npm >/dev/null; then
    echo "test: no npm; the tests of the clients for Node are skipped"
    return 0
  fi
  want="$(printf '%s\n' "${JANUS_NODE_PACKAGES[@]}")"
  if [[ -f $folder/janus-packages && "$(<"$folder/janus-packages")" == "$want" ]]; then
    echo "test: $folder is up to date"
    return 0
  fi
  echo "test: installing the clients for Node into $folder"
  mkdir -p "$folder"
  if ! timeout 180 npm install --prefix "$folder" --no-save --no-audit --no-fund --loglevel=error "${JANUS_NODE_PACKAGES[@]}"; then
    echo "test: npm could not install them; the tests of the clients for Node are skipped"
    rm -rf "$folder"
    return 0
  fi
  printf '%s\n' "$want" >"$folder/janus-packages"
}

deps_test() {
  local venv="${XDG_CACHE_HOME:-$HOME/.cache}/janus/test-venv" python
  # shellcheck disable=SC2046 # no word where it is there
  install_debian test $(venv_package) || return 1
  # The stamp lists what is installed: if a pin in this file changes, the environment is installed
  # again.
  local stamp="$venv/janus-packages" want
  want="$(printf '%s\n' "${JANUS_TEST_PACKAGES[@]}")"
  if [[ -f $stamp && "$(<"$stamp")" == "$want" ]]; then
    echo "test: $venv is up to date"
    return 0
  fi
  echo "test: installing the clients and pytest into $venv"
  python="$venv/bin/python"
  [[ -x $python ]] || python3 -m venv "$venv" || return 1
  "$python" -m pip install --quiet --disable-pip-version-check "${JANUS_TEST_PACKAGES[@]}" ||
    return 1
  printf '%s\n' "$want" >"$stamp"
  echo "test: done"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  deps_test
fi
