#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/model/description.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {

// A tensor to write to a safetensors file.
struct FileTensor {
  std::string dtype;  // the format's name: F32, BF16, ...
  std::vector<int64_t> shape;
  std::string bytes;
};
using FileTensors = std::map<std::string, FileTensor>;

// The bytes of a safetensors file.
std::string SafetensorsBytes(const FileTensors& tensors);
// The same from a header's text (which may be anything) and data.
std::string SafetensorsBytes(const std::string& header, const std::string& data);

FileTensor RandomTensor(DType dtype, std::vector<int64_t> shape, uint64_t seed);

// All tensors of a Mixtral with this description, in its dtype, with random values.
FileTensors MixtralTensors(const ModelDescription& model, uint64_t seed);

// Converts the tensors for which `is_chosen` is true, all matrices of Float32, to fp8 with scales,
// in the form of published checkpoints ("x.weight" and "x.weight_scale_inv"): the largest value of
// each block becomes 448.
FileTensors InFp8(FileTensors tensors,
                  const std::function<bool(const std::string& name)>& is_chosen);
// The numbers that these represent, without scales: in Float32, each product rounded.
FileTensors OutOfFp8(FileTensors tensors);

// Writes tensors as `shards` files with an index; no two neighbours lie in one file.
void WriteSharded(const TempFolder& folder, const FileTensors& tensors, int shards);

}  // namespace janus::dataplane
