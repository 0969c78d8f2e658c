// SPDX-License-Identifier: Apache-2.0
// unisono explain: what would run a call, why, and its steps.
#include "schedule/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "algorithms/registry.h"
#include "base/text.h"
#include "communicator/policy.h"
#include "schedule/quantise.h"
#include "tools/measure_options.h"
#include "tools/output.h"
#include "transports/registry.h"

namespace unisono {
namespace {

struct Pick {
  Choice choice;
  std::string reason;
};

class Explain final : public Command {
 public:
  std::string_view name() const override { return "explain"; }
  std::string_view summary() const override {
    return "what would run an all-reduce of a size, why, and its steps";
  }
  std::string_view example() const override {
    return "unisono explain --bytes 1M -n 4\n"
           "unisono explain -n 8 --algorithm ring --rank 2 --steps\n"
           "unisono explain -n 8 --hosts 2 --algorithm 'sharded_ps codec=int8 links=between_hosts'";
  }

  void declare(Flags& flags) override {
    flags.text("-n,--ranks", ranks_, "N", "ranks");
    flags.text("--hosts", hosts_, "H", "hosts that share the ranks evenly, neighbours together");
    flags.text("--bytes", bytes_, "SIZE", "size of the vector");
    flags.text("--algorithm", algorithm_, "CHOICE", "auto, or what the call asks for");
    flags.text("--max-error", max_error_, "E",
               "added error that the call allows a codec of the rules; 1 is the largest sum");
    flags.text("--rank", rank_, "R", "whose steps");
    flags.toggle("--steps", steps_, "print the schedule, one step a line");
  }

  Result<int> run() override {
    const auto ranks = parse_count("--ranks", ranks_, 1, 65536);
    if (!ranks.ok()) return ranks.status();
    const auto bytes = parse_bytes(bytes_);
    if (!bytes) return bad_value("--bytes", bytes_, "a size like 8 or 64K");
    const auto rank = parse_count("--rank", rank_, 0, *ranks - 1);
    if (!rank.ok()) return rank.status();
    const auto hosts = parse_count("--hosts", hosts_, 1, *ranks);
    if (!hosts.ok()) return hosts.status();
    Shape shape{.rank = *rank, .size = *ranks};
    for (int64_t each = 0; each < *ranks; ++each)
      shape.groups.push_back(static_cast<int>(each * *hosts / *ranks));
    auto pick = choose(*bytes, shape);
    if (!pick.ok()) return pick.status();
    pick->choice = on_hosts(pick->choice, shape);
    const Algorithm& algorithm = *find_algorithm(pick->choice.algorithm);
    shape.parameters = pick->choice.parameters;
    UNISONO_RETURN_IF_ERROR(algorithm.supports(shape).in(pick->choice.algorithm));

    std::string text = fmt::format("all_reduce of {} bytes by {} rank{} on {}\n",
                                   format_bytes(*bytes), *ranks, *ranks == 1 ? "" : "s",
                                   *hosts == 1 ? "one host" : fmt::format("{} hosts", *hosts));
    text += fmt::format("runs    {}\n", to_string(pick->choice, algorithms()));
    text += fmt::format("        {}\n", algorithm.summary);
    text += fmt::format("reason  {}\n", pick->reason);
    const auto codec = find_codec(pick->choice.codec);
    if (!codec.ok()) return codec.status();
    const auto quantisation = quantisation_of(algorithm, shape, *codec, pick->choice.links);
    if (!quantisation.ok()) return quantisation.status();
    if (quantisation->most > 0) text += fmt::format("codec   {}\n", explain(*quantisation));
    if (steps_) {
      const OnLink on_link = on_links(pick->choice.links, shape);
      text += '\n';
      text += explain(*codec == nullptr ? algorithm.build(shape)
                                        : build_quantised(algorithm, shape, on_link));
    }
    UNISONO_RETURN_IF_ERROR(Output::standard().write(text));
    return 0;
  }

 private:
  // As a communicator chooses: the call, the settings, the rules.
  Result<Pick> choose(uint64_t bytes, const Shape& shape) const {
    const auto settings = Settings::from_environment(environ);
    if (!settings.ok()) return settings.status();
    const auto policy = read_policy(*settings);
    if (!policy.ok()) return policy.status();
    const auto max_error = parse_error(max_error_);
    if (!max_error) return bad_value("--max-error", max_error_, "a number from 0, e.g. 0.01");
    if (algorithm_ != "auto") {
      auto choice = parse_choice(algorithm_, algorithms());
      if (!choice.ok()) return choice.status().in("--algorithm");
      return Pick{choice.take(), "asked for by --algorithm"};
    }
    if (policy->forced) return Pick{*policy->forced, "forced by UNISONO_ALGORITHM"};
    const TransportRow* const transport = find_transport(settings->text(Setting::kTransport));  // null: auto
    const uint64_t shared_memory = shape.hosts() == 1 && (transport == nullptr || transport->maps_memory) ? 1 : 0;
    Quantisations known;
    auto match = policy->rules.select(
        {bytes, static_cast<uint64_t>(shape.size), static_cast<uint64_t>(shape.hosts()), shared_memory},
        shape, {.max_error = *max_error}, known);
    if (!match.ok()) return match.status();
    const bool built_in = settings->text(Setting::kRules).empty();
    return Pick{match->choice,
                fmt::format("rule '{}' of {}", match->rule, built_in ? "the built-in rules" : "UNISONO_RULES")};
  }

  static std::optional<double> parse_error(const std::string& text) {
    double value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) return {};
    return value;
  }

  std::string ranks_ = "4";
  std::string hosts_ = "1";
  std::string bytes_ = "1M";
  std::string algorithm_ = "auto";
  std::string max_error_ = "0";
  std::string rank_ = "0";
  bool steps_ = false;
};

}  // namespace

std::unique_ptr<Command> make_explain_command() {
  return std::make_unique<Explain>();
}

}  // namespace unisono
