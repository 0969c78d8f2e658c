// SPDX-License-Identifier: Apache-2.0
// gloo::allreduce over TCP loopback, timed as `unisono bench` times. Starts its own ranks.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include "bench/regime.h"

namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;

struct Gloo {
  int rank, size;
  std::shared_ptr<gloo::Context> context;
  Algorithm algorithm;

  template <typename T>
  void reduce(const T* input, T* output, size_t count,
              void (*function)(void*, const void*, const void*, size_t)) {
    gloo::AllreduceOptions call(context);
    call.setAlgorithm(algorithm);
    call.setInput(const_cast<T*>(input), count);
    call.setOutput(output, count);
    call.setReduceFunction(function);
    gloo::allreduce(call);
  }
  void all_reduce(const float* input, float* output, size_t count) {
    reduce(input, output, count, &gloo::sum<float>);
  }
  void max_over_ranks(double* values, size_t count) {
    const std::vector<double> mine(values, values + count);
    reduce(mine.data(), values, count, &gloo::max<double>);
  }
  void barrier() {
    gloo::BarrierOptions call(context);
    gloo::barrier(call);
  }
};

int run_rank(int rank, int size, Algorithm algorithm, const std::string& folder,
             const unisono::regime::Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(options.limit_s);
  gloo::transport::tcp::attr where;
  where.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  Gloo gloo{rank, size, context, algorithm};
  const int status = run(gloo, options, "gloo");
  gloo.barrier();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  unisono::regime::Options options;
  int size = 2;
  Algorithm algorithm = Algorithm::UNSPECIFIED;
  for (int at = 1; at < argc; ++at) {
    const std::string flag = argv[at];
    if (take_option(options, argc, argv, at)) continue;
    if (flag == "--ranks" && at + 1 < argc) {
      size = static_cast<int>(unisono::regime::number("--ranks", argv[++at], 1));
    } else if (flag == "--ring" || flag == "--bcube") {
      algorithm = flag == "--ring" ? Algorithm::RING : Algorithm::BCUBE;
    } else {
      std::fprintf(stderr,
                   "usage: gloo_all_reduce [--ranks N] [--ring|--bcube] [--bytes SWEEP] [--hot] "
                   "[--iterations N] [--limit S]\n");
      return 2;
    }
  }
  std::string folder = (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) {
      int status = 1;
      try {
        status = run_rank(rank, size, algorithm, folder, options);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "gloo rank %d: %s\n", rank, error.what());
      }
      std::fflush(stdout);
      _exit(status);
    }
  }
  int failed = 0;
  for (const pid_t rank : ranks) {
    int status = 0;
    waitpid(rank, &status, 0);
    failed += status != 0;
  }
  std::filesystem::remove_all(folder);
  return failed > 0;
}
