# brisk_flatbuffer(LIBRARY schema.fbs): <schema>_generated.h is made in the build tree, for the library's .cpp files only.
find_program(BRISK_FLATC flatc REQUIRED)
find_path(BRISK_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)

function(brisk_flatbuffer library schema)
  set(folder ${CMAKE_BINARY_DIR}/generated/${library})
  cmake_path(GET schema STEM stem)
  set(header ${folder}/${stem}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${BRISK_FLATC} --cpp --scoped-enums -o ${folder} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema} VERBATIM)
  target_sources(brisk_${library} PRIVATE ${header})
  target_include_directories(brisk_${library} SYSTEM PRIVATE ${folder} ${BRISK_FLATBUFFERS_INCLUDE})
endfunction()
