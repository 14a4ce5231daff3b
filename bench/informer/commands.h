#pragma once

#include <string>

#include "operator/kube/client.h"
#include "operator/kube/informer.h"

// What bench/informer.py runs, each a command of kube-bench.
namespace janus::bench {

// Creates `count` pods of a worker's size in $JANUS_NAMESPACE, on the nodes fake-0 to fake-99.
void Fill(int count);
// Deletes every `step`-th of them.
void Thin(int count, int step);
// Writes the events of the pods there to `file`, one a line, until `count` pods were seen Running
// and `deletes` deleted.
void Record(const std::string& file, int count, int deletes);
// Changes a label of those that Thin left, one after the other, so often in all, as fast as the
// server takes it; writes to `log` what each became and when the server had answered. A JSON line
// of how fast that was.
void Churn(int count, int step, int writes, const std::string& log);
// Lists and watches them; a JSON line of what that cost when `count` are there.
void Follow(int count);
// Serves a list without pods, which it does not stream, and a watch that sends the events of a
// file, `rate` a second. A client that accepts protobuf, as client-go does, gets those of
// `protobuf`: the frames that a real server sent. Writes to `log` when each was due.
void Play(const std::string& json, const std::string& protobuf, double rate, int port,
          const std::string& log);
// Watches what Play serves on that port, or with 0 the pods of $KUBECONFIG's cluster; writes to
// `log` when each of `count` events was told.
void Hear(int port, int count, const std::string& log);

// $KUBECONFIG's cluster, without a limit of calls.
std::unique_ptr<control::KubeClient> MakeClient(const control::Timeline& timeline);
control::KubeClientOptions BenchClientOptions();
int64_t Nanoseconds(MonotonicTime time);
std::string BenchNamespace();
inline const control::Resource kPods{"", "v1", "pods", "Pod", true};
// What of a pod is kept; e2e/build/kube/clientgo keeps the same.
control::ObjectStoreOptions KeptOfPods();
control::ReflectorOptions PodOptions();

}  // namespace janus::bench
