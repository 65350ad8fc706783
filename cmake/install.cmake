# What `cmake --install` lays down: the binary, the public headers, the static libraries and find_package(brisk).
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/brisk)

set_target_properties(brisk_options PROPERTIES EXPORT_NAME options)
target_compile_features(brisk_options INTERFACE cxx_std_20)
install(TARGETS brisk_options EXPORT brisk-targets)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/brisk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT brisk-targets NAMESPACE brisk:: DESTINATION ${config_dir})

get_property(BRISK_DEPENDENCIES GLOBAL PROPERTY BRISK_DEPENDENCIES)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/brisk-config.cmake.in
  ${CMAKE_BINARY_DIR}/generated/brisk-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/brisk-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/brisk-config.cmake ${CMAKE_BINARY_DIR}/generated/brisk-config-version.cmake
  DESTINATION ${config_dir})
