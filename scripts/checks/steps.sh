# Functions for the `run` commands of .ci/nightly.toml. Sourced.
# shellcheck shell=bash

build() { # PRESET TARGET...
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  ninja -C "build/$preset" --quiet "$@"
}
ctest_in() { # FOLDER [CTEST OPTIONS...]
  GTEST_BRIEF=1 ctest --test-dir "$1" --output-on-failure --no-tests=error -j2 "${@:2}"
}
check() { ctest_in "build/$1" "${@:2}"; } # PRESET [CTEST OPTIONS...]
# Ends the shard as skipped if scripts/deps cannot install the group here, and as failed if JANUS_REQUIRE names the group.
have() { # GROUP
  scripts/deps "$1" && return
  [[ " ${JANUS_REQUIRE:-} " == *" $1 "* ]] && exit 1
  exit 77
}
build_with_ucx() { # TARGET...
  cmake --preset dev -B build/ucx "-DCMAKE_PREFIX_PATH=${XDG_CACHE_HOME:-$HOME/.cache}/janus/ucx-1.22" >/dev/null
  ninja -C build/ucx --quiet "$@"
}
