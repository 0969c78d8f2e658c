// SPDX-License-Identifier: Apache-2.0
// Training with compressed gradients: what a codec saves on the wire, what it costs in accuracy,
// and what error feedback gives back.
//
// A network of 64–64–10 (ReLU, softmax) learns the UCI hand-written digits of Debian's
// python3-sklearn by plain gradient descent. The ranks share each batch of 32, and sum their
// gradients, one flat vector, by an all-reduce. Every codec starts from the same weights and sees
// the same batches; accuracies are means of 4 seeds.
//
// `onebit` gives each gradient the size of its block's mean. Such errors point the same way step
// after step and add up, so without feedback training drifts away; feedback adds them to the next
// step's gradient, and nothing is lost. The rate of 0.2 is no special one: with 4 ranks and 15
// epochs, onebit with feedback stays within 1 point of float32 at rates of 0.05, 0.1, 0.2, 0.5 and
// 1, and without it loses 7 points at 0.05, and 35 to 82 at the others.
//
//   06_train_digits [EPOCHS [FILE]]
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

constexpr const char* kFile = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz";
constexpr size_t kPixels = 64, kHidden = 64, kDigits = 10;
constexpr size_t kWeights = (kPixels + 1) * kHidden + (kHidden + 1) * kDigits;
constexpr size_t kBatch = 32;
constexpr float kRate = 0.2f;
constexpr unsigned kSeeds = 4;

struct Sample {
  std::array<float, kPixels> pixels;  // 0 … 1
  size_t digit;
};

// A line holds 64 pixels of 0 … 16 and the digit. Empty where the file cannot be read as such.
std::vector<Sample> read_samples(const char* path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path, "rb"), gzclose);
  std::vector<Sample> samples;
  std::array<char, 1024> line;
  while (file && gzgets(file.get(), line.data(), line.size()) != nullptr) {
    Sample sample;
    char* at = line.data();
    for (float& pixel : sample.pixels) {
      pixel = std::strtof(at, &at) / 16;
      if (*at++ != ',') return {};
    }
    sample.digit = std::strtoul(at, &at, 10);
    if (sample.digit >= kDigits) return {};
    samples.push_back(sample);
  }
  return samples;
}

// One layer's weights in the flat vector: row by row, then the biases.
template <size_t kInputs, size_t kOutputs>
struct Layer {
  static constexpr size_t kSize = (kInputs + 1) * kOutputs;

  static void forward(const float* weights, const float* in, float* out) {
    std::copy_n(weights + kInputs * kOutputs, kOutputs, out);
    for (size_t i = 0; i < kInputs; ++i)
      for (size_t o = 0; o < kOutputs; ++o) out[o] += in[i] * weights[i * kOutputs + o];
  }
  // Adds to the gradient; `slope` is the loss's by the outputs, `back` becomes that by the inputs.
  static void backward(const float* weights, const float* in, const float* slope, float* gradient,
                       float* back) {
    for (size_t i = 0; i < kInputs; ++i) {
      for (size_t o = 0; o < kOutputs; ++o) gradient[i * kOutputs + o] += in[i] * slope[o];
      if (back == nullptr) continue;
      back[i] = 0;
      for (size_t o = 0; o < kOutputs; ++o) back[i] += weights[i * kOutputs + o] * slope[o];
    }
    for (size_t o = 0; o < kOutputs; ++o) gradient[kInputs * kOutputs + o] += slope[o];
  }
};
using First = Layer<kPixels, kHidden>;
using Second = Layer<kHidden, kDigits>;

struct Activations {
  std::array<float, kHidden> hidden;
  std::array<float, kDigits> out;  // probabilities
};

Activations run(std::span<const float> weights, const Sample& sample) {
  Activations a;
  First::forward(weights.data(), sample.pixels.data(), a.hidden.data());
  for (float& value : a.hidden) value = std::max(value, 0.0f);
  Second::forward(weights.data() + First::kSize, a.hidden.data(), a.out.data());
  const float largest = *std::ranges::max_element(a.out);
  float sum = 0;
  for (float& value : a.out) sum += value = std::exp(value - largest);
  for (float& value : a.out) value /= sum;
  return a;
}

