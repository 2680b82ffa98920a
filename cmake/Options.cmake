# SPDX-License-Identifier: Apache-2.0
# Build types, warnings and sanitizers: what every target is compiled with.

option(TENON_WERROR "Treat warnings as errors" ON)
set(TENON_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize=: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Asserts guard invariants and stay on in every build, so no type defines NDEBUG.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

# Contraction would make an answer depend on the compiler's choice of where to fuse a multiply with an add.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)
if(TENON_WERROR)
    add_compile_options(-Werror)
endif()

# C throws nothing, and debuggers read .debug_frame: a fourteenth of the library's bytes.
if(NOT TENON_SANITIZE)
    add_compile_options(-fno-asynchronous-unwind-tables)
endif()

if(TENON_SANITIZE)
    add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${TENON_SANITIZE})
endif()

# Tables are full of pointers. Packed, what the loader has to know of them takes a fiftieth of the bytes, but the loader must be
# that of glibc 2.36 or newer, which built programs would then ask for.
option(TENON_PACK_RELOCATIONS "Pack relocations where the C library can read that" ON)
if(TENON_PACK_RELOCATIONS)
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
    check_c_source_compiles("#include <features.h>
        #if !defined __GLIBC__ || !__GLIBC_PREREQ(2, 36)
        #error
        #endif
        int main(void) { return 0; }" TENON_HAS_PACKED_RELOCATIONS)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    if(TENON_HAS_PACKED_RELOCATIONS)
        add_link_options(-Wl,-z,pack-relative-relocs)
    endif()
endif()

if(NOT CMAKE_C_COMPILER_LAUNCHER)
    find_program(CCACHE ccache)
    mark_as_advanced(CCACHE)
    if(CCACHE)
        set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
    endif()
endif()
