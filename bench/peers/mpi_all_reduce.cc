// SPDX-License-Identifier: Apache-2.0
// MPI_Allreduce timed as `unisono bench` times: built once against each MPI by bench/against-peers.
#include <mpi.h>

#include "bench/regime.h"

namespace {

struct Mpi {
  int rank = 0, size = 0;

  static void all_reduce(const float* input, float* output, size_t count) {
    MPI_Allreduce(input, output, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  static void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  static void max_over_ranks(double* values, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  unisono::regime::Options options;
  for (int at = 1; at < argc; ++at) {
    if (take_option(options, argc, argv, at)) continue;
    std::fprintf(stderr,
                 "usage: mpi_all_reduce [--bytes SWEEP] [--hot] [--iterations N] [--limit S]\n");
    return 2;
  }
  alarm(options.limit_s);
  Mpi mpi;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi.size);
  const int status = run(mpi, options, "mpi");
  MPI_Finalize();
  return status;
}
