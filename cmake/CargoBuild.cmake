# Run as a script (-P): builds a Rust static library and copies it out.
#   CARGO, MANIFEST, TARGET_DIR, ARCHIVE (its name), OUTPUT (where the copy goes)
# The target folder is shared by all clones on the machine, so that only the first one compiles the
# dependencies; the lock keeps two clones from copying each other's archive.
file(MAKE_DIRECTORY ${TARGET_DIR})
file(LOCK ${TARGET_DIR}/janus.lock GUARD PROCESS)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${TARGET_DIR}
          ${CARGO} build --release --locked --quiet --manifest-path ${MANIFEST}
  RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "${CARGO} build --locked of ${MANIFEST} failed (its message is above). Without "
                      "a network, fill the crate cache beforehand: scripts/deps")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E copy ${TARGET_DIR}/release/${ARCHIVE} ${OUTPUT}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E touch ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
