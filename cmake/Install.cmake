# SPDX-License-Identifier: Apache-2.0
# `cmake --install`, find_package(tenon) and pkg-config.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tenon")
install(TARGETS tenon_shared tenon_static EXPORT tenon-targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET tenon_cli)
    install(TARGETS tenon_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY include/tenon DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

set_target_properties(tenon_shared PROPERTIES EXPORT_NAME tenon)
set_target_properties(tenon_static PROPERTIES EXPORT_NAME static)
install(EXPORT tenon-targets NAMESPACE tenon:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/tenon-config.cmake.in "${CMAKE_BINARY_DIR}/tenon-config.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/tenon-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/tenon-config.cmake" "${CMAKE_BINARY_DIR}/tenon-config-version.cmake"
    DESTINATION "${package_dir}")

# Relative to the file itself, so that `cmake --install --prefix` may put it anywhere.
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/tenon.pc.in tenon.pc @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/tenon.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
