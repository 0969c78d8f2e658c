// SPDX-License-Identifier: Apache-2.0
// unisono settings: every setting with its type, value and origin.
#include "base/settings.h"

#include <unistd.h>

#include "communicator/policy.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/table.h"

namespace unisono {
namespace {

class ShowSettings final : public Command {
 public:
  std::string_view name() const override { return "settings"; }
  std::string_view summary() const override {
    return "every setting with its type, value and origin";
  }
  std::string_view example() const override { return "UNISONO_TIMEOUT=30s unisono settings"; }
  void declare(Flags&) override {}

  Result<int> run() override {
    const auto settings = Settings::from_environment(environ);
    if (!settings.ok()) return settings.status();
    if (const auto policy = read_policy(*settings); !policy.ok()) return policy.status();
    std::vector<std::vector<std::string>> rows;
    for (const SettingRow& row : Settings::table()) {
      const std::string& value = settings->text(row.setting);
      rows.push_back({std::string(row.name), std::string(type_of(row)), value.empty() ? "-" : value,
                      std::string(settings->origin(row.setting)), std::string(row.help)});
    }
    std::vector<Column> columns;
    for (const char* title : {"name", "type", "value", "origin", "help"})
      columns.push_back({title, 0, Align::kLeft});
    UNISONO_RETURN_IF_ERROR(Output::standard().write(aligned(columns, rows)));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Command> make_settings_command() {
  return std::make_unique<ShowSettings>();
}

}  // namespace unisono
