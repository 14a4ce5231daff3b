# Compiler settings shared by every target, and the few functions that declare targets.

include_guard()
include(JanusPrecompiled)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

option(JANUS_WARNINGS_ARE_ERRORS "Off where the compiler is one that nobody has tried" ON)
set(werror $<$<BOOL:${JANUS_WARNINGS_ARE_ERRORS}>:-Werror>)
add_library(janus_settings INTERFACE)
target_include_directories(janus_settings INTERFACE ${CMAKE_SOURCE_DIR})
# Contraction would let the compiler fuse multiply-adds where a kernel did not write them, and the
# bits of a row would then depend on inlining; the data plane promises equal bits.
# gRPC's users get -pthread from it; a precompiled header serves those files alone that have all its flags.
target_compile_options(
  janus_settings
  INTERFACE -pthread -Wall -Wextra ${werror} -Wnon-virtual-dtor -Woverloaded-virtual -ffp-contract=off
            -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(janus_settings INTERFACE -Wthread-safety)
else()
  # GCC 12 reports these inside inlined library code; clang covers the same ground.
  target_compile_options(janus_settings INTERFACE -Wno-restrict -Wno-maybe-uninitialized
                                                  -Wno-stringop-overflow -Wno-array-bounds)
endif()
# -g1: file, function and line in stack traces; variables are left out, which halves the objects.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
if(JANUS_SANITIZE STREQUAL "address")
  # fuzzer-no-link: the coverage that the programs of tests/fuzz steer by.
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(JANUS_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(JANUS_SANITIZE)
  message(FATAL_ERROR "JANUS_SANITIZE: '${JANUS_SANITIZE}' is neither address nor thread")
endif()
find_package(Threads REQUIRED)
target_link_libraries(janus_settings INTERFACE Threads::Threads)
if(NOT JANUS_MINIMAL)
  find_program(JANUS_MOLD mold)
  if(JANUS_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
find_program(JANUS_CCACHE ccache)
if(JANUS_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/ccache.sh ${JANUS_CCACHE})
endif()

set_property(GLOBAL PROPERTY JANUS_SUMMARY "")

# janus_note(<part> <on|off and why>): one line of the summary that ends the configuration.
function(janus_note part text)
  set_property(GLOBAL APPEND PROPERTY JANUS_SUMMARY "${part}: ${text}")
endfunction()

function(janus_print_summary)
  get_property(lines GLOBAL PROPERTY JANUS_SUMMARY)
  message(STATUS "Janus ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(line IN LISTS lines)
    message(STATUS "  ${line}")
  endforeach()
endfunction()

# janus_library(<name> SOURCES ... DEPS ...): a static library with the project's settings.
function(janus_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC janus_settings ${arg_DEPS})
  janus_precompiled(${name} janus_library_headers)
endfunction()

# janus_program(<name> SOURCES ... DEPS ...)
function(janus_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE janus_settings ${arg_DEPS})
  target_compile_definitions(${name} PRIVATE JANUS_VERSION="${PROJECT_VERSION}")
endfunction()

# What the thread sanitizer's run builds: tests of code that links with a compiler alone.
add_custom_target(janus_tsan_tests)

# janus_takes(suite seconds ...): how long suites of this folder take. ctest starts the longest first, so
# that no core is idle at the end. Rough numbers are enough.
function(janus_takes)
  set(words ${ARGV})
  while(words)
    list(POP_FRONT words suite seconds)
    if(TEST ${suite})
      set_tests_properties(${suite} PROPERTIES COST ${seconds})
    endif()
  endwhile()
endfunction()

# janus_test(<room> [TSAN] [TIMING <pattern>...] SOURCES ... DEPS ...): the unit tests of one room, one
# binary, run by ctest. TSAN: run under the thread sanitizer too. TIMING: these patterns of GoogleTest
# name tests whose claim is about time. ctest runs them alone, as <room>_timing with the label timing.
function(janus_test room)
  cmake_parse_arguments(arg "TSAN" "" "TIMING;SOURCES;DEPS" ${ARGN})
  add_executable(${room}_test ${arg_SOURCES})
  target_link_libraries(${room}_test PRIVATE janus_settings janus_test_paths ${arg_DEPS} GTest::gtest
                                             GTest::gtest_main)
  janus_precompiled(${room}_test "${JANUS_TEST_HEADERS}")
  if(arg_TIMING)
    list(JOIN arg_TIMING ":" timing)
    add_test(NAME ${room} COMMAND ${room}_test --gtest_filter=-${timing})
    add_test(NAME ${room}_timing COMMAND ${room}_test --gtest_filter=${timing})
    set_tests_properties(${room}_timing PROPERTIES LABELS timing RUN_SERIAL ON)
    if(arg_TSAN)
      set_tests_properties(${room}_timing PROPERTIES LABELS "timing;tsan")
    endif()
  else()
    add_test(NAME ${room} COMMAND ${room}_test)
  endif()
  if(arg_TSAN)
    add_dependencies(janus_tsan_tests ${room}_test)
    set_tests_properties(${room} PROPERTIES LABELS tsan)
  endif()
endfunction()
