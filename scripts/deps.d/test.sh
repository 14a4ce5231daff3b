#!/usr/bin/env bash
# The group "test" of scripts/deps: the virtual environment of the Python tests (the official openai
# client against the gateway).
#
# Sourced, it defines deps_test; run, it calls it. Safe to run twice.

JANUS_TEST_PACKAGES=(
  openai==2.8.1
  httpx==0.28.1
  pytest==9.0.1
  huggingface-hub==2.4.0
)

# shellcheck source=scripts/deps.d/debian.sh
source "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

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
  echo "test: installing the openai client and pytest into $venv"
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
