// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/control.h"

#include <cstring>
#include <memory>

namespace unisono {

ControlMessage make_control(ControlKind kind, int rank, std::string_view token) {
  ControlMessage message;
  message.kind = kind;
  message.rank = static_cast<uint32_t>(rank);
  std::memcpy(message.token.data(), token.data(), message.token.size());
  return message;
}

void send_control(ucp_ep_h endpoint, const ControlMessage& message) {
  auto copy = std::make_unique<ControlMessage>(message);
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  parameters.user_data = copy.get();
  parameters.cb.send = [](void* request, ucs_status_t, void* user_data) {
    delete static_cast<ControlMessage*>(user_data);
    ucp_request_free(request);
  };
  if (UCS_PTR_IS_PTR(ucp_am_send_nbx(endpoint, kControlId, copy.get(), sizeof(*copy), nullptr, 0,
                                     &parameters)))
    copy.release();  // the callback deletes it
}

}  // namespace unisono
