// SPDX-License-Identifier: Apache-2.0
#include "tools/float_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>

#include "base/text.h"

namespace unisono {
namespace {

constexpr size_t kMadeColumns = 4099;  // a prime, so that no mix-up of chunks or slices lines up
constexpr uint32_t kSeed = 20240615;
constexpr std::string_view kMagic = "\x93NUMPY";

// What follows 'key': in a header like {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  return at == std::string_view::npos ? std::string_view()
                                      : trim(header.substr(at + key.size() + 3));
}

// The numbers of "(2, 3)" or "(3,)".
std::optional<std::vector<uint64_t>> parse_shape(std::string_view text) {
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos) return {};
  std::vector<uint64_t> shape;
  for (std::string_view word : split(text.substr(1, close - 1), ',')) {
    word = trim(word);
    if (word.empty()) continue;
    const auto number = parse_integer(word);
    if (!number || *number < 0) return {};
    shape.push_back(static_cast<uint64_t>(*number));
  }
  return shape;
}

struct Layout {
  uint64_t rows, columns;
};

Result<Layout> parse_header(std::string_view header) {
  for (const std::string_view key : {"descr", "fortran_order", "shape"})
    if (header.find(key) != header.rfind(key))
      return invalid_argument(fmt::format("its header has {} twice", key));
  if (const auto descr = value_of(header, "descr"); !descr.starts_with("'<f4'"))
    return invalid_argument(
        fmt::format("it holds {}, expected '<f4' (float32)", descr.substr(0, descr.find(','))));
  if (!value_of(header, "fortran_order").starts_with("False"))
    return invalid_argument("it is in Fortran order, expected C order");
  const auto shape = parse_shape(value_of(header, "shape"));
  if (!shape || shape->empty() || shape->size() > 2)
    return invalid_argument("expected the shape (ranks, n) or (n,)");
  const Layout layout{shape->size() == 2 ? shape->front() : 1, shape->back()};
  if (layout.rows == 0 || layout.columns == 0 || layout.rows > (uint64_t{1} << 40) / layout.columns)
    return invalid_argument(fmt::format("its shape is ({}, {}), expected from 1 to 2^40 values",
                                        layout.rows, layout.columns));
  return layout;
}

Result<std::vector<float>> read_values(std::ifstream& file, uint64_t& columns) {
  char start[12] = {};
  file.read(start, 8);
  if (!file || !std::string_view(start, 8).starts_with(kMagic))
    return invalid_argument("it is no .npy file");
  const size_t length_bytes = start[6] == 1 ? 2 : 4;
  file.read(start + 8, static_cast<std::streamsize>(length_bytes));
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, start + 8, length_bytes);
  if (!file || start[6] < 1 || start[6] > 3 || header_bytes > (1u << 20))
    return invalid_argument("its header is malformed");
  std::string header(header_bytes, '\0');
  file.read(header.data(), header_bytes);
  if (!file) return invalid_argument("its header is cut off");
  const auto layout = parse_header(header);
  if (!layout.ok()) return layout.status();
  const auto data_begin = file.tellg();
  file.seekg(0, std::ios::end);
  const auto have = static_cast<uint64_t>(file.tellg() - data_begin);
  const uint64_t need = layout->rows * layout->columns * sizeof(float);
  if (have != need)
    return invalid_argument(fmt::format("its data has {} bytes, expected {} for the shape ({}, {})",
                                        have, need, layout->rows, layout->columns));
  file.seekg(data_begin);
  static_assert(std::endian::native == std::endian::little);
  std::vector<float> values(layout->rows * layout->columns);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(need));
  if (!file) return invalid_argument("it cannot be read");
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad != values.end())
    return invalid_argument(
        fmt::format("value {} is {}, expected finite numbers", bad - values.begin(), *bad));
  columns = layout->columns;
  return values;
}

}  // namespace

FloatInputs FloatInputs::made(int ranks) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(ranks) * kMadeColumns);
  for (float& value : values) value = normal(random);
  return FloatInputs(std::move(values), kMadeColumns);
}

Result<FloatInputs> FloatInputs::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalid_argument(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  uint64_t columns = 0;
  auto values = read_values(file, columns);
  if (!values.ok()) return values.status().in(path);
  return FloatInputs(values.take(), columns);
}

void FloatInputs::write(int rank, size_t shift, size_t first, size_t count, void* to) const {
  const float* row = &values_[rows() == 1 ? 0 : static_cast<size_t>(rank) * columns_];
  auto* out = static_cast<std::byte*>(to);
  for (size_t at = (shift + first) % columns_; count > 0; at = 0) {
    const size_t piece = std::min(count, columns_ - at);
    std::memcpy(out, row + at, piece * sizeof(float));
    out += piece * sizeof(float);
    count -= piece;
  }
}

}  // namespace unisono
