# Sourced by the scripts: caches outside the tree, alike for every clone of the repository.
# shellcheck shell=bash
JANUS_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/janus
export CCACHE_DIR=${CCACHE_DIR:-$JANUS_CACHE/ccache}
# Paths under the tree are hashed relative to it, so that another clone hits.
CCACHE_BASEDIR=$(pwd -P)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
# What ccache asks for before it caches what is compiled with a precompiled header.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# It hashes a precompiled header (80 MB) once, not for every file.
export CCACHE_INODECACHE=1
# clang's sanitizers name functions through it.
if command -v llvm-symbolizer-16 >/dev/null; then
  ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-16)
  export ASAN_SYMBOLIZER_PATH
fi
# gRPC is not compiled with the thread sanitizer; what it synchronises would count as races.
TSAN_OPTIONS="ignore_noninstrumented_modules=1 external_symbolizer_path=$(command -v llvm-symbolizer-16 || true)"
export TSAN_OPTIONS
