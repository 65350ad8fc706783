# What the compiler is told everywhere: cache, linker, optimisation, warnings, sanitizers.
option(BRISK_TESTS "build the tests" ON)
option(BRISK_WERROR "warnings are errors" OFF)
set(BRISK_SANITIZE "" CACHE STRING "sanitizers for all code, as -fsanitize takes them (address,undefined or thread)")

option(BRISK_FUZZ "build the fuzzers with libFuzzer (clang only)" OFF)

find_program(BRISK_CCACHE ccache)
if(BRISK_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BRISK_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wno-deprecated-declarations)  # libstdc++ 12's own stable_sort; GCC still tells of ours
  find_program(BRISK_LLD NAMES ld.lld-19 ld.lld)
  if(BRISK_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

add_library(brisk_options INTERFACE)
target_include_directories(brisk_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
# -ffp-contract=off: an answer must not depend on which of two equal loops the compiler contracted.
target_compile_options(brisk_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wno-unused-parameter;-Wno-missing-field-initializers;-Wno-deprecated-declarations;-fno-math-errno;-ffp-contract=off>
  $<BUILD_INTERFACE:$<$<CONFIG:Release>:-O3>> $<BUILD_INTERFACE:$<$<BOOL:${BRISK_WERROR}>:-Werror>>)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string that are not there (its bug 105651), and knows neither clang's pragmas nor that the
  # alignment of a vector type in a template argument is no loss.
  add_compile_options(-Wno-restrict -Wno-unknown-pragmas -Wno-ignored-attributes)
endif()

if(BRISK_SANITIZE)
  add_compile_options(-fsanitize=${BRISK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BRISK_SANITIZE})
endif()
if(BRISK_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
