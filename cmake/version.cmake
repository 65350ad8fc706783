# Target brisk_version: the header brisk_version.h with BRISK_VERSION and BRISK_COMMIT, looked at on every build and
# rewritten only when the commit changed. Link it to the one target whose one .cpp prints the version.
# The same file is the script that writes it (cmake -P).
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  find_program(GIT git)
  if(GIT)
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(commit ${found})
    endif()
  endif()
  set(text "#pragma once\n#define BRISK_VERSION \"${VERSION}\"\n#define BRISK_COMMIT \"${commit}\"\n")
  set(old "")
  if(EXISTS ${HEADER})
    file(READ ${HEADER} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${HEADER} "${text}")
  endif()
  return()
endif()

set(brisk_version_header ${CMAKE_BINARY_DIR}/generated/brisk_version.h)
add_custom_target(brisk_version_header BYPRODUCTS ${brisk_version_header}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DHEADER=${brisk_version_header}
    -P ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "" VERBATIM)
add_library(brisk_version INTERFACE)
target_include_directories(brisk_version INTERFACE ${CMAKE_BINARY_DIR}/generated)
add_dependencies(brisk_version brisk_version_header)
