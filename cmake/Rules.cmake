# SPDX-License-Identifier: Apache-2.0
# The rules of src/rules become part of the library.
file(GLOB TENON_RULES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/rules/*.rules")
set(TENON_RULES_SOURCE "${TENON_GEN_DIR}/rules_data.c")
add_custom_command(
    OUTPUT "${TENON_RULES_SOURCE}"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${TENON_RULES_SOURCE}" "-DFOLDER=${CMAKE_SOURCE_DIR}/src/rules"
            -P "${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake"
    DEPENDS ${TENON_RULES} "${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake"
    COMMENT "Taking in the rules"
    VERBATIM)
