// SPDX-License-Identifier: Apache-2.0
// Tables for people: aligned columns whose widths are known before the first row, so that rows can
// be printed as they come.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

enum class Align : bool { kRight, kLeft };

struct Column {
  std::string title;  // with the unit
  size_t width = 0;   // at least that of the title
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Lines with their newline. A cell that is too long pushes the rest of its line aside.
  std::string header() const;
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

// A whole table, as wide as it has to be. Ends with a newline.
std::string aligned(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows);

// Characters on a terminal, of UTF-8.
size_t display_width(std::string_view text);

// Three significant digits from 1 up: "0.26", "12.3", "1234".
std::string format_us(double time_us);
std::string format_GBps(double bandwidth);

}  // namespace unisono
