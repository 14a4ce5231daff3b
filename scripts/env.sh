# Sourced by the scripts: caches outside the tree, shared by all clones of the repository.
# shellcheck shell=bash
JANUS_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/janus
export CCACHE_DIR=${CCACHE_DIR:-$JANUS_CACHE/ccache}
# Paths in the tree are hashed relative to it, so that another clone hits the cache.
CCACHE_BASEDIR=$(pwd -P)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
# ccache requires this before it caches files compiled with a precompiled header.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# Hashes a precompiled header (80 MB) once, not for every file.
export CCACHE_INODECACHE=1
# clang's sanitizers use it to print function names.
if command -v llvm-symbolizer-16 >/dev/null; then
  ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-16)
  export ASAN_SYMBOLIZER_PATH
fi
# gRPC is not compiled with the thread sanitizer: its synchronisation would be reported as races.
TSAN_OPTIONS="ignore_noninstrumented_modules=1 external_symbolizer_path=$(command -v llvm-symbolizer-16 || true)"
export TSAN_OPTIONS
