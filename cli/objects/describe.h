#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"

namespace janus::cli {

// Formats the objects of a service for people. Pure; ages count up to `now`.

// One line per service, with the columns of `kubectl get moesvc -o wide`.
std::string ServiceTable(const std::vector<control::Node>& services, WallTime now);
// One line per pod: READY, STATUS and RESTARTS as in kubectl, and whether it is a member.
std::string PodTable(const std::vector<control::Node>& pods, WallTime now);
// One line per MoERoleScaler: the requested count, and how many pods are members.
std::string ScalerTable(const std::vector<control::Node>& scalers, WallTime now);
// One line per MoETopology: the columns of the kind, and the members by role.
std::string TopologyTable(const std::vector<control::Node>& topologies, WallTime now);
// One line per Deployment, with kubectl's columns.
std::string DeploymentTable(const std::vector<control::Node>& deployments, WallTime now);
// One line per event, oldest first.
std::string EventTable(const std::vector<control::Node>& events, WallTime now);

// A service, the reasons for its state, its pods and its events.
std::string DescribeService(const control::Node& service, const std::vector<control::Node>& pods,
                            const std::vector<control::Node>& events, WallTime now);

// "5s", "3m20s", "2h5m", "4d", as in kubectl.
std::string FormatAge(Seconds age);

}  // namespace janus::cli
