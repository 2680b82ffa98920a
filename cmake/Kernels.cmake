# SPDX-License-Identifier: Apache-2.0
# The files of src/backends/cpu/kernels are compiled once for each instruction set: see src/backends/cpu/isa_int.h.
file(GLOB TENON_KERNELS CONFIGURE_DEPENDS src/backends/cpu/kernels/*.c)

set(levels baseline)
set(flags_baseline "")
set(bytes_baseline 16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    list(APPEND levels avx2 avx512)
    set(flags_avx2 -mavx2 -mfma -mf16c)
    set(bytes_avx2 32)
    set(flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
    set(bytes_avx512 64)
endif()

set(TENON_KERNEL_OBJECTS)
if(NOT TENON_KERNELS)
    set(levels "")
endif()
foreach(level ${levels})
    add_library(tenon_kernels_${level} OBJECT ${TENON_KERNELS})
    set_target_properties(tenon_kernels_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(tenon_kernels_${level} PRIVATE include src ${TENON_GEN_DIR})
    # Products and sums become one instruction. Without errno and traps a loop with a square root or a comparison can become
    # vectors; no answer changes by that.
    target_compile_options(tenon_kernels_${level} PRIVATE ${flags_${level}} -ffp-contract=fast -fno-math-errno
        -fno-trapping-math
        $<$<CONFIG:Release>:-O3> $<$<C_COMPILER_ID:GNU>:-Wno-psabi>)
    target_compile_definitions(tenon_kernels_${level} PRIVATE TENON_ISA=${level} TENON_VEC_BYTES=${bytes_${level}})
    list(APPEND TENON_KERNEL_OBJECTS $<TARGET_OBJECTS:tenon_kernels_${level}>)
endforeach()
