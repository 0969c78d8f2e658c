// SPDX-License-Identifier: Apache-2.0
// Asio as the star uses it: the one place that includes it, so that all files see it configured
// alike.
#pragma once

// Asio would decide by which standard headers came first, and so free in one file with free() what
// another had from operator new.
#define ASIO_DISABLE_STD_ALIGNED_ALLOC
// Each loop is run by one thread; TSan does not know fences.
#define ASIO_DISABLE_FENCED_BLOCK

#include <asio/buffer.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
