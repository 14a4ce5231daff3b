// The grouped expert FFN on a GPU: time over activated experts at shapes of real models, beside
// what the same machine reads from its memory and what an empty kernel takes. One JSON line per
// case in the file that --results names, flushed when the case ends; a case that stands there is
// not run again. Last a line per shape and number of rows with the fit t = a + b * experts.
//
// Weights are random and rotate through 4 GiB, rows and slots stay. Times are between two events
// round the call, medians of 30 calls that are all queued before the first is looked at.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "common/philox.h"
#include "kernels/cuda/expert_ffn.h"
#include "kernels/cuda/products.h"

namespace janus::kernels::cuda {
namespace {

constexpr int64_t kArenaBytes = int64_t{4} << 30;
constexpr int kCalls = 30;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::cerr << what << ": " << cudaGetErrorString(error) << '\n';
  std::exit(3);
}

// Uniform in [-scale, scale), 8 elements a thread.
__global__ void Fill(uint16_t* to, int64_t count, float scale, uint32_t seed) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (8 * i + 8 > count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {seed, 0});
  for (int j = 0; j < 8; ++j) {
    const auto half = static_cast<float>(words[j / 2] >> (16 * (j % 2)) & 0xFFFFu);
    to[8 * i + j] = ToBFloat16((half / 32768.0f - 1.0f) * scale);
  }
}

__global__ void Read(const uint4* from, int64_t count, uint32_t* out) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
#pragma unroll 8
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = from[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x5EED) *out = sum;  // so that the reads stay
}

__global__ void Empty() {}

template <class T>
T* Allocate(int64_t count) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T)), "memory of the device");
  return static_cast<T*>(memory);
}

template <class T>
T* CopyIn(const std::vector<T>& from) {
  T* const to = Allocate<T>(static_cast<int64_t>(from.size()));
  Check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return to;
}

