// SPDX-License-Identifier: Apache-2.0
// No two samples, of training or validation, may share a byte. All ranks together draw the samples of a single rank.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "bench/trainer/data/corpus.h"
#include "bench/trainer/data/loader.h"
#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/data/checksum.h"
#include "tests/catch.h"

namespace {

using namespace rondo::train;

/// Files that are removed after the test.
class Files {
 public:
  std::string add(const std::string &content) {
    std::string path = "/tmp/rondo-train-test-XXXXXX";
    const int descriptor = ::mkstemp(path.data());
    REQUIRE(descriptor >= 0);
    (void)::close(descriptor);
    std::ofstream(path, std::ios::binary) << content;
    paths_.push_back(path);
    return path;
  }
  ~Files() {
    for (const std::string &path : paths_) (void)std::remove(path.c_str());
  }

 private:
  std::vector<std::string> paths_;
};

std::string numbers(size_t count, size_t from) {
  std::string text;
  for (size_t at = from; at < from + count; ++at) text += static_cast<char>(at * 7 + at / 256);
  return text;
}

}  // namespace

TEST_CASE("trainer: a corpus of several files is read as one", "[train]") {
  Files files;
  const std::vector<std::string> paths{files.add(numbers(100, 0)), files.add(""), files.add(numbers(1, 100)),
                                       files.add(numbers(200, 101))};
  Corpus corpus;
  REQUIRE_FALSE(corpus.open(paths).has_value());
  REQUIRE(corpus.bytes() == 301);
  const std::string whole = numbers(301, 0);
  for (size_t offset = 0; offset < 301; offset += 7) {
    for (size_t count : {size_t{1}, size_t{50}, 301 - offset}) {
      if (offset + count > 301) continue;
      std::string read(count, '\0');
      REQUIRE_FALSE(corpus.read(offset, count, reinterpret_cast<uint8_t *>(read.data())).has_value());
      CHECK(read == whole.substr(offset, count));
    }
  }
}

TEST_CASE("trainer: a file that becomes shorter or is replaced is an error that names it", "[train]") {
  Files files;
  std::vector<std::string> paths;
  for (size_t at = 0; at < 200; ++at) paths.push_back(files.add(numbers(100, at)));  // more files than are kept open
  Corpus corpus;
  REQUIRE_FALSE(corpus.open(paths).has_value());
  uint64_t before = 0, after = 0;
  REQUIRE_FALSE(corpus.checksum(before).has_value());
  std::string read(100, '\0');
  const auto failure_at = [&](size_t file) {
    const Outcome failure = corpus.read(file * 100, 100, reinterpret_cast<uint8_t *>(read.data()));
    return failure ? failure->message : "";
  };
  for (const size_t file : {size_t{0}, size_t{199}}) {
    CHECK(failure_at(file) == "");
    std::filesystem::resize_file(paths[file], 40);
    CHECK(failure_at(file).find(paths[file] + " became shorter") != std::string::npos);
    std::filesystem::resize_file(paths[file], 100);  // with other bytes
    CHECK(failure_at(file) == "");
  }
  REQUIRE_FALSE(corpus.checksum(after).has_value());
  CHECK(before != after);
  std::filesystem::copy_file(paths[100], paths[198] + ".new");
  std::filesystem::rename(paths[198] + ".new", paths[198]);
  CHECK(failure_at(198).find(paths[198] + " was replaced") != std::string::npos);
  std::filesystem::remove(paths[198]);
  CHECK(failure_at(198).find("cannot read " + paths[198]) != std::string::npos);
}

TEST_CASE("trainer: a loader passes on why its thread has ended", "[train]") {
  Files files;
  const std::string path = files.add(numbers(17 * 200, 0));
  Corpus corpus;
  REQUIRE_FALSE(corpus.open({path}).has_value());
  const Samples samples(corpus.bytes(), 16);
  std::filesystem::resize_file(path, 1);
  Loader loader(corpus, samples, {16, 3, 9, 2, 0, 1, 0});
  REQUIRE_FALSE(loader.start().has_value());
  const Batch *batch = nullptr;
  const Outcome failure = loader.next(batch);
  REQUIRE(failure.has_value());
  CHECK(failure->message.find("became shorter") != std::string::npos);
}

