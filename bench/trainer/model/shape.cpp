// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/model/shape.h"

#include <array>
#include <utility>

#include "bench/trainer/model/random.h"

namespace rondo::train {
namespace {

// nano, tiny and small have about 0.2, 3 and 25 million parameters. gpt2 has the shape of GPT-2. With the vocabulary of
// GPT-2 it would have 124 million.
const std::array shapes{
    Shape{"nano", 64, 4, 4, 128},
    Shape{"tiny", 192, 6, 6, 256},
    Shape{"small", 512, 8, 8, 256},
    Shape{"gpt2", 768, 12, 12, 1024},
};

/// The unit of the kernels, which process whole vectors of up to 16 floats and have no code for a remainder.
constexpr size_t vector_floats = 16;
constexpr size_t width_max = 16'384, layers_max = 256, context_max = 8'192;

Failure impossible(const std::string &why) { return {Exit::usage, "impossible shape: " + why}; }

/// The way in which ranks that share a model divide a tensor.
enum class Cut {
  none,     ///< each rank has all of it
  rows,     ///< each rank has some of the outputs
  thirds,   ///< each rank has some outputs of queries, of keys and of values, which follow each other
  columns,  ///< each rank has some of the inputs
};

class Builder {
 public:
  explicit Builder(const Slice &slice) : slice_(slice) {}

  size_t matrix(const std::string &name, size_t rows, size_t columns, Cut cut) {
    const size_t own_columns = cut == Cut::columns ? columns / slice_.count : columns;
    return add({name, 0, rows * columns, own_columns, Start::normal}, cut, rows);
  }
  size_t vector(const std::string &name, size_t count, Start start, Cut cut) {
    return add({name, 0, count, 1, start}, cut, count);
  }

  /// Sets whether this rank has the tensors that follow. A tensor that it does not have still gets its number.
  void keep(bool kept) { kept_ = kept; }

  Layout layout;
  bool expert = false;  ///< the tensors that follow are of experts

 private:
  size_t add(Tensor tensor, Cut cut, size_t rows) {
    tensor.number = number_++;
    tensor.of_experts = expert;
    if (!kept_) return no_tensor;
    const size_t whole = tensor.count;
    if (cut == Cut::thirds) tensor.blocks = 3;
    if (cut == Cut::columns) tensor.blocks = rows;
    tensor.stride = whole / tensor.blocks;
    if (cut != Cut::none) tensor.count = whole / slice_.count;
    tensor.begin = cut == Cut::none ? 0 : slice_.index * tensor.length();
    tensor.offset = layout.count;
    layout.count += tensor.count;
    layout.tensors.push_back(std::move(tensor));
    return layout.tensors.size() - 1;
  }

