// SPDX-License-Identifier: Apache-2.0
// Making, writing and comparing job tokens.
#include "bootstrap/token.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

namespace unisono {
namespace {

// FNV-1a, then the finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014) so that every input bit reaches every output bit.
uint64_t hash(std::string_view words, uint64_t seed) {
  uint64_t state = 0xcbf29ce484222325u ^ seed;
  for (const char c : words) state = (state ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

}  // namespace

std::string random_token() {
  std::string token(kTokenBytes, '\0');
  // Up to 256 bytes are never short nor interrupted once the kernel's pool is ready (getrandom(2)).
  while (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
  }
  return token;
}

std::string derive_token(std::string_view words) {
  std::string token;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{0x9e3779b97f4a7c15u}})
    for (uint64_t half = hash(words, seed), byte = 0; byte < 8; ++byte)
      token.push_back(static_cast<char>(half >> (8 * byte)));
  return token;
}

std::string format_token(std::string_view token) {
  std::string text;
  for (const char c : token) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

bool equal_tokens(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace unisono
