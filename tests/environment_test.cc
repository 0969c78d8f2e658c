// SPDX-License-Identifier: Apache-2.0
// What launchers' variables, interface and port range lead to.
#include "bootstrap/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "bootstrap/listener.h"
#include "bootstrap/token.h"
#include "tests/support/meeting.h"

namespace unisono {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;
using Way = JobPlace::Way;

Environment environment(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Settings settings(const Variables& values) {
  Settings settings;
  for (const auto& [name, value] : values) EXPECT_TRUE(settings.set(name, value, "test").ok());
  return settings;
}

const Variables kTorchrun = {{"RANK", "3"},           {"WORLD_SIZE", "8"},
                             {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"},
                             {"LOCAL_RANK", "1"},     {"TORCHELASTIC_RUN_ID", "x"}};

TEST(Environment, FindsThePlaceUnderEveryLauncher) {
  Variables agent_store = kTorchrun;
  agent_store["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const struct {
    Variables variables, settings;
    int rank, size;
    Way way;
    uint16_t port;
  } kCases[] = {
      {{}, {}, 0, 1, Way::kAlone, 0},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {{"UNISONO_BOOTSTRAP", "tcp"}}, 0, 1, Way::kAlone, 0},
      {{{"RANK", "1"}, {"WORLD_SIZE", "4"}}, {}, 1, 4, Way::kLocal, 0},
      {kTorchrun, {}, 3, 8, Way::kTcp, 29500},
      {kTorchrun, {{"UNISONO_BOOTSTRAP", "local"}}, 3, 8, Way::kLocal, 0},
      {agent_store, {}, 3, 8, Way::kTcp, 29501},
      {{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}, {}, 2, 3, Way::kLocal, 0},
      {{{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}}, {}, 2, 3, Way::kLocal, 0},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}},
       {},
       1,
       2,
       Way::kLocal,
       0},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
       {},
       0,
       1,
       Way::kAlone,
       0},  // in an allocation only
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PMI_RANK", "5"}, {"PMI_SIZE", "9"}},
       {},
       1,
       2,
       Way::kLocal,
       0},
      // A local launcher that another one has started.
      {{{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"SLURM_NNODES", "4"}},
       {},
       1,
       2,
       Way::kLocal,
       0},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(&test - kCases);
    const auto place = find_job(settings(test.settings), environment(test.variables));
    ASSERT_TRUE(place.ok()) << place.status().message();
    EXPECT_EQ(place->rank, test.rank);
    EXPECT_EQ(place->size, test.size);
    EXPECT_EQ(place->way, test.way);
    EXPECT_EQ(place->port, test.port);
    EXPECT_EQ(place->token.size(), test.way == Way::kAlone ? 0 : kTokenBytes);
  }
}

