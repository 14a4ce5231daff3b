# Finds nvcc and declares how kernels/cuda is compiled. Not CMake's own CUDA language: its check of
# the compiler links a program with libraries that a toolkit from wheels lacks, it drops C++20, and
# the registers that a kernel takes are wanted as a file.

include_guard()

option(JANUS_CUDA "Build the CUDA kernels" OFF)
set(JANUS_CUDA_ARCHITECTURES "90a" CACHE STRING "Architectures to compile for, as in sm_90a")
if(NOT JANUS_CUDA)
  janus_note(CUDA "off, preset cuda turns it on")
  return()
endif()

if(DEFINED ENV{XDG_CACHE_HOME})
  set(cache "$ENV{XDG_CACHE_HOME}/janus")
else()
  set(cache "$ENV{HOME}/.cache/janus")
endif()
find_program(JANUS_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
             PATHS /usr/local/cuda/bin "${cache}/cuda-13.0/bin" PATH_SUFFIXES bin)
if(NOT JANUS_NVCC)
  message(FATAL_ERROR "JANUS_CUDA is on and there is no nvcc: install a CUDA toolkit (12.8 or later), "
                      "set CUDA_HOME, or run scripts/deps cuda")
endif()
execute_process(COMMAND ${JANUS_NVCC} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
if(NOT version MATCHES "release ([0-9]+\\.[0-9]+)")
  message(FATAL_ERROR "${JANUS_NVCC} --version says nothing of a release: ${version}")
endif()
set(JANUS_CUDA_VERSION ${CMAKE_MATCH_1})
if(JANUS_CUDA_VERSION VERSION_LESS 12.8)
  set(nvcc ${JANUS_NVCC})
  unset(JANUS_NVCC CACHE)  # or the next attempt would not look for another
  message(FATAL_ERROR "${nvcc} is of CUDA ${JANUS_CUDA_VERSION}, and 12.8 is the oldest that compiles these "
                      "kernels: install a later one and set CUDA_HOME, or take nvcc off the path and run "
                      "scripts/deps cuda")
endif()
get_filename_component(real ${JANUS_NVCC} REALPATH)
get_filename_component(root ${real}/../.. ABSOLUTE)
find_library(JANUS_CUDART cudart_static HINTS ${root}/lib64 ${root}/lib
                                              ${root}/targets/x86_64-linux/lib REQUIRED)
set(JANUS_CUDA_INCLUDE ${root}/include)
janus_note(CUDA "${JANUS_CUDA_VERSION} for sm_${JANUS_CUDA_ARCHITECTURES}: ${JANUS_NVCC}")

set(JANUS_NVCC_FLAGS
    -ccbin=${CMAKE_CXX_COMPILER}  # the host's part of a kernel as all else
    -std=c++20 -O3 --expt-relaxed-constexpr --fmad=false  # fused where a kernel says so, nowhere else
    -diag-suppress=2810  # an assignment counts as a dropped [[nodiscard]]
    -Xcompiler=-fPIC,-Wall,-Wextra,-Wno-unused-parameter,-ffp-contract=off -Xptxas=-v
    -I${CMAKE_SOURCE_DIR})
if(JANUS_WARNINGS_ARE_ERRORS)
  list(APPEND JANUS_NVCC_FLAGS -Werror all-warnings)
endif()
# Kernels with instructions of sm_90a alone are chosen where the build has them (kernels/cuda/start.h).
if("90a" IN_LIST JANUS_CUDA_ARCHITECTURES)
  if("90" IN_LIST JANUS_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "JANUS_CUDA_ARCHITECTURES has 90 and 90a, and one GPU runs either: leave one out")
  endif()
  list(APPEND JANUS_NVCC_FLAGS -DJANUS_CUDA_SM_90A)
endif()
foreach(architecture IN LISTS JANUS_CUDA_ARCHITECTURES)
  list(APPEND JANUS_NVCC_FLAGS -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()

# janus_cuda_objects(<out> <file.cu>... [VARIANT <name> FLAGS <flag>...]): the objects of the
# sources; beside each its .ptxas report and a folder with its PTX, whose paths go to <out>_REPORTS and
# <out>_PTX. VARIANT: the same sources compiled once more with such flags, named from the root.
function(janus_cuda_objects out)
  cmake_parse_arguments(arg "" "VARIANT" "FLAGS" ${ARGN})
  set(objects "")
  set(reports "")
  set(ptx "")
  set(from ${CMAKE_CURRENT_SOURCE_DIR})
  set(to ${CMAKE_CURRENT_BINARY_DIR})
  if(arg_VARIANT)
    set(from ${CMAKE_SOURCE_DIR})
    set(to ${CMAKE_CURRENT_BINARY_DIR}/${arg_VARIANT})
  endif()
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    set(object ${to}/${source}.o)
    set(report ${to}/${source}.ptxas)
    set(kept ${to}/${source}.ptx)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object} ${report}
      COMMAND ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh ${report} ${kept} ${JANUS_NVCC} ${JANUS_NVCC_FLAGS}
              ${arg_FLAGS} -MD -MF ${object}.d -MT ${object} -c ${from}/${source} -o ${object}
      DEPENDS ${from}/${source} ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh
      DEPFILE ${object}.d
      COMMENT "nvcc ${source} ${arg_VARIANT}"
      VERBATIM)
    list(APPEND objects ${object})
    list(APPEND reports ${report})
    list(APPEND ptx ${kept})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${out} ${objects} PARENT_SCOPE)
  set(${out}_REPORTS ${reports} PARENT_SCOPE)
  set(${out}_PTX ${ptx} PARENT_SCOPE)
endfunction()
