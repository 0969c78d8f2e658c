/* SPDX-License-Identifier: Apache-2.0 */
/* Processes without a launcher: rank 0 makes an id and hands it to the others by a way of its own,
   here a pipe to its children. */
#include <stdio.h>
#include <sys/wait.h>
#include <unisono/unisono.h>
#include <unistd.h>

#define RANKS 3

static int run_rank(const unisono_unique_id_t* id, int rank) {
  const char* settings[] = {"UNISONO_TIMEOUT=30s", NULL};
  unisono_options_t options = UNISONO_OPTIONS_INIT;
  options.settings = settings;
  unisono_comm_t comm;
  if (unisono_comm_create(id, RANKS, rank, &options, &comm) != UNISONO_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, unisono_last_error());
    return 1;
  }
  double value = rank + 1.0;
  const unisono_status_t status =
      unisono_all_reduce(comm, &value, &value, 1, UNISONO_FLOAT64, UNISONO_PROD, NULL);
  if (status == UNISONO_OK)
    printf("rank %d of %d: %g\n", rank, RANKS, value);
  else
    fprintf(stderr, "rank %d: %s\n", rank, unisono_last_error());
  fflush(stdout);
  unisono_comm_destroy(comm);
  return status == UNISONO_OK ? 0 : 1;
}

int main(void) {
  int pipes[RANKS][2];
  for (int rank = 1; rank < RANKS; ++rank) {
    if (pipe(pipes[rank]) != 0) return 1;
    if (fork() == 0) {
      unisono_unique_id_t id;
      const int got = read(pipes[rank][0], &id, sizeof(id)) == (ssize_t)sizeof(id);
      _exit(got ? run_rank(&id, rank) : 1);
    }
  }

  // The process of rank 0 makes the id: it listens from now on.
  unisono_unique_id_t id;
  if (unisono_get_unique_id(NULL, &id) != UNISONO_OK) {
    fprintf(stderr, "%s\n", unisono_last_error());
    return 1;
  }
  for (int rank = 1; rank < RANKS; ++rank)
    if (write(pipes[rank][1], &id, sizeof(id)) != (ssize_t)sizeof(id)) return 1;

  int failed = run_rank(&id, 0);
  for (int rank = 1; rank < RANKS; ++rank) {
    int status;
    if (wait(&status) < 0 || status != 0) failed = 1;
  }
  return failed;
}
