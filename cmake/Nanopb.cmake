# SPDX-License-Identifier: Apache-2.0
# src/a/b.proto (with src/a/b.options beside it, if there) becomes a/b.pb.h and a/b.pb.c under gen/ in the build folder.

set(TENON_GEN_DIR "${CMAKE_BINARY_DIR}/gen")
file(MAKE_DIRECTORY "${TENON_GEN_DIR}")

# Debian's generator needs the modules of the system's Python, which an active virtual environment hides.
find_program(NANOPB_GENERATOR NAMES nanopb_generator.py nanopb_generator)
find_program(NANOPB_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(PROTOC protoc)
mark_as_advanced(NANOPB_GENERATOR NANOPB_PYTHON PROTOC)

function(tenon_compile_protos result)
    set(generated)
    if(ARGN)
        tenon_need("nanopb's generator" NANOPB_GENERATOR NANOPB_PYTHON PROTOC)
    endif()
    foreach(proto ${ARGN})
        file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}/src" "${proto}")
        string(REGEX REPLACE "\\.proto$" "" stem "${name}")
        set(inputs "${proto}")
        file(GLOB options CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${stem}.options")
        list(APPEND inputs ${options})
        set(outputs "${TENON_GEN_DIR}/${stem}.pb.c" "${TENON_GEN_DIR}/${stem}.pb.h")
        add_custom_command(
            OUTPUT ${outputs}
            COMMAND "${NANOPB_PYTHON}" "${NANOPB_GENERATOR}" -q -T -I . -D "${TENON_GEN_DIR}" "${name}"
            DEPENDS ${inputs} "${NANOPB_GENERATOR}"
            WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}/src"
            COMMENT "nanopb ${name}"
            VERBATIM)
        set_source_files_properties("${TENON_GEN_DIR}/${stem}.pb.c" PROPERTIES COMPILE_OPTIONS -w)
        list(APPEND generated ${outputs})
    endforeach()
    set(${result} ${generated} PARENT_SCOPE)
endfunction()