TEST(Environment, RefusesWhatItCannotUnderstandByName) {
  const struct {
    Variables variables, settings;
    const char* message;
  } kCases[] = {
      {{{"RANK", "1"}}, {}, "RANK is set but WORLD_SIZE is not"},
      {{{"PMI_SIZE", "1"}}, {}, "PMI_SIZE is set but PMI_RANK is not"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {}, "RANK=one: expected a number from 0 to 1"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {}, "RANK=2: expected a number from 0 to 1"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {}, "WORLD_SIZE=0: expected a number from 1"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       {{"UNISONO_BOOTSTRAP", "tcp"}},
       "MASTER_ADDR is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, {}, "MASTER_PORT is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
       {},
       "MASTER_PORT=70000: expected a number from 1 to 65535"},
      {{{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       {},
       "OMPI_COMM_WORLD_LOCAL_SIZE=2 of 4 ranks: ranks on several hosts need MASTER_ADDR"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_NNODES", "2"}},
       {},
       "SLURM_NNODES=2: ranks on several hosts need MASTER_ADDR"},
  };
  for (const auto& test : kCases) {
    const auto place = find_job(settings(test.settings), environment(test.variables));
    EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument) << test.message;
    EXPECT_THAT(place.status().message(), HasSubstr(test.message));
  }
}

TEST(Environment, JobsHaveDifferentTokensAndTheirRanksTheSame) {
  const auto token = [](Variables variables, const Variables& set = {}) {
    auto place = find_job(settings(set), environment(std::move(variables)));
    return place.ok() ? place->token : std::string(place.status().message());
  };
  Variables other_rank = kTorchrun, other_job = kTorchrun, other_port = kTorchrun;
  other_rank["RANK"] = "5";
  other_rank["LOCAL_RANK"] = "0";
  other_job["TORCHELASTIC_RUN_ID"] = "y";
  other_port["MASTER_PORT"] = "29501";
  EXPECT_EQ(token(kTorchrun), token(other_rank));
  EXPECT_NE(token(kTorchrun), token(other_job));
  EXPECT_NE(token(kTorchrun), token(other_port));
  const Variables given = {{"UNISONO_JOB_TOKEN", "000102030405060708090a0b0c0D0E0F"}};
  EXPECT_EQ(format_token(token(kTorchrun, given)), "000102030405060708090a0b0c0d0e0f");
}

// Ranks that only a launcher's variables bring together.
TEST(Environment, ProcessesMeet) {
  const std::string port = std::to_string(free_port("127.0.0.1"));
  for (Variables variables :
       {Variables{{"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_NAMESPACE", "test." + port}},
        Variables{{"PMI_SIZE", "3"}},
        Variables{{"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", port}},
        Variables{{"WORLD_SIZE", "3"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", port}}}) {
    SCOPED_TRACE(variables.begin()->first);
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      children.push_back(fork_rank([&, rank] {
        for (const char* name : {"OMPI_COMM_WORLD_", "PMI_", ""})
          if (variables.contains(std::string(name) + (*name == 0 ? "WORLD_SIZE" : "SIZE")))
            variables[std::string(name) + "RANK"] = std::to_string(rank);
        return gather_some(make_process_bootstrap(Settings(), Deadline::after(kLong),
                                                  environment(variables)),
                           rank, 3)
            .empty();
      }));
    }
    for (const pid_t child : children) EXPECT_EQ(exit_status(child), 0);
  }
}

TEST(Listener, AUsedPortAWrongInterfaceAndAnotherRangeAreNamed) {
  const uint16_t port = free_port("127.0.0.1");
  Endpoint where = literal_endpoint("127.0.0.1", port);
  const auto taken = listen_on(where);
  ASSERT_TRUE(taken.ok());
  const std::string text = std::to_string(port);
  const struct {
    Variables settings;
    std::string message;
  } kCases[] = {
      {{}, "cannot listen on 127.0.0.1:" + text + ": Address already in use"},
      {{{"UNISONO_INTERFACE", "nonsense0"}},
       "UNISONO_INTERFACE=nonsense0: no address of this host"},
      {{{"UNISONO_INTERFACE", "192.0.2.128/25"}}, "UNISONO_INTERFACE=192.0.2.128/25: no address"},
      {{{"UNISONO_PORT_RANGE", "1:2"}}, "is outside UNISONO_PORT_RANGE=1:2"},
  };
  for (const auto& test : kCases) {
    const auto listeners = listen_for("127.0.0.1", port, settings(test.settings));
    ASSERT_FALSE(listeners.ok()) << test.message;
    EXPECT_THAT(listeners.status().message(), HasSubstr(test.message));
  }
  const auto id = make_unique_id(
      settings({{"UNISONO_INTERFACE", "127.0.0.1"}, {"UNISONO_PORT_RANGE", text + ":" + text}}));
  EXPECT_THAT(id.status().message(), HasSubstr("no free port in UNISONO_PORT_RANGE=" + text));
}

TEST(Listener, KeepsToTheInterface) {
  for (const char* wanted : {"lo", "127.0.0.0/8", "::1"}) {
    const auto addresses = interface_addresses(settings({{"UNISONO_INTERFACE", wanted}}));
    ASSERT_TRUE(addresses.ok()) << addresses.status().message();
    for (const Endpoint& address : *addresses)
      EXPECT_THAT(text_of(address), ::testing::AnyOf("127.0.0.1:0", "[::1]:0")) << wanted;
  }
  const auto addresses = interface_addresses(Settings());
  ASSERT_TRUE(addresses.ok()) << addresses.status().message();
  EXPECT_FALSE(addresses->empty());
}

}  // namespace
}  // namespace unisono
