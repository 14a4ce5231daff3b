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

# janus_header_set(<name> <header>...): the standard headers and these, compiled once for the folder that calls it,
# its flags and those below it. Libraries are compiled with -fPIC, programs with -fPIE, and g++ takes a precompiled header
# only with the flags that it was made with: PROGRAM says that programs take it.
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
