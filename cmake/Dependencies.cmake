# SPDX-License-Identifier: Apache-2.0
# Third-party libraries. On Debian and Ubuntu tools/setup.sh installs all of them.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

function(tenon_need what)
    foreach(variable ${ARGN})
        if(NOT ${variable})
            message(FATAL_ERROR "${what} was not found (${variable}); run tools/setup.sh, or install it")
        endif()
    endforeach()
endfunction()

find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
find_library(PTHREADPOOL_LIBRARY pthreadpool)
tenon_need(pthreadpool PTHREADPOOL_INCLUDE_DIR PTHREADPOOL_LIBRARY)

# Headers only: its functions are compiled in place.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
tenon_need(xxhash XXHASH_INCLUDE_DIR)

find_path(NANOPB_INCLUDE_DIR pb_decode.h PATH_SUFFIXES nanopb)
find_library(NANOPB_LIBRARY protobuf-nanopb)
tenon_need(nanopb NANOPB_INCLUDE_DIR NANOPB_LIBRARY)

find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# RegexFullMatch and ImageDecoder; PNG and JPEG also the command and the examples.
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4>=4.5) # TIFFOpenOptions
pkg_check_modules(OPENJPEG REQUIRED IMPORTED_TARGET libopenjp2)

# Used by the command and the examples only, never by the library nor by the Python package.
if(NOT SKBUILD)
    pkg_check_modules(POPT REQUIRED IMPORTED_TARGET popt)
    pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
    pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
endif()
