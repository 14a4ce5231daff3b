#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "kernels/kernels.h"

namespace janus::kernels {

// One operation on fixed data, seen as rows that can be computed together in any selection. All
// checks of parity and batch invariance are written once over it.
class RowProblem {
 public:
  virtual ~RowProblem() = default;
  virtual int rows() const = 0;
  virtual int row_elements() const = 0;  // of the output
  virtual DType output() const = 0;
  // Largest accepted |difference| over the largest |reference|.
  virtual double tolerance() const = 0;
  // Computes `selection`, in this order, in one call; the outputs, one after the other. Fails the
  // test if the call fails or writes beside its outputs.
  virtual std::vector<uint8_t> Run(const Stream& stream, std::span<const int> selection) const = 0;
};

// A stream of the device under test: a CPU stream with its own team, or a CUDA stream where these
// files are compiled for the CUDA kernels.
struct CpuStream {
  CpuStream(Isa isa, int threads);
  Team team;
  Stream stream;
};

// The instruction sets of this machine, lowest first.
std::vector<Isa> PresentIsas();

// Every instruction set against the reference: finite first, then one relative number.
void ExpectParity(const RowProblem& problem);
// Row alone, in pairs, in other orders, in chunks, on 1 to 3 threads: bitwise the same, on every
// instruction set.
void ExpectBatchInvariance(const RowProblem& problem);
// Every instruction set gives the same bits.
void ExpectSameBitsOnEveryIsa(const RowProblem& problem);

}  // namespace janus::kernels
