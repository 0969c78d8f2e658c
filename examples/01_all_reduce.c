/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank contributes a vector, and every rank gets the sum. */
#include <stdio.h>
#include <unisono/unisono.h>

int main(void) {
  // Rank and size come from the launcher; alone, this is a world of one.
  unisono_comm_t comm;
  if (unisono_comm_create_from_environment(NULL, &comm) != UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_last_error());
    return 1;
  }

  float values[4];
  for (int i = 0; i < 4; ++i) values[i] = (float)(unisono_comm_rank(comm) + i);
  if (unisono_all_reduce(comm, values, values, 4, UNISONO_FLOAT32, UNISONO_SUM, NULL) !=
      UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_comm_last_error(comm));
    return 1;
  }

  printf("rank %d of %d: %g %g %g %g\n", unisono_comm_rank(comm), unisono_comm_size(comm),
         values[0], values[1], values[2], values[3]);
  unisono_comm_destroy(comm);
  return 0;
}
