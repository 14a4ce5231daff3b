#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/error.h"
#include "operator/kube/object.h"
#include "operator/kube/resource.h"

namespace janus::control {

// What the store answers where it does not do as asked: the API server's codes and reasons (the
// Kubernetes API conventions, "Response Status Kind"), made into errors by the same function that
// reads a server's.

ApiError NoSuchResource(const Resource& resource);                         // 404
ApiError NoSuchObject(const Resource& resource, const std::string& name);  // 404
ApiError NameIsTaken(const Resource& resource, const std::string& name);   // 409 AlreadyExists
ApiError VersionConflict(const Resource& resource, const std::string& name,
                         std::string_view why);         // 409 Conflict
ApiError FieldConflicts(std::vector<ApiCause> causes);  // 409 Conflict
ApiError IsForbidden(const Resource& resource, const std::string& name,
                     std::string_view why);  // 403
ApiError BadRequest(std::string message);    // 400
// What a patch made cannot be read: 422, with the cause "patch".
ApiError UnreadablePatch(const std::string& why);
// What a patch or an apply gives is another one's uid: 422.
ApiError UidMayNotChange(const Resource& resource, const std::string& name, std::string_view uid);
// What is applied does not fit the schema: 500, surely not done.
ApiError NotTyped(const Resource& resource, const std::string& name, const std::string& why);
// A resourceVersion that is no number: 500, surely not done.
ApiError NoVersion(std::string_view version);
// Of a kind that is not updated blindly: 422.
ApiError VersionIsMissing(const Resource& resource, const std::string& name);
ApiError HasVersionAlready();  // of an object that is to be created: 500, surely not done
// The scale of a custom resource takes no apply: 500, surely not done.
ApiError NoApplyOfScale(const Resource& resource);
ApiError InvalidObject(const Resource& resource, const std::string& name,
                       std::vector<ApiCause> causes);       // 422
ApiError VersionIsTooOld(int64_t version, int64_t oldest);  // 410 Expired
ApiError VersionIsAhead(int64_t version, int64_t newest);   // 504 Timeout
ApiError IsTooLarge(size_t bytes, size_t most);             // 413
ApiError StoreIsFull(size_t most);                          // 500, surely not done
ApiError NoSuchSubresource(const Resource& resource, std::string_view subresource);  // 404

// The v1 Status that tells of an object gone.
Node DeletedStatus(const Resource& resource, const std::string& name, std::string_view uid);

}  // namespace janus::control
