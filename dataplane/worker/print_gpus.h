#pragma once

namespace janus::dataplane {

// Prints the GPUs that this build can use on this machine, as one line of JSON:
//   {"gpus": [{"id": "GPU-8a...", "name": "NVIDIA H200", "totalBytes": N, "freeBytes": N}, ...],
//    "why": "this build has no CUDA"}
// "why" is there if the list is empty. Returns an exit code: 0.
int PrintGpus();

}  // namespace janus::dataplane