// Adds a sample's part of the batch's mean gradient; returns its loss.
float learn(std::span<const float> weights, const Sample& sample, std::span<float> gradient) {
  Activations a = run(weights, sample);
  const float loss = -std::log(std::max(a.out[sample.digit], 1e-30f));
  a.out[sample.digit] -= 1;
  for (float& slope : a.out) slope /= kBatch;
  std::array<float, kHidden> back;
  Second::backward(weights.data() + First::kSize, a.hidden.data(), a.out.data(),
                   gradient.data() + First::kSize, back.data());
  for (size_t i = 0; i < kHidden; ++i)
    if (a.hidden[i] == 0) back[i] = 0;
  First::backward(weights.data(), sample.pixels.data(), back.data(), gradient.data(), nullptr);
  return loss;
}

std::vector<float> first_weights(std::mt19937& random) {
  std::vector<float> weights(kWeights, 0);
  const auto fill = [&](size_t first, size_t inputs, size_t outputs) {
    const float deviation = std::sqrt(2 / static_cast<float>(inputs));
    std::normal_distribution<float> normal(0, deviation);
    for (size_t i = 0; i < inputs * outputs; ++i) weights[first + i] = normal(random);
  };
  fill(0, kPixels, kHidden);
  fill(First::kSize, kHidden, kDigits);
  return weights;
}

struct Method {
  const char* codec;
  bool feedback;
};
constexpr Method kMethods[] = {
    {"none", false}, {"fp16", false}, {"int8", false}, {"onebit", true}, {"onebit", false}};

struct Outcome {
  double accuracy = 0;        // percent of the test samples
  std::vector<float> losses;  // mean of each epoch
  double wire_bytes = 0;      // that this rank sends for gradients
  bool bit_identical = true;  // the final weights of all ranks
};

class Training {
 public:
  Training(unisono::Communicator& communicator, const std::vector<Sample>& samples, int epochs)
      : communicator_(communicator), epochs_(epochs) {
    for (size_t i = 0; i < samples.size(); ++i) (i % 5 == 4 ? test_ : train_).push_back(samples[i]);
  }
  size_t steps() const { return train_.size() / kBatch; }  // of an epoch

  Outcome run_seed(const Method& method, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> weights = first_weights(random), gradient(kWeights);
    std::vector<size_t> order(train_.size());
    std::iota(order.begin(), order.end(), 0);
    unisono::Feedback feedback("gradient", kWeights);
    unisono::CallOptions how;
    how.codec = method.codec;
    if (method.feedback) how.feedback = &feedback;

    Outcome outcome;
    for (int epoch = 0; epoch < epochs_; ++epoch) {
      std::ranges::shuffle(order, random);
      std::array<float, 1> loss{};
      for (size_t step = 0; step < steps(); ++step) {
        std::ranges::fill(gradient, 0.0f);
        const auto size = static_cast<size_t>(communicator_.size());
        for (size_t i = static_cast<size_t>(communicator_.rank()); i < kBatch; i += size)
          loss[0] += learn(weights, train_[order[step * kBatch + i]], gradient);
        communicator_.all_reduce(gradient, unisono::Op::kSum, how);
        for (size_t i = 0; i < kWeights; ++i) weights[i] -= kRate * gradient[i];
      }
      communicator_.all_reduce(loss);
      outcome.losses.push_back(loss[0] / static_cast<float>(steps() * kBatch));
    }
    const unisono::Plan plan = communicator_.plan<float>(kWeights, unisono::Op::kSum, how);
    outcome.wire_bytes =
        static_cast<double>(plan.wire_bytes) * static_cast<double>(steps()) * epochs_;
    outcome.accuracy = accuracy(weights);
    outcome.bit_identical = is_bit_identical(weights);
    return outcome;
  }

