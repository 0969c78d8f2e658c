// SPDX-License-Identifier: Apache-2.0
// What stands behind a unisono_feedback_t.
#pragma once

#include <memory>

#include "communicator/feedback.h"
#include "unisono/unisono.h"

struct unisono_feedback {
  std::unique_ptr<unisono::Feedback> core;
};
