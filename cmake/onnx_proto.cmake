# Target brisk_onnx_proto: onnx-ml.pb.h and its code, made by protoc from the .proto of the onnx wheel (tools/setup.sh
# puts it into .cache). Only .cpp files of src/import/onnx include the header.
brisk_find_package(Protobuf)
set(brisk_onnx_proto_file ${PROJECT_SOURCE_DIR}/.cache/onnx-ml.proto)
if(NOT EXISTS ${brisk_onnx_proto_file})
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/setup.sh proto COMMAND_ERROR_IS_FATAL ANY)
endif()
set(brisk_onnx_proto_dir ${CMAKE_BINARY_DIR}/generated/onnx)
file(MAKE_DIRECTORY ${brisk_onnx_proto_dir})
add_custom_command(OUTPUT ${brisk_onnx_proto_dir}/onnx-ml.pb.cc ${brisk_onnx_proto_dir}/onnx-ml.pb.h
  COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}/.cache --cpp_out=${brisk_onnx_proto_dir} ${brisk_onnx_proto_file}
  DEPENDS ${brisk_onnx_proto_file} COMMENT "protoc onnx-ml.proto" VERBATIM)
add_library(brisk_onnx_proto STATIC ${brisk_onnx_proto_dir}/onnx-ml.pb.cc)
target_include_directories(brisk_onnx_proto SYSTEM PUBLIC $<BUILD_INTERFACE:${brisk_onnx_proto_dir}>)
target_link_libraries(brisk_onnx_proto PUBLIC protobuf::libprotobuf-lite)
set_target_properties(brisk_onnx_proto PROPERTIES EXPORT_NAME onnx_proto)
install(TARGETS brisk_onnx_proto EXPORT brisk-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/brisk)