  const Slice slice_;
  bool kept_ = true;
  size_t number_ = 0;
};

}  // namespace

std::optional<Shape> find_shape(std::string_view name) {
  for (const Shape &shape : shapes)
    if (shape.name == name) return shape;
  return std::nullopt;
}

std::string known_shapes() {
  std::string list;
  for (const Shape &shape : shapes) list += (list.empty() ? "" : ", ") + shape.name;
  return list;
}

double sample_operations(const Shape &shape) {
  const auto width = static_cast<double>(shape.width), layers = static_cast<double>(shape.layers);
  const auto context = static_cast<double>(shape.context), experts = static_cast<double>(shape.experts);
  // A layer has matrices of 3, 1, 4 and 4 squares. A token meets one expert, and the router's row for each.
  const double parameters = layers * (12 * width * width + experts * width) + static_cast<double>(vocabulary) * width;
  return context * (6 * parameters + 12 * layers * width * context);
}

Outcome check_shape(const Shape &shape) {
  const auto range = [](const char *what, size_t value, size_t most) -> Outcome {
    if (value >= 1 && value <= most) return std::nullopt;
    return impossible(std::string(what) + " is " + std::to_string(value) + "; give 1 to " + std::to_string(most));
  };
  if (auto failure = range("--width", shape.width, width_max)) return failure;
  if (auto failure = range("--layers", shape.layers, layers_max)) return failure;
  if (auto failure = range("--heads", shape.heads, shape.width)) return failure;
  if (auto failure = range("--context", shape.context, context_max)) return failure;
  if (shape.width % vector_floats != 0 || shape.context % vector_floats != 0)
    return impossible("--width and --context must be multiples of 16, and are " + std::to_string(shape.width) +
                      " and " + std::to_string(shape.context));
  if (shape.width % shape.heads != 0)
    return impossible("--width " + std::to_string(shape.width) + " cannot be divided among " +
                      std::to_string(shape.heads) + " heads; give a number of --heads that divides the width");
  return std::nullopt;
}

Outcome check_slices(const Shape &shape, size_t count) {
  if (shape.heads % count != 0)
    return impossible(std::to_string(shape.heads) + " heads cannot be divided among " + std::to_string(count) +
                      " ranks; give a --tensor-parallel that divides the heads");
  if (shape.width % (count * vector_floats) != 0)
    return impossible("--width " + std::to_string(shape.width) + " over " + std::to_string(count) +
                      " ranks is no multiple of 16; give a smaller --tensor-parallel or a larger width");
  return std::nullopt;
}

Outcome check_stages(const Shape &shape, size_t count) {
  if (count <= shape.layers) return std::nullopt;
  return impossible(std::to_string(shape.layers) + " layers are too few for " + std::to_string(count) +
                    " stages; give a smaller --pipeline-parallel or more layers");
}

Layout make_layout(const Shape &shape, const Slice &slice, const Stage &stage) {
  const size_t width = shape.width;
  const size_t first = shape.layers * stage.index / stage.count, end = shape.layers * (stage.index + 1) / stage.count;
  const size_t each = shape.experts > 0 ? shape.experts : 1;
  const auto heads = [&](Cut cut) { return shape.experts > 0 ? Cut::none : cut; };  // ranks then divide experts only
  Builder build(slice);
  build.layout.layers.resize(end - first);
  build.keep(stage.last());
  build.layout.norm_gain = build.vector("norm.gain", width, Start::ones, Cut::none);
  build.layout.norm_bias = build.vector("norm.bias", width, Start::zeros, Cut::none);
  for (size_t layer = shape.layers; layer-- > 0;) {
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    LayerTensors unused{};
    build.keep(layer >= first && layer < end);
    LayerTensors &tensors = layer >= first && layer < end ? build.layout.layers[layer - first] : unused;
    build.expert = shape.experts > 0;
    const Cut inside = build.expert ? Cut::rows : Cut::columns, bias = build.expert ? Cut::rows : Cut::none;
    tensors.down_weight = build.matrix(prefix + "down.weight", each * width, 4 * width, inside);
    tensors.down_bias = build.vector(prefix + "down.bias", each * width, Start::zeros, bias);
    tensors.up_weight = build.matrix(prefix + "up.weight", each * 4 * width, width, Cut::rows);
    tensors.up_bias = build.vector(prefix + "up.bias", each * 4 * width, Start::zeros, Cut::rows);
    build.expert = false;
    if (shape.experts > 0) tensors.router = build.matrix(prefix + "router", shape.experts, width, Cut::none);
    tensors.norm2_gain = build.vector(prefix + "norm2.gain", width, Start::ones, Cut::none);
    tensors.norm2_bias = build.vector(prefix + "norm2.bias", width, Start::zeros, Cut::none);
    tensors.out_weight = build.matrix(prefix + "out.weight", width, width, heads(Cut::columns));
    tensors.out_bias = build.vector(prefix + "out.bias", width, Start::zeros, Cut::none);
    tensors.qkv_weight = build.matrix(prefix + "qkv.weight", 3 * width, width, heads(Cut::thirds));
    tensors.qkv_bias = build.vector(prefix + "qkv.bias", 3 * width, Start::zeros, heads(Cut::thirds));
    tensors.norm1_gain = build.vector(prefix + "norm1.gain", width, Start::ones, Cut::none);
    tensors.norm1_bias = build.vector(prefix + "norm1.bias", width, Start::zeros, Cut::none);
  }
  build.keep(stage.first());
  build.layout.position = build.matrix("position", shape.context, width, Cut::none);
  build.keep(stage.first() || stage.last());
  build.layout.token = build.matrix("token", vocabulary, width, Cut::none);
  const bool borrows = stage.last() && !stage.first();
  build.layout.trained = borrows ? build.layout.tensors[build.layout.token].offset : build.layout.count;
  return build.layout;
}

void initialise(const Layout &layout, uint64_t seed, float *parameters) {
  constexpr double deviation = 0.02;
  for (const Tensor &tensor : layout.tensors) {
    float *const values = parameters + tensor.offset;
    Random random(seed * 1'000'003u + tensor.number);
    for (size_t at = 0; at < tensor.whole_count(); ++at) {  // a slice also draws the numbers of the others
      float value = tensor.start == Start::ones ? 1.0f : 0.0f;
      if (tensor.start == Start::normal) value = static_cast<float>(deviation * random.normal());
      const size_t within = at % tensor.stride;
      if (within < tensor.begin || within >= tensor.begin + tensor.length()) continue;
      values[at / tensor.stride * tensor.length() + within - tensor.begin] = value;
    }
  }
}

}  // namespace rondo::train
