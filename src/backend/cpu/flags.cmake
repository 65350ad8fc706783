# Instruction sets of the files that hold kernels; everything else is compiled for the baseline.
set(brisk_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(brisk_avx512 ${brisk_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
set(brisk_flags_avx2 ${brisk_avx2})
set(brisk_flags_avx2_vnni ${brisk_avx2} -mavxvnni)
set(brisk_flags_avx512 ${brisk_avx512})
set(brisk_flags_avx512_vnni ${brisk_avx512} -mavx512vnni)
set(brisk_flags_avx512_bf16 ${brisk_avx512} -mavx512vnni -mavx512bf16)
foreach(isa avx2 avx2_vnni avx512 avx512_vnni avx512_bf16)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/backend/cpu/kernels_${isa}.cpp PROPERTIES
    COMPILE_OPTIONS "${brisk_flags_${isa}}")
endforeach()
foreach(isa avx2 avx512)  # operators that only move through memory need no more than these
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/backend/cpu/light_${isa}.cpp PROPERTIES
    COMPILE_OPTIONS "${brisk_flags_${isa}}")
endforeach()
