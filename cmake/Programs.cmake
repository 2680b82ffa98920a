# SPDX-License-Identifier: Apache-2.0
# The command and the examples. They see include/ only, so they can use nothing but the public interface.

file(GLOB cli_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/cli/*.c")
if(cli_sources)
    add_executable(tenon_cli ${cli_sources})
    target_link_libraries(tenon_cli PRIVATE
        tenon_static PkgConfig::POPT PkgConfig::JANSSON PkgConfig::PNG PkgConfig::JPEG PkgConfig::ZIP PkgConfig::ZLIB)
    # Plug-ins that the command loads find the library's functions in the command itself.
    set_target_properties(tenon_cli PROPERTIES OUTPUT_NAME tenon ENABLE_EXPORTS ON)
    tenon_all_of_it(tenon_cli)
endif()

# examples/name.c and examples/name/*.c both become examples/name in the build folder.
function(tenon_example name)
    add_executable(example_${name} ${ARGN})
    target_link_libraries(example_${name} PRIVATE tenon_static PkgConfig::PNG PkgConfig::JPEG m)
    set_target_properties(example_${name} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/examples")
endfunction()

# examples/plugin/name.c becomes examples/name.so: not linked to the library, loaded by whoever holds it.
file(GLOB example_plugins CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/examples/plugin/*.c")
foreach(source ${example_plugins})
    get_filename_component(name "${source}" NAME_WE)
    tenon_plugin(${name} "${CMAKE_BINARY_DIR}/examples" "${source}")
endforeach()

file(GLOB examples CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/examples/*.c" "${CMAKE_SOURCE_DIR}/examples/*/*.c")
list(FILTER examples EXCLUDE REGEX "/examples/plugin/")
set(example_folders)
foreach(source ${examples})
    get_filename_component(folder "${source}" DIRECTORY)
    if(folder STREQUAL "${CMAKE_SOURCE_DIR}/examples")
        get_filename_component(name "${source}" NAME_WE)
        tenon_example(${name} "${source}")
    else()
        list(APPEND example_folders "${folder}")
    endif()
endforeach()
list(REMOVE_DUPLICATES example_folders)
foreach(folder ${example_folders})
    get_filename_component(name "${folder}" NAME)
    set(sources ${examples})
    list(FILTER sources INCLUDE REGEX "^${folder}/")
    tenon_example(${name} ${sources})
endforeach()
