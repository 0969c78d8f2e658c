// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/module.h"

#include "transports/ucx/transport.h"

extern "C" __attribute__((visibility("default")))
const unisono::UcxModule unisono_ucx_module = {UNISONO_VERSION, &unisono::UcxTransport::create};
