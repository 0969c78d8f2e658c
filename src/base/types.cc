// SPDX-License-Identifier: Apache-2.0
// Tables behind the vocabulary of a call.
#include "base/types.h"

namespace unisono {
namespace {

struct DataTypeRow {
  std::string_view name;
  size_t size;
  bool is_float;
};
constexpr DataTypeRow kDataTypeRows[] = {{"i8", 1, false},  {"u8", 1, false},  {"i32", 4, false},
                                         {"u32", 4, false}, {"i64", 8, false}, {"u64", 8, false},
                                         {"f16", 2, true},  {"bf16", 2, true}, {"f32", 4, true},
                                         {"f64", 8, true}};
static_assert(std::size(kDataTypeRows) == kDataTypes.size());

constexpr std::string_view kReduceOpNames[] = {"sum", "prod", "min", "max", "avg"};
static_assert(std::size(kReduceOpNames) == kReduceOps.size());

}  // namespace

size_t size_of(DataType type) { return kDataTypeRows[static_cast<size_t>(type)].size; }
bool is_float(DataType type) { return kDataTypeRows[static_cast<size_t>(type)].is_float; }
std::string_view name_of(DataType type) { return kDataTypeRows[static_cast<size_t>(type)].name; }
std::string_view name_of(ReduceOp op) { return kReduceOpNames[static_cast<size_t>(op)]; }
std::string_view name_of(Collective) { return "all_reduce"; }

std::optional<DataType> parse_data_type(std::string_view name) {
  for (DataType type : kDataTypes)
    if (name_of(type) == name) return type;
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (ReduceOp op : kReduceOps)
    if (name_of(op) == name) return op;
  return std::nullopt;
}

}  // namespace unisono
