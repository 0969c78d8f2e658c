/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface seen by a strict C11 compiler: every name once, from C. */
#include <stdio.h>
#include <string.h>
#include <unisono/unisono.h>

static int copy_one(void* context, const void* mine, void* all, size_t bytes) {
  ++*(int*)context;
  memcpy(all, mine, bytes);
  return 0;
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, unisono_last_error());
  return 1;
}

int main(void) {
  const char* settings[] = {"UNISONO_TIMEOUT=20s", NULL};
  unisono_options_t options = UNISONO_OPTIONS_INIT;
  options.settings = settings;
  unisono_unique_id_t id;
  unisono_comm_t comms[4];
  int calls = 0;
  if (unisono_get_unique_id(&options, &id) != UNISONO_OK) return failed("get_unique_id");
  if (unisono_comm_create(&id, 1, 0, &options, &comms[0]) != UNISONO_OK) return failed("create");
  if (unisono_comm_create_from_callback(copy_one, &calls, 1, 0, &options, &comms[1]) !=
          UNISONO_OK ||
      calls == 0)
    return failed("create_from_callback");
  if (unisono_comm_create_from_environment(&options, &comms[2]) != UNISONO_OK)
    return failed("create_from_environment");
  if (unisono_comm_create_local(1, &options, &comms[3]) != UNISONO_OK)
    return failed("create_local");

  for (int i = 0; i < 4; ++i) {
    const int32_t input[3] = {1, 2, 3};
    int32_t output[3] = {0, 0, 0};
    unisono_request_t request;
    unisono_call_options_t call_options = UNISONO_CALL_OPTIONS_INIT;
    unisono_plan_t plan = UNISONO_PLAN_INIT;
    call_options.choice = "ring";
    if (unisono_all_reduce(comms[i], input, output, 3, UNISONO_INT32, UNISONO_SUM, NULL) !=
            UNISONO_OK ||
        memcmp(input, output, sizeof(input)) != 0)
      return failed("all_reduce");
    if (unisono_all_reduce_start(comms[i], output, output, 3, UNISONO_INT32, UNISONO_AVG,
                                 &call_options, &request) != UNISONO_OK)
      return failed("all_reduce_start");
    if (unisono_wait(comms[i], request) != UNISONO_OK) return failed("wait");
    if (unisono_test(comms[i], request) != UNISONO_INVALID_ARGUMENT) return failed("test");
    if (strstr(unisono_comm_last_error(comms[i]), "has ended") == NULL) return failed("last_error");
    if (unisono_group_begin(comms[i]) != UNISONO_OK || unisono_group_end(comms[i]) != UNISONO_OK ||
        unisono_group_begin(comms[i]) != UNISONO_OK ||
        unisono_group_discard(comms[i]) != UNISONO_OK)
      return failed("group");
    if (unisono_all_reduce_plan(comms[i], 3, UNISONO_INT32, UNISONO_SUM, &call_options, &plan) !=
            UNISONO_OK ||
        strcmp(plan.transport, "none") != 0)
      return failed("plan");
    if (unisono_comm_rank(comms[i]) != 0 || unisono_comm_size(comms[i]) != 1) return failed("rank");
    if (unisono_comm_abort(comms[i]) != UNISONO_OK) return failed("abort");
    if (unisono_comm_destroy(comms[i]) != UNISONO_OK) return failed("destroy");
  }
  return strcmp(unisono_status_string(UNISONO_OK), "ok") == 0 && unisono_version()[0] != '\0' ? 0
                                                                                              : 1;
}
