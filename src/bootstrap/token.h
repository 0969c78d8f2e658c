// SPDX-License-Identifier: Apache-2.0
// The job token: 128 bits that tell the ranks of a job from strangers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono {

inline constexpr size_t kTokenBytes = 16;

std::string random_token();  // kTokenBytes from the kernel
// The same token from the same words on every rank. No secret: whoever knows the words knows the
// token.
std::string derive_token(std::string_view words);

std::string format_token(std::string_view token);

// In a time that does not depend on where they differ.
bool equal_tokens(std::string_view a, std::string_view b);

}  // namespace unisono
