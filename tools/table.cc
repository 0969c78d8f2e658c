// SPDX-License-Identifier: Apache-2.0
#include "tools/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono {

size_t display_width(std::string_view text) {
  // Bytes that do not continue a character.
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_)
    column.width = std::max(column.width, display_width(column.title));
}

std::string Table::header() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  return row(titles);
}

std::string Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size() && i < columns_.size(); ++i) {
    const size_t width = display_width(cells[i]);
    const std::string padding(columns_[i].width > width ? columns_[i].width - width : 0, ' ');
    if (i > 0) line += "  ";
    line += columns_[i].align == Align::kLeft ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string aligned(std::vector<Column> columns, const std::vector<std::vector<std::string>>& rows) {
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      columns[i].width = std::max(columns[i].width, display_width(row[i]));
  const Table table(std::move(columns));
  std::string text = table.header();
  for (const auto& row : rows) text += table.row(row);
  return text;
}

std::string format_us(double time_us) {
  return fmt::format("{:.{}f}", time_us, time_us < 10 ? 2 : time_us < 100 ? 1 : 0);
}

std::string format_GBps(double bandwidth) {
  return fmt::format("{:.{}f}", bandwidth, bandwidth < 0.1 ? 4 : 2);
}

}  // namespace unisono
