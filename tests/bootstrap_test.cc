// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/bootstrap.h"
#include <gtest/gtest.h>
#include <thread>
#include "bootstrap/star.h"
#include "bootstrap/token.h"
namespace unisono {
TEST(Star, Local) {
  for (int size : {2, 5, 33}) {
    const std::string token = random_token();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([=] {
        StarOptions options{rank, size, token, {}, {}, Log(Settings(), rank)};
        if (rank == 0) options.listeners.push_back(listen_on(local_endpoint(token)).take());
        else options.rendezvous = {local_endpoint(token)};
        const auto deadline = Deadline::after(std::chrono::seconds(20));
        auto b = join_star(std::move(options), deadline);
        ASSERT_TRUE(b.ok()) << b.status().message();
        for (int i = 0; i < 10; ++i) {
          auto all = (*b)->all_gather(std::string(static_cast<size_t>(rank * i), 'a'), deadline);
          ASSERT_TRUE(all.ok()) << all.status().message();
          for (int p = 0; p < size; ++p) ASSERT_EQ((*all)[static_cast<size_t>(p)].size(), static_cast<size_t>(p * i));
        }
      });
    for (auto& t : threads) t.join();
  }
}
}
