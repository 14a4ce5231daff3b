# Precompiled headers. Parsing the standard library and GoogleTest is half of what compiling a test costs.
#
# g++ alone uses them: the presets with clang compile every file without them, and so find an include
# that is missing. Nor does the preset `minimal`.

include_guard()

set(default OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT JANUS_MINIMAL)
  set(default ON)
endif()
option(JANUS_PRECOMPILED "Compile with precompiled headers" ${default})

# What most files include. What few include makes every other file slower.
set(JANUS_STANDARD_HEADERS
    <algorithm>
    <array>
    <atomic>
    <charconv>
    <chrono>
    <cmath>
    <cstdint>
    <cstdio>
    <cstring>
    <deque>
    <functional>
    <limits>
    <map>
    <memory>
    <optional>
    <set>
    <span>
    <stop_token>
    <string>
    <string_view>
    <thread>
    <utility>
    <vector>)

# janus_header_set(<name> [PROGRAM] [HEADERS <header>...] [DEPS <target>...]): the standard headers and these, compiled once.
# g++ takes them only for files with the same flags, and crashes where -O differs: the set is compiled with the flags that
# the folder has at the end of its CMakeLists.txt, and those who take it must have the same. Libraries are compiled with
# -fPIC and programs with -fPIE: PROGRAM says that programs take it.
function(janus_header_set name)
  cmake_parse_arguments(arg "PROGRAM" "" "HEADERS;DEPS" ${ARGN})
  if(NOT JANUS_PRECOMPILED)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "// Compiled for its headers alone.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE janus_settings ${arg_DEPS})
  if(arg_PROGRAM)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE)
  endif()
  target_precompile_headers(${name} PRIVATE ${JANUS_STANDARD_HEADERS} ${arg_HEADERS})
endfunction()

# janus_precompiled(<target> <name of a header set>): the target's files are compiled with that set, if there is one.
function(janus_precompiled target headers)
  if(TARGET "${headers}")
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()
