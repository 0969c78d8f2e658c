// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a call: element types, reduction operations, collectives, and their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace unisono {

// The numbers are part of the C ABI: append only.
enum class DataType : uint8_t {
  kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kFloat16, kBfloat16, kFloat32, kFloat64
};
inline constexpr std::array kDataTypes = {
    DataType::kInt8,   DataType::kUint8,   DataType::kInt32,    DataType::kUint32,  DataType::kInt64,
    DataType::kUint64, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64};

// kAvg is the sum divided once by the number of contributing ranks (integers: the wrapped sum,
// truncated towards zero). The numbers are part of the C ABI: append only.
enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAvg };
inline constexpr std::array kReduceOps = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin,
                                          ReduceOp::kMax, ReduceOp::kAvg};

enum class Collective : uint8_t { kAllReduce };

size_t size_of(DataType type);  // bytes of one element
bool is_float(DataType type);

std::string_view name_of(DataType type);  // "i8" … "f64"
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);

std::optional<DataType> parse_data_type(std::string_view name);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);

}  // namespace unisono