TEST_CASE("trainer: no byte belongs to two samples, and one in ten or so is for validation", "[train]") {
  for (const size_t windows : {10u, 11u, 329u, 995u, 20'000u}) {
    const size_t bytes = windows * 33 + 7;
    const Samples samples(bytes, 32);
    std::set<size_t> starts;
    for (size_t at = 0; at < samples.training_count(); ++at) starts.insert(samples.training_offset(at));
    for (size_t at = 0; at < samples.validation_count(); ++at) starts.insert(samples.validation_offset(at));
    CHECK(starts.size() == windows);
    CHECK(*starts.rbegin() + 33 <= bytes);
    for (const size_t start : starts) REQUIRE(start % 33 == 0);
    CHECK(samples.validation_count() * 12 >= starts.size());
    CHECK(samples.validation_count() * 9 <= starts.size());
  }
}

TEST_CASE("trainer: each pass draws every sample once, in an order of its own", "[train]") {
  Order order(1000, 5), again(1000, 5);
  std::vector<size_t> first, second;
  for (uint64_t sample = 0; sample < 1000; ++sample) first.push_back(order.at(sample));
  for (uint64_t sample = 1000; sample < 2000; ++sample) second.push_back(order.at(sample));
  CHECK(std::set<size_t>(first.begin(), first.end()).size() == 1000);
  CHECK(std::set<size_t>(second.begin(), second.end()).size() == 1000);
  CHECK(first != second);
  CHECK(again.at(1500) == second[500]);  // a run that is resumed begins in the middle
  CHECK(again.at(3) == first[3]);
}

TEST_CASE("trainer: two ranks load what one rank loads in two passes, and a resumed run goes on", "[train]") {
  Files files;
  Corpus corpus;
  REQUIRE_FALSE(corpus.open({files.add(numbers(17 * 200, 0))}).has_value());
  const Samples samples(corpus.bytes(), 16);
  const auto batches = [&](uint64_t first_batch, uint64_t own, uint64_t first_step, size_t count) {
    Loader loader(corpus, samples, {16, 3, 9, 2, first_batch, own, first_step});
    REQUIRE_FALSE(loader.start().has_value());
    std::vector<std::vector<uint8_t>> all;
    for (size_t at = 0; at < count; ++at) {
      const Batch *batch = nullptr;
      REQUIRE_FALSE(loader.next(batch).has_value());
      for (size_t token = 0; token + 1 < 16; ++token) REQUIRE(batch->inputs[token + 1] == batch->targets[token]);
      all.emplace_back(batch->inputs.begin(), batch->inputs.end());
    }
    return all;
  };
  const auto one = batches(0, 2, 0, 20), left = batches(0, 1, 0, 10), right = batches(1, 1, 0, 10);
  for (size_t step = 0; step < 10; ++step) {
    CHECK(one[2 * step] == left[step]);
    CHECK(one[2 * step + 1] == right[step]);
    CHECK(left[step] != right[step]);
  }
  const auto resumed = batches(1, 1, 6, 4);
  for (size_t step = 6; step < 10; ++step) CHECK(resumed[step - 6] == right[step]);
}

TEST_CASE("trainer: buckets hold all tensors in order, none larger than asked for unless one tensor is", "[train]") {
  const Layout layout = make_layout({"test", 64, 4, 4, 128});
  for (const size_t bytes : {size_t{1}, size_t{20'000}, size_t{100'000}, size_t{1} << 30}) {
    size_t tensor = 0, offset = 0;
    for (const Bucket &bucket : make_buckets(layout, bytes)) {
      CHECK(bucket.first == tensor);
      CHECK(bucket.offset == offset);
      CHECK((bucket.count * sizeof(float) <= bytes || bucket.end == bucket.first + 1));
      tensor = bucket.end;
      offset += bucket.count;
    }
    CHECK(tensor == layout.tensors.size());
    CHECK(offset == layout.count);
  }
}

TEST_CASE("trainer: a checksum notices any flipped bit", "[train]") {
  std::string data = numbers(101, 0);
  const auto sum = [&] {
    Checksum all;
    all.add(data.data(), data.size());
    return all.value();
  };
  const uint64_t before = sum();
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
    CHECK(sum() != before);
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
  }
  CHECK(sum() == before);
}
