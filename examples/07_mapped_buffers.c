/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that all ranks of a host map: an all-reduce in them copies nothing in or out. */
#include <stdio.h>
#include <unisono/unisono.h>

enum { kCount = 100000 };

int main(void) {
  unisono_comm_t comm;
  if (unisono_comm_create_from_environment(NULL, &comm) != UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_last_error());
    return 1;
  }
  const int rank = unisono_comm_rank(comm);

  /* Once, by all ranks alike; then for as many calls as there are, whole or in part. */
  void* memory;
  unisono_status_t status = unisono_alloc(comm, kCount * sizeof(float), &memory);
  if (status == UNISONO_OK) {
    float* gradient = memory;
    for (int step = 1; step <= 3 && status == UNISONO_OK; ++step) {
      for (int i = 0; i < kCount; ++i) gradient[i] = (float)(step * (rank + 1));
      status =
          unisono_all_reduce(comm, gradient, gradient, kCount, UNISONO_FLOAT32, UNISONO_SUM, NULL);
      if (status == UNISONO_OK)
        printf("rank %d of %d, step %d: %g\n", rank, unisono_comm_size(comm), step,
               gradient[kCount - 1]);
    }
    const unisono_status_t freed = unisono_free(comm, memory);
    if (status == UNISONO_OK) status = freed;
  }
  if (status != UNISONO_OK) fprintf(stderr, "%s\n", unisono_last_error());
  unisono_comm_destroy(comm);
  return status != UNISONO_OK;
}
