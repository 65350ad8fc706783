// NumPy's files: .npy (one array) and .npz (a zip of them, stored or deflated), read and written.
//
// Format: numpy/lib/format.py versions 1.0 to 3.0; zip with and without zip64. Little-endian arrays of numbers and bool;
// Fortran order is transposed on reading. Sizes claimed by a file are held against the bytes that are there.
#pragma once
#include <map>
#include <string>

#include "brisk/result.h"
#include "tensor/tensor.h"

namespace brisk {

Result<ConstantPtr> parse_npy(std::string_view bytes);
Result<ConstantPtr> read_npy(const std::string& path);
// Array name (without ".npy") -> array.
Result<std::map<std::string, ConstantPtr>> read_npz(const std::string& path);

// Plain constants only. bf16 and fp8, which NumPy lacks, are written as float32; i4 and u4 as int8 and uint8.
Result<std::string> format_npy(const Constant& c);
Status write_npy(const std::string& path, const Constant& c);
Status write_npz(const std::string& path, const std::map<std::string, ConstantPtr>& arrays);

}  // namespace brisk
