# One folder is one library target: brisk_library(NAME [DIR folder] [USES other...] [SYSTEM lib...] [PRIVATE lib...])
# Sources are found by glob (CONFIGURE_DEPENDS), so a new file needs no list edited. SYSTEM libraries show in headers,
# PRIVATE ones only in .cpp files. All targets are installed and exported as brisk::NAME, and listed in the global
# property BRISK_LIBRARIES (the unit tests link them all).

# find_package that an installed brisk repeats, so that whoever links the static libraries finds theirs too.
macro(brisk_find_package)
  find_package(${ARGV} REQUIRED GLOBAL)  # seen by apps and tests, too
  string(JOIN " " brisk_find_package_words ${ARGV})
  set_property(GLOBAL APPEND_STRING PROPERTY BRISK_DEPENDENCIES "find_dependency(${brisk_find_package_words})\n")
endmacro()

function(brisk_library name)
  cmake_parse_arguments(ARG "" "DIR" "USES;SYSTEM;PRIVATE" ${ARGN})
  if(NOT ARG_DIR)
    set(ARG_DIR ${name})
  endif()
  string(REPLACE "/" "_" short ${name})
  set(target brisk_${short})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_DIR}/*.cpp)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} brisk_options)
  foreach(use ${ARG_USES})
    string(REPLACE "/" "_" use_target brisk_${use})
    target_link_libraries(${target} ${scope} ${use_target})
  endforeach()
  target_link_libraries(${target} ${scope} ${ARG_SYSTEM})
  set_property(GLOBAL APPEND PROPERTY BRISK_LIBRARIES ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
  install(TARGETS ${target} EXPORT brisk-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/brisk)
endfunction()
