#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"

namespace janus::cli {

// Objects of a service for people. Pure; `now` is for ages.

// One line per service, as the columns of the kind say: `kubectl get moesvc -o wide`.
std::string ServiceTable(const std::vector<control::Node>& services, WallTime now);
// One line per pod: READY, STATUS, RESTARTS as kubectl has them, and whether it is a member.
std::string PodTable(const std::vector<control::Node>& pods, WallTime now);
// One line per MoERoleScaler: what is asked for, and how many pods are members.
std::string ScalerTable(const std::vector<control::Node>& scalers, WallTime now);
// One line per MoETopology: the columns of the kind, and the members by role.
std::string TopologyTable(const std::vector<control::Node>& topologies, WallTime now);
// One line per Deployment, as kubectl has it.
std::string DeploymentTable(const std::vector<control::Node>& deployments, WallTime now);
// One line per event, oldest first.
std::string EventTable(const std::vector<control::Node>& events, WallTime now);

// A service, why it is as it is, its pods and what has happened.
std::string DescribeService(const control::Node& service, const std::vector<control::Node>& pods,
                            const std::vector<control::Node>& events, WallTime now);

// "5s", "3m20s", "2h5m", "4d", as kubectl.
std::string FormatAge(Seconds age);

}  // namespace janus::cli
