# Run as a script (-P): builds a Rust static library and copies it out.
#   CARGO, MANIFEST, TARGET_DIR, ARCHIVE (its name), OUTPUT (where the copy goes)
# The target folder is shared by all clones on the machine, so that only the first one compiles the
# dependencies; the lock keeps two clones from copying each other's archive.
file(MAKE_DIRECTORY ${TARGET_DIR})
file(LOCK ${TARGET_DIR}/janus.lock GUARD PROCESS)

# cargo compares times of files, and one clone's sources may be older than what another clone has built.
# So a hash of the contents decides whether our own crate is built anew.
get_filename_component(crate ${MANIFEST} DIRECTORY)
file(GLOB sources ${crate}/src/*.rs)
list(SORT sources)
set(contents "")
foreach(source IN LISTS sources ITEMS ${MANIFEST} ${crate}/Cargo.lock)
  file(SHA256 ${source} hash)
  get_filename_component(name ${source} NAME)
  string(APPEND contents "${name} ${hash}\n")
endforeach()
set(built_file ${TARGET_DIR}/janus.built)
set(built "")
if(EXISTS ${built_file})
  file(READ ${built_file} built)
endif()
if(NOT built STREQUAL contents)
  file(REMOVE ${built_file})
  file(GLOB fingerprints ${TARGET_DIR}/release/.fingerprint/janus-text-*)
  if(fingerprints)
    file(REMOVE_RECURSE ${fingerprints})
  endif()
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR}
          ${CARGO} build --release --locked --quiet --manifest-path ${MANIFEST}
  RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "${CARGO} build --locked of ${MANIFEST} failed (its message is above). Without "
                      "a network, fill the crate cache beforehand: scripts/deps")
endif()
file(WRITE ${built_file} "${contents}")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy ${TARGET_DIR}/release/${ARCHIVE} ${OUTPUT}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E touch ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
