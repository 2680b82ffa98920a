# SPDX-License-Identifier: Apache-2.0
# libtenon.so, libtenon.a, and an internal archive for the unit tests. All three hold the same objects.

set(system_libs ${JANSSON_LINK_LIBRARIES} ${PCRE2_LINK_LIBRARIES} ${PNG_LINK_LIBRARIES} ${JPEG_LINK_LIBRARIES}
    ${WEBP_LINK_LIBRARIES} ${TIFF_LINK_LIBRARIES} ${OPENJPEG_LINK_LIBRARIES} m Threads::Threads ${CMAKE_DL_LIBS})

set(TENON_OBJECTS $<TARGET_OBJECTS:tenon_objs> ${TENON_KERNEL_OBJECTS})
add_library(tenon_internal STATIC EXCLUDE_FROM_ALL ${TENON_OBJECTS})
target_include_directories(tenon_internal PUBLIC include src ${TENON_GEN_DIR})
target_include_directories(tenon_internal SYSTEM PUBLIC ${library_include_dirs})
target_link_libraries(tenon_internal PUBLIC ${PTHREADPOOL_LIBRARY} ${NANOPB_LIBRARY} ${system_libs})
add_dependencies(tenon_internal tenon_objs)

# nanopb comes as an archive whose symbols are visible; --exclude-libs keeps them out of the shared library's interface.
add_library(tenon_shared SHARED ${TENON_OBJECTS})
target_link_libraries(tenon_shared PRIVATE ${PTHREADPOOL_LIBRARY} ${NANOPB_LIBRARY} ${system_libs})
target_link_options(tenon_shared PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
if(TENON_SANITIZE)
    # clang leaves the sanitizer's runtime to the program that loads the library.
    target_link_options(tenon_shared PRIVATE -Wl,-z,undefs)
endif()
set_target_properties(tenon_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

if(TENON_SANITIZE)
    # Sanitizers keep tables that point at symbols, so there the archive stays as compiled.
    add_library(tenon_static STATIC ${TENON_OBJECTS})
    target_link_libraries(tenon_static INTERFACE ${NANOPB_LIBRARY})
else()
    # A plain archive would expose every internal function. One relocatable object, in which all but the public
    # functions are made local, exposes only tn_*.
    set(one_object "${CMAKE_BINARY_DIR}/tenon_all.o")
    file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/tenon_objs.rsp" CONTENT "$<JOIN:${TENON_OBJECTS},\n>\n")
    add_custom_command(
        OUTPUT "${one_object}"
        COMMAND "${CMAKE_LINKER}" -r -o "${one_object}" "@${CMAKE_BINARY_DIR}/tenon_objs.rsp" "${NANOPB_LIBRARY}"
        COMMAND "${CMAKE_OBJCOPY}" --localize-hidden --wildcard "--localize-symbol=pb_*" "${one_object}"
        DEPENDS tenon_objs ${TENON_OBJECTS} "${CMAKE_BINARY_DIR}/tenon_objs.rsp"
        COMMENT "Joining the library's objects"
        VERBATIM)
    set_source_files_properties("${one_object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    add_library(tenon_static STATIC "${one_object}")
    set_target_properties(tenon_static PROPERTIES LINKER_LANGUAGE C)
endif()
target_link_libraries(tenon_static INTERFACE
    $<BUILD_INTERFACE:${PTHREADPOOL_LIBRARY}> $<INSTALL_INTERFACE:pthreadpool> ${system_libs})

foreach(library tenon_shared tenon_static)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME tenon)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# For what loads plug-ins: they may call any public function, so none may be left out of an archive because the program
# itself does not call it.
function(tenon_all_of_it target)
    target_link_options(${target} PRIVATE -Wl,--whole-archive "$<TARGET_FILE:tenon_static>" -Wl,--no-whole-archive)
    add_dependencies(${target} tenon_static)
endfunction()

# A plug-in: a shared object by its plain name in a folder. Its sources see the public headers.
function(tenon_plugin name folder)
    add_library(plugin_${name} MODULE ${ARGN})
    target_include_directories(plugin_${name} PRIVATE "${CMAKE_SOURCE_DIR}/include")
    set_target_properties(plugin_${name} PROPERTIES
        PREFIX "" OUTPUT_NAME ${name} SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY "${folder}")
endfunction()

# Each public header must compile on its own.
file(GLOB public_headers RELATIVE "${CMAKE_SOURCE_DIR}/include" CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/include/tenon/*.h")
set(header_checks)
foreach(header ${public_headers})
    string(MAKE_C_IDENTIFIER "${header}" stem)
    set(check "${CMAKE_BINARY_DIR}/gen/header_checks/${stem}.c")
    file(GENERATE OUTPUT "${check}" CONTENT "#include <${header}>\ntypedef int checked;\n")
    list(APPEND header_checks "${check}")
endforeach()
if(header_checks)
    add_library(header_checks OBJECT ${header_checks})
    target_include_directories(header_checks PRIVATE include)
    target_compile_options(header_checks PRIVATE -std=c11 -pedantic)
endif()