  // Means of all seeds.
  Outcome run(const Method& method) {
    Outcome mean;
    mean.losses.assign(static_cast<size_t>(epochs_), 0);
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      const Outcome one = run_seed(method, seed);
      mean.accuracy += one.accuracy / kSeeds;
      mean.wire_bytes += one.wire_bytes / kSeeds;
      mean.bit_identical &= one.bit_identical;
      for (size_t i = 0; i < one.losses.size(); ++i) mean.losses[i] += one.losses[i] / kSeeds;
    }
    return mean;
  }

 private:
  double accuracy(std::span<const float> weights) const {
    const auto right = std::ranges::count_if(test_, [&](const Sample& sample) {
      const auto out = ::run(weights, sample).out;
      return out[sample.digit] == *std::ranges::max_element(out);
    });
    return 100.0 * static_cast<double>(right) / static_cast<double>(test_.size());
  }

  bool is_bit_identical(std::span<const float> weights) {
    uint64_t hash = 0;
    for (const float weight : weights)
      hash = (std::rotl(hash, 29) ^ std::bit_cast<uint32_t>(weight)) * 0x9E3779B97F4A7C15;
    std::array<uint64_t, 1> least{hash}, most{hash};
    communicator_.all_reduce(least, unisono::Op::kMin);
    communicator_.all_reduce(most, unisono::Op::kMax);
    return least == most;
  }

  unisono::Communicator& communicator_;
  const int epochs_;
  std::vector<Sample> train_, test_;
};

// One bar an epoch, on a logarithmic scale from 0.01 to 10.
std::string curve(std::span<const float> losses) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const float loss : losses)
    text += kBars[static_cast<int>(std::clamp((std::log10(loss) + 2) / 3 * 8, 0.0f, 7.0f))];
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  auto communicator = unisono::Communicator::from_environment();
  const bool prints = communicator.rank() == 0;
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 15;
  const char* const path = argc > 2 ? argv[2] : kFile;
  const std::vector<Sample> samples = read_samples(path);
  std::array<int32_t, 1> without{samples.empty()};
  communicator.all_reduce(without);
  if (epochs < 1 || without[0] > 0) {
    if (prints && epochs < 1)
      std::fprintf(stderr, "06_train_digits: %s epochs: expected a number from 1\n", argv[1]);
    else if (prints)
      std::fprintf(
          stderr,
          "06_train_digits: %d of %d ranks find no digits in %s: expected Debian's package "
          "python3-sklearn, or its file as second argument\n",
          without[0], communicator.size(), path);
    communicator.all_reduce(without);  // all have seen it
    return 2;
  }

  Training training(communicator, samples, epochs);
  if (prints)
    std::printf(
        "%d ranks, %d epochs of %zu steps; means of %u seeds; wire bytes: a rank's in a training\n"
        "codec   feedback  test %%  wire bytes  of none  loss from the first to the last epoch\n",
        communicator.size(), epochs, training.steps(), kSeeds);
  double plain_bytes = 0;
  for (const Method& method : kMethods) {
    const Outcome outcome = training.run(method);
    if (!outcome.bit_identical) {
      std::fprintf(stderr, "06_train_digits: codec %s: ranks end with different weights\n",
                   method.codec);
      return 1;
    }
    if (plain_bytes == 0) plain_bytes = outcome.wire_bytes;
    if (!prints) continue;
    std::printf(
        "%-6s  %-8s  %6.2f  %10.0f  %7s  %6.3f %s %.3f\n", method.codec,
        method.feedback ? "yes" : "no", outcome.accuracy, outcome.wire_bytes,
        outcome.wire_bytes == 0
            ? "-"
            : ("1/" + std::to_string(plain_bytes / outcome.wire_bytes).substr(0, 4)).c_str(),
        static_cast<double>(outcome.losses.front()), curve(outcome.losses).c_str(),
        static_cast<double>(outcome.losses.back()));
    std::fflush(stdout);
  }
} catch (const unisono::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