// The median time of call(i), in microseconds.
template <class Call>
double Median(cudaStream_t stream, Call call) {
  for (int i = 0; i < 3; ++i) call(i);
  std::vector<cudaEvent_t> events(2 * kCalls);
  for (cudaEvent_t& event : events) Check(cudaEventCreate(&event), "event");
  for (int i = 0; i < kCalls; ++i) {
    Check(cudaEventRecord(events[2 * i], stream), "event");
    call(i + 3);
    Check(cudaEventRecord(events[2 * i + 1], stream), "event");
  }
  Check(cudaStreamSynchronize(stream), "the calls");
  std::vector<float> times(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    Check(cudaEventElapsedTime(&times[i], events[2 * i], events[2 * i + 1]), "event");
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  std::ranges::nth_element(times, times.begin() + kCalls / 2);
  return 1000.0 * times[kCalls / 2];
}

struct Shape {
  const char* name;
  int64_t hidden;
  int64_t intermediate;
};
constexpr Shape kShapes[] = {{"DeepSeek-V3", 7168, 2048}, {"DeepSeek-V2", 5120, 1536}};

class Results {
 public:
  explicit Results(const std::string& path) : path_(path), out_(path, std::ios::app) {}
  bool ok() const { return out_.good(); }
  // The number `key` in the line of a case; negative: there is none.
  double Find(const std::string& name, const std::string& key) const {
    std::ifstream file(path_);
    const std::string begin = "{\"bench\": \"" + name + "\",";
    const std::string field = " \"" + key + "\": ";
    for (std::string line; std::getline(file, line);) {
      const size_t at = line.find(field);
      if (line.starts_with(begin) && at != std::string::npos) {
        return std::atof(&line[at + field.size()]);
      }
    }
    return -1.0;
  }
  void Write(const std::string& name, const std::string& fields) {
    out_ << "{\"bench\": \"" << name << "\", " << fields << '}' << std::endl;
  }

 private:
  std::string path_;
  std::ofstream out_;
};

class Bench {
 public:
  explicit Bench(Results& results) : results_(results) {
    Check(cudaStreamCreate(&stream_), "stream");
    arena_ = Allocate<uint16_t>(kArenaBytes / 2);
    const int64_t threads = kArenaBytes / 16;
    Fill<<<static_cast<unsigned>(threads / 256), 256, 0, stream_>>>(arena_, kArenaBytes / 2, 0.02f,
                                                                    1);
    Check(cudaGetLastError(), "fill");
  }

  // What everything else is held against.
  void Limits() {
    const double empty = TimeOf("empty kernel", 0, [&](int) { Empty<<<1, 32, 0, stream_>>>(); });
    auto* const out = Allocate<uint32_t>(1);
    const int64_t bytes = int64_t{1} << 30;
    const double read = TimeOf("read 1 GiB", bytes, [&](int i) {
      const auto* const from = reinterpret_cast<const uint4*>(arena_) + i % 4 * (bytes / 16);
      Read<<<132 * 16, 512, 0, stream_>>>(from, bytes / 16, out);
    });
    read_bandwidth_ = static_cast<double>(bytes) / (read - empty);
    cudaFree(out);
  }

  // Its time in microseconds.
  double Experts(const Shape& shape, ExpertForm form, int experts, int rows_each) {
    const std::string name = std::string(shape.name) + " bf16 " +
                             (form == ExpertForm::kFast ? "fast" : "plain") + ", " +
                             std::to_string(experts) + " experts of " + std::to_string(rows_each);
    const int64_t rows = int64_t{experts} * rows_each;
    auto* const x = Allocate<uint16_t>(rows * shape.hidden);
    auto* const y = Allocate<uint16_t>(rows * shape.hidden);
    Fill<<<static_cast<unsigned>(rows * shape.hidden / 8 / 256 + 1), 256, 0, stream_>>>(
        x, rows * shape.hidden, 1.0f, 2);
    std::vector<Contribution> contributions;
    for (int64_t c = 0; c < rows; ++c) {
      contributions.push_back({x + c * shape.hidden, y + c * shape.hidden, 0.5f});
    }
    // A call's experts lie where no call of the last 4 GiB had one.
    const int64_t matrix = shape.hidden * shape.intermediate;
    const int64_t pieces = kArenaBytes / 2 / (3 * matrix);
    std::vector<ActiveExpert> active;
    for (int64_t i = 0; i < int64_t{kCalls + 3} * experts; ++i) {
      const uint16_t* const at = arena_ + i % pieces * (3 * matrix);
      active.push_back({at, at + matrix, at + 2 * matrix,
                        static_cast<int32_t>(i % experts * rows_each), rows_each});
    }
    auto* const all = CopyIn(active);
    const auto needs = GroupedExpertFfnWorkspace::For(rows, shape.intermediate, DType::kBFloat16);
    auto* const workspace = Allocate<char>(needs.bytes);
    GroupedExpertFfnArgs args{.contributions = CopyIn(contributions),
                              .num_experts = experts,
                              .num_contributions = rows,
                              .hidden = shape.hidden,
                              .intermediate = shape.intermediate,
                              .weight_dtype = DType::kBFloat16,
                              .row_dtype = DType::kBFloat16,
                              .y_dtype = DType::kBFloat16,
                              .workspace = workspace,
                              .workspace_bytes = needs.bytes};
    const double time = TimeOf(name, ExpertBytes(args, experts, rows), [&](int i) {
      args.experts = all + int64_t{i} * experts;
      const Status status =
          RunGroupedExpertFfn({.device = Device::kCuda, .native = stream_}, args, form);
      if (!status.ok()) {
        std::cerr << status.ToString() << '\n';
        std::exit(3);
      }
    });
    for (const void* memory :
         {static_cast<const void*>(x), static_cast<const void*>(y), static_cast<const void*>(all),
          static_cast<const void*>(workspace), static_cast<const void*>(args.contributions)}) {
      cudaFree(const_cast<void*>(memory));
    }
    return time;
  }

 private:
  template <class Call>
  double TimeOf(const std::string& name, int64_t bytes, Call call) {
    if (const double known = results_.Find(name, "us"); known >= 0.0) return known;
    const double time = Median(stream_, call);
    std::string fields =
        "\"us\": " + std::to_string(time) + ", \"bytes\": " + std::to_string(bytes);
    if (bytes > 0 && read_bandwidth_ > 0.0) {
      fields += ", \"share_of_read\": " +
                std::to_string(static_cast<double>(bytes) / time / read_bandwidth_);
    }
    results_.Write(name, fields);
    return time;
  }

  Results& results_;
  cudaStream_t stream_ = nullptr;
  uint16_t* arena_ = nullptr;
  double read_bandwidth_ = 0.0;  // bytes a microsecond, as measured
};

// Least squares of t = a + b * experts.
std::string FitOf(const std::vector<std::pair<int, double>>& points) {
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [x, y] : points) {
    n += 1;
    sum_x += x;
    sum_y += y;
    sum_xx += static_cast<double>(x) * x;
    sum_xy += x * y;
  }
  const double b = (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x);
  return "\"a_us\": " + std::to_string((sum_y - b * sum_x) / n) +
         ", \"b_us\": " + std::to_string(b);
}

int Main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--results") {
    std::cerr << "usage: " << argv[0] << " --results FILE\n";
    return 2;
  }
  cudaDeviceProp device{};
  Check(cudaGetDeviceProperties(&device, 0), "no GPU that can run this");
  Results results(argv[2]);
  if (!results.ok()) {
    std::cerr << "cannot write " << argv[2] << '\n';
    return 2;
  }
  results.Write("device", std::string("\"name\": \"") + device.name + "\"");
  Bench bench(results);
  bench.Limits();
  for (const int rows : {8, 1, 64, 16, 32}) {  // what says most, first
    for (const Shape& shape : kShapes) {
      std::vector<std::pair<int, double>> points;
      for (const int experts : {1, 2, 4, 8, 16, 32}) {
        points.emplace_back(experts, bench.Experts(shape, ExpertForm::kFast, experts, rows));
      }
      const std::string name =
          std::string(shape.name) + " bf16 fast, fit of experts of " + std::to_string(rows);
      if (results.Find(name, "b_us") < 0.0) results.Write(name, FitOf(points));
    }
  }
  for (const Shape& shape : kShapes) bench.Experts(shape, ExpertForm::kPlain, 8, 8);
  return 0;
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::Main(argc, argv);
}
