# SPDX-License-Identifier: Apache-2.0
# The Python package: the extension module over the public headers, with the static library inside it. In the build
# folder it lies under python/, beside links to the package's own files, so that PYTHONPATH=build/python uses it as it is.
option(TENON_PYTHON "Build the Python package (where Python's headers are found)" ON)
if(NOT TENON_PYTHON)
    return()
endif()

# The project's own Python where it is there, else the one that pip runs, else the system's.
if(NOT Python3_EXECUTABLE AND NOT SKBUILD)
    foreach(candidate "${CMAKE_SOURCE_DIR}/.venv/bin/python" /usr/bin/python3)
        if(NOT Python3_EXECUTABLE AND EXISTS "${candidate}")
            set(Python3_EXECUTABLE "${candidate}")
        endif()
    endforeach()
endif()
find_package(Python3 3.10 COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND)
    if(SKBUILD)
        message(FATAL_ERROR "Python's headers were not found; install python3-dev")
    endif()
    message(STATUS "Python's headers were not found: tenonrt is not built (install python3-dev)")
    return()
endif()

file(GLOB python_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/python/src/*.c")
add_library(tenon_python MODULE ${python_sources})
# The stable ABI: one file for this version of Python and all later ones.
set_target_properties(tenon_python PROPERTIES PREFIX "" OUTPUT_NAME "_tenon" SUFFIX ".abi3.so"
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/python/tenonrt")
target_include_directories(tenon_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_options(tenon_python PRIVATE -Wno-missing-field-initializers)
target_link_libraries(tenon_python PRIVATE tenon_static)
# Nothing shows but what Python asks for and, for plug-ins, the public functions. The module itself calls its own, whatever
# else the process has loaded.
target_link_options(tenon_python PRIVATE "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/python.map" -Wl,-Bsymbolic)
set_target_properties(tenon_python PROPERTIES LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/python.map")
tenon_all_of_it(tenon_python)

set(package "${CMAKE_SOURCE_DIR}/python/tenonrt")
file(GLOB_RECURSE package_files RELATIVE "${package}" CONFIGURE_DEPENDS
    "${package}/*.py" "${package}/*.pyi" "${package}/py.typed")
foreach(file ${package_files})
    get_filename_component(folder "${file}" DIRECTORY)
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/python/tenonrt/${folder}")
    file(CREATE_LINK "${package}/${file}" "${CMAKE_BINARY_DIR}/python/tenonrt/${file}" SYMBOLIC)
endforeach()

# Compiled ahead, so that importing takes as long as that of an installed package, also where Python may not write.
add_custom_command(TARGET tenon_python POST_BUILD
    COMMAND "${Python3_EXECUTABLE}" -m compileall -q "${CMAKE_BINARY_DIR}/python/tenonrt"
    VERBATIM)

install(TARGETS tenon_python LIBRARY DESTINATION tenonrt COMPONENT python EXCLUDE_FROM_ALL)
