// SPDX-License-Identifier: Apache-2.0
#include "schedule/explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono {
namespace {

// "3", or "3…7" for a run.
std::string run(uint64_t first, uint64_t count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}…{}", first, first + count - 1);
}

// Peers as "0 #0, 2…4 #1": ranks that follow one another with one message number are a run.
std::string peers_text(std::span<const PeerMessage> peers, std::string_view prefix,
                       std::string_view separator) {
  std::string text;
  for (size_t begin = 0; begin < peers.size();) {
    size_t end = begin + 1;
    while (end < peers.size() && peers[end].message == peers[begin].message &&
           peers[end].rank == peers[end - 1].rank + 1)
      ++end;
    fmt::format_to(std::back_inserter(text), "{}{}{} #{}", text.empty() ? "" : separator, prefix,
                   run(static_cast<uint64_t>(peers[begin].rank), end - begin),
                   peers[begin].message);
    begin = end;
  }
  return text;
}

std::string operands_text(const Schedule& schedule, const Step& step) {
  const auto peers = schedule.peers_of(step);
  if (step.source.space == Space::kNone) return peers_text(peers, "from ", " + ");
  const auto above = std::ranges::partition_point(
      peers, [&](const PeerMessage& peer) { return peer.rank < schedule.rank; });
  std::string text = peers_text({peers.begin(), above}, "from ", " + ");
  text += (text.empty() ? "" : " + ") + to_string(step.source);
  const std::string rest = peers_text({above, peers.end()}, "from ", " + ");
  return rest.empty() ? text : text + " + " + rest;
}

std::string action_text(const Schedule& schedule, const Step& step) {
  const auto peers = schedule.peers_of(step);
  const std::string target = to_string(step.target), source = to_string(step.source);
  switch (step.kind) {
    case StepKind::kSend:
      return fmt::format("{} to {}", source, peers_text(peers, "", ", "));
    case StepKind::kRecv:
      return fmt::format("{} = {}", target, peers_text(peers, "from ", ", "));
    case StepKind::kRecvReduce:
      return fmt::format("{} = {}", target, operands_text(schedule, step));
    case StepKind::kEncode:
      return fmt::format("{} = encode({})", target, source);
    case StepKind::kDecode:
      return fmt::format("{} = decode({})", target, source);
    case StepKind::kCopy:
      break;
  }
  return fmt::format("{} = {}", target, source);
}

std::string notes_text(const Schedule& schedule, const Step& step) {
  std::vector<uint32_t> after(schedule.after_of(step).begin(), schedule.after_of(step).end());
  std::ranges::sort(after);
  std::string text;
  for (size_t begin = 0; begin < after.size();) {
    size_t end = begin + 1;
    while (end < after.size() && after[end] == after[end - 1] + 1) ++end;
    text += (text.empty() ? "after " : ", ") + run(after[begin], end - begin);
    begin = end;
  }
  const auto note = [&](std::string_view what) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", what);
  };
  const auto peers = schedule.peers_of(step);
  const auto encoded = std::ranges::count_if(peers, &PeerMessage::encoded);
  if (encoded > 0)
    note(encoded == std::ssize(peers) ? "encoded"
                                      : fmt::format("{} of {} encoded", encoded, peers.size()));
  if (step.residual == Residual::kWorker) note("worker residual");
  if (step.residual == Residual::kOwner) note("owner residual");
  if (step.finishes) note("finishes");
  return text;
}

// Pads to `width` characters, counting the dots of a run as one.
std::string padded(std::string text, size_t width) {
  const auto characters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return text.append(width - std::min(width, static_cast<size_t>(characters)), ' ');
}

}  // namespace

std::string explain(const Quantisation& quantisation) {
  return fmt::format(
      "a contribution is encoded up to {} time{}, in sums of up to {}; added error up to {:.3g} times "
      "the largest contribution",
      quantisation.most, quantisation.most == 1 ? "" : "s", quantisation.held, quantisation.error);
}

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy:
      return "copy";
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "recv";
    case StepKind::kRecvReduce:
      return "recv_reduce";
    case StepKind::kEncode:
      return "encode";
    case StepKind::kDecode:
      return "decode";
  }
  return "unknown";
}

std::string to_string(ChunkRange chunks) {
  return (chunks.count == 1 ? "chunk " : "chunks ") + run(chunks.first, chunks.count);
}

std::string to_string(Place place) {
  switch (place.space) {
    case Space::kNone:
      return "nothing";
    case Space::kInput:
      return "input";
    case Space::kOutput:
      return "output";
    case Space::kScratch:
      return fmt::format("scratch[{}]", place.slot);
    case Space::kEncoded:
      return fmt::format("encoded[{}]", place.slot);
  }
  return "unknown";
}

std::string explain_step(const Schedule& schedule, size_t index) {
  const Step& step = schedule.steps[index];
  return fmt::format("{} {}  {}", name_of(step.kind), to_string(step.chunks),
                     action_text(schedule, step));
}

std::string explain(const Schedule& schedule) {
  std::string text =
      fmt::format("{}, rank {} of {}: {} chunk{}, {} step{}\n", name_of(schedule.collective),
                  schedule.rank, schedule.size, schedule.chunks, schedule.chunks == 1 ? "" : "s",
                  schedule.steps.size(), schedule.steps.size() == 1 ? "" : "s");
  for (size_t index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    std::string line = fmt::format("{:>4} {:<11} {} {}", index, name_of(step.kind),
                                   padded(to_string(step.chunks), 11), action_text(schedule, step));
    const std::string notes = notes_text(schedule, step);
    if (!notes.empty()) line = padded(line, 64) + "  " + notes;
    text += line + "\n";
  }
  return text;
}

}  // namespace unisono
