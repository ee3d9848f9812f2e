// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/shape.h"

#include <array>

#include "bench/trainer/random.h"

namespace rondo::train {
namespace {

// nano, tiny and small are about 0.2, 3 and 25 million parameters; gpt2 has the shape of GPT-2 (124 million with that
// model's own vocabulary).
const std::array shapes{
    Shape{"nano", 64, 4, 4, 128},
    Shape{"tiny", 192, 6, 6, 256},
    Shape{"small", 512, 8, 8, 256},
    Shape{"gpt2", 768, 12, 12, 1024},
};

/// The kernels work on whole vectors of up to 16 floats and have no code for a rest.
constexpr size_t vector_floats = 16;
constexpr size_t width_most = 16'384, layers_most = 256, context_most = 8'192;

Failure impossible(const std::string &why) { return {Exit::usage, "impossible shape: " + why}; }

class Builder {
 public:
  size_t add(const std::string &name, size_t count, Start start) {
    layout.tensors.push_back({name, layout.count, count, start});
    layout.count += count;
    return layout.tensors.size() - 1;
  }

  Layout layout;
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

Outcome check_shape(const Shape &shape) {
  const auto range = [](const char *what, size_t value, size_t most) -> Outcome {
    if (value >= 1 && value <= most) return std::nullopt;
    return impossible(std::string(what) + " is " + std::to_string(value) + "; give 1 to " + std::to_string(most));
  };
  if (auto failure = range("--width", shape.width, width_most)) return failure;
  if (auto failure = range("--layers", shape.layers, layers_most)) return failure;
  if (auto failure = range("--heads", shape.heads, shape.width)) return failure;
  if (auto failure = range("--context", shape.context, context_most)) return failure;
  if (shape.width % vector_floats != 0 || shape.context % vector_floats != 0)
    return impossible("--width and --context must be multiples of 16, and are " + std::to_string(shape.width) +
                      " and " + std::to_string(shape.context));
  if (shape.width % shape.heads != 0)
    return impossible("--width " + std::to_string(shape.width) + " cannot be divided among " +
                      std::to_string(shape.heads) + " heads; give a number of --heads that divides the width");
  return std::nullopt;
}

Layout make_layout(const Shape &shape) {
  const size_t width = shape.width;
  Builder build;
  build.layout.layers.resize(shape.layers);
  build.layout.norm_gain = build.add("norm.gain", width, Start::ones);
  build.layout.norm_bias = build.add("norm.bias", width, Start::zeros);
  for (size_t layer = shape.layers; layer-- > 0;) {
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    LayerTensors &tensors = build.layout.layers[layer];
    tensors.down_weight = build.add(prefix + "down.weight", 4 * width * width, Start::normal);
    tensors.down_bias = build.add(prefix + "down.bias", width, Start::zeros);
    tensors.up_weight = build.add(prefix + "up.weight", 4 * width * width, Start::normal);
    tensors.up_bias = build.add(prefix + "up.bias", 4 * width, Start::zeros);
    tensors.norm2_gain = build.add(prefix + "norm2.gain", width, Start::ones);
    tensors.norm2_bias = build.add(prefix + "norm2.bias", width, Start::zeros);
    tensors.out_weight = build.add(prefix + "out.weight", width * width, Start::normal);
    tensors.out_bias = build.add(prefix + "out.bias", width, Start::zeros);
    tensors.qkv_weight = build.add(prefix + "qkv.weight", 3 * width * width, Start::normal);
    tensors.qkv_bias = build.add(prefix + "qkv.bias", 3 * width, Start::zeros);
    tensors.norm1_gain = build.add(prefix + "norm1.gain", width, Start::ones);
    tensors.norm1_bias = build.add(prefix + "norm1.bias", width, Start::zeros);
  }
  build.layout.position = build.add("position", shape.context * width, Start::normal);
  build.layout.token = build.add("token", vocabulary * width, Start::normal);
  return build.layout;
}

void initialise(const Layout &layout, uint64_t seed, float *parameters) {
  constexpr double deviation = 0.02;
  for (size_t index = 0; index < layout.tensors.size(); ++index) {
    const Tensor &tensor = layout.tensors[index];
    float *const values = parameters + tensor.offset;
    Random random(seed * 1'000'003u + index);
    for (size_t at = 0; at < tensor.count; ++at) {
      if (tensor.start == Start::normal)
        values[at] = static_cast<float>(deviation * random.normal());
      else
        values[at] = tensor.start == Start::ones ? 1.0f : 0.0f;
    }
  }
}

}  // namespace rondo::train
