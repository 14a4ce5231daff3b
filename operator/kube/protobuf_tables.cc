// Made by e2e/build/kube/protobuftables of the Go types of
// k8s.io/api v0.35.4, k8s.io/apimachinery v0.35.4
// (Apache-2.0); not to be edited.
// clang-format off
#include "operator/kube/protobuf_tables.h"

namespace janus::control {
namespace {

using T = ProtobufType;
using S = ProtobufShape;
using A = ProtobufAbsent;

constexpr ProtobufField kOwnerReferenceFields[] = {
    {5, "apiVersion", T::kString, S::kOne, A::kZero},
    {1, "kind", T::kString, S::kOne, A::kZero},
    {3, "name", T::kString, S::kOne, A::kZero},
    {4, "uid", T::kString, S::kOne, A::kZero},
    {6, "controller", T::kBool, S::kOne, A::kLeftOut},
    {7, "blockOwnerDeletion", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kOwnerReference{kOwnerReferenceFields};
constexpr ProtobufField kManagedFieldsEntryFields[] = {
    {1, "manager", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "operation", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "apiVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "time", T::kTime, S::kOne, A::kLeftOut},
    {6, "fieldsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "fieldsV1", T::kJson, S::kOne, A::kLeftOut},
    {8, "subresource", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kManagedFieldsEntry{kManagedFieldsEntryFields};
constexpr ProtobufField kObjectMetaFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "generateName", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "namespace", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "selfLink", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "uid", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "resourceVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "generation", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {8, "creationTimestamp", T::kTime, S::kOne, A::kLeftOutIfZero},
    {9, "deletionTimestamp", T::kTime, S::kOne, A::kLeftOut},
    {10, "deletionGracePeriodSeconds", T::kInteger, S::kOne, A::kLeftOut},
    {11, "labels", T::kString, S::kMap, A::kLeftOut},
    {12, "annotations", T::kString, S::kMap, A::kLeftOut},
    {13, "ownerReferences", T::kMessage, S::kList, A::kLeftOut, &kOwnerReference},
    {14, "finalizers", T::kString, S::kList, A::kLeftOut},
    {17, "managedFields", T::kMessage, S::kList, A::kLeftOut, &kManagedFieldsEntry}};
constexpr ProtobufMessage kObjectMeta{kObjectMetaFields};
constexpr ProtobufField kConfigMapFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {4, "immutable", T::kBool, S::kOne, A::kLeftOut},
    {2, "data", T::kString, S::kMap, A::kLeftOut},
    {3, "binaryData", T::kBytes, S::kMap, A::kLeftOut}};
constexpr ProtobufMessage kConfigMap{kConfigMapFields};
constexpr ProtobufField kListMetaFields[] = {
    {1, "selfLink", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "resourceVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "continue", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "remainingItemCount", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kListMeta{kListMetaFields};
constexpr ProtobufField kConfigMapListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kConfigMap}};
constexpr ProtobufMessage kConfigMapList{kConfigMapListFields};
constexpr ProtobufField kTaintFields[] = {
    {1, "key", T::kString, S::kOne, A::kZero},
    {2, "value", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "effect", T::kString, S::kOne, A::kZero},
    {4, "timeAdded", T::kTime, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kTaint{kTaintFields};
constexpr ProtobufField kConfigMapNodeConfigSourceFields[] = {
    {1, "namespace", T::kString, S::kOne, A::kZero},
    {2, "name", T::kString, S::kOne, A::kZero},
    {3, "uid", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "resourceVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "kubeletConfigKey", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kConfigMapNodeConfigSource{kConfigMapNodeConfigSourceFields};
constexpr ProtobufField kNodeConfigSourceFields[] = {
    {2, "configMap", T::kMessage, S::kOne, A::kLeftOut, &kConfigMapNodeConfigSource}};
constexpr ProtobufMessage kNodeConfigSource{kNodeConfigSourceFields};
constexpr ProtobufField kNodeSpecFields[] = {
    {1, "podCIDR", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "podCIDRs", T::kString, S::kList, A::kLeftOut},
    {3, "providerID", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "unschedulable", T::kBool, S::kOne, A::kLeftOutIfZero},
    {5, "taints", T::kMessage, S::kList, A::kLeftOut, &kTaint},
    {6, "configSource", T::kMessage, S::kOne, A::kLeftOut, &kNodeConfigSource},
    {2, "externalID", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kNodeSpec{kNodeSpecFields};
constexpr ProtobufField kNodeConditionFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "status", T::kString, S::kOne, A::kZero},
    {3, "lastHeartbeatTime", T::kTime, S::kOne, A::kZero},
    {4, "lastTransitionTime", T::kTime, S::kOne, A::kZero},
    {5, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "message", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kNodeCondition{kNodeConditionFields};
constexpr ProtobufField kNodeAddressFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "address", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kNodeAddress{kNodeAddressFields};
constexpr ProtobufField kDaemonEndpointFields[] = {
    {1, "Port", T::kInteger, S::kOne, A::kZero}};
constexpr ProtobufMessage kDaemonEndpoint{kDaemonEndpointFields};
constexpr ProtobufField kNodeDaemonEndpointsFields[] = {
    {1, "kubeletEndpoint", T::kMessage, S::kOne, A::kZero, &kDaemonEndpoint}};
constexpr ProtobufMessage kNodeDaemonEndpoints{kNodeDaemonEndpointsFields};
constexpr ProtobufField kNodeSwapStatusFields[] = {
    {1, "capacity", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kNodeSwapStatus{kNodeSwapStatusFields};
constexpr ProtobufField kNodeSystemInfoFields[] = {
    {1, "machineID", T::kString, S::kOne, A::kZero},
    {2, "systemUUID", T::kString, S::kOne, A::kZero},
    {3, "bootID", T::kString, S::kOne, A::kZero},
    {4, "kernelVersion", T::kString, S::kOne, A::kZero},
    {5, "osImage", T::kString, S::kOne, A::kZero},
    {6, "containerRuntimeVersion", T::kString, S::kOne, A::kZero},
    {7, "kubeletVersion", T::kString, S::kOne, A::kZero},
    {8, "kubeProxyVersion", T::kString, S::kOne, A::kZero},
    {9, "operatingSystem", T::kString, S::kOne, A::kZero},
    {10, "architecture", T::kString, S::kOne, A::kZero},
    {11, "swap", T::kMessage, S::kOne, A::kLeftOut, &kNodeSwapStatus}};
constexpr ProtobufMessage kNodeSystemInfo{kNodeSystemInfoFields};
constexpr ProtobufField kContainerImageFields[] = {
    {1, "names", T::kString, S::kList, A::kNull},
    {2, "sizeBytes", T::kInteger, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kContainerImage{kContainerImageFields};
constexpr ProtobufField kAttachedVolumeFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "devicePath", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kAttachedVolume{kAttachedVolumeFields};
constexpr ProtobufField kNodeConfigStatusFields[] = {
    {1, "assigned", T::kMessage, S::kOne, A::kLeftOut, &kNodeConfigSource},
    {2, "active", T::kMessage, S::kOne, A::kLeftOut, &kNodeConfigSource},
    {3, "lastKnownGood", T::kMessage, S::kOne, A::kLeftOut, &kNodeConfigSource},
    {4, "error", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kNodeConfigStatus{kNodeConfigStatusFields};
constexpr ProtobufField kNodeRuntimeHandlerFeaturesFields[] = {
    {1, "recursiveReadOnlyMounts", T::kBool, S::kOne, A::kLeftOut},
    {2, "userNamespaces", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kNodeRuntimeHandlerFeatures{kNodeRuntimeHandlerFeaturesFields};
constexpr ProtobufField kNodeRuntimeHandlerFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "features", T::kMessage, S::kOne, A::kLeftOut, &kNodeRuntimeHandlerFeatures}};
constexpr ProtobufMessage kNodeRuntimeHandler{kNodeRuntimeHandlerFields};
constexpr ProtobufField kNodeFeaturesFields[] = {
    {1, "supplementalGroupsPolicy", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kNodeFeatures{kNodeFeaturesFields};
constexpr ProtobufField kNodeStatusFields[] = {
    {1, "capacity", T::kQuantity, S::kMap, A::kLeftOut},
    {2, "allocatable", T::kQuantity, S::kMap, A::kLeftOut},
    {3, "phase", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "conditions", T::kMessage, S::kList, A::kLeftOut, &kNodeCondition},
    {5, "addresses", T::kMessage, S::kList, A::kLeftOut, &kNodeAddress},
    {6, "daemonEndpoints", T::kMessage, S::kOne, A::kZero, &kNodeDaemonEndpoints},
    {7, "nodeInfo", T::kMessage, S::kOne, A::kZero, &kNodeSystemInfo},
    {8, "images", T::kMessage, S::kList, A::kLeftOut, &kContainerImage},
    {9, "volumesInUse", T::kString, S::kList, A::kLeftOut},
    {10, "volumesAttached", T::kMessage, S::kList, A::kLeftOut, &kAttachedVolume},
    {11, "config", T::kMessage, S::kOne, A::kLeftOut, &kNodeConfigStatus},
    {12, "runtimeHandlers", T::kMessage, S::kList, A::kLeftOut, &kNodeRuntimeHandler},
    {13, "features", T::kMessage, S::kOne, A::kLeftOut, &kNodeFeatures},
    {14, "declaredFeatures", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kNodeStatus{kNodeStatusFields};
constexpr ProtobufField kNodeFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kNodeSpec},
    {3, "status", T::kMessage, S::kOne, A::kZero, &kNodeStatus}};
constexpr ProtobufMessage kNode{kNodeFields};
constexpr ProtobufField kNodeListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kNode}};
constexpr ProtobufMessage kNodeList{kNodeListFields};
constexpr ProtobufField kHostPathVolumeSourceFields[] = {
    {1, "path", T::kString, S::kOne, A::kZero},
    {2, "type", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kHostPathVolumeSource{kHostPathVolumeSourceFields};
constexpr ProtobufField kEmptyDirVolumeSourceFields[] = {
    {1, "medium", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "sizeLimit", T::kQuantity, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kEmptyDirVolumeSource{kEmptyDirVolumeSourceFields};
constexpr ProtobufField kGCEPersistentDiskVolumeSourceFields[] = {
    {1, "pdName", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "partition", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {4, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kGCEPersistentDiskVolumeSource{kGCEPersistentDiskVolumeSourceFields};
constexpr ProtobufField kAWSElasticBlockStoreVolumeSourceFields[] = {
    {1, "volumeID", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "partition", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {4, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kAWSElasticBlockStoreVolumeSource{kAWSElasticBlockStoreVolumeSourceFields};
constexpr ProtobufField kGitRepoVolumeSourceFields[] = {
    {1, "repository", T::kString, S::kOne, A::kZero},
    {2, "revision", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "directory", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kGitRepoVolumeSource{kGitRepoVolumeSourceFields};
constexpr ProtobufField kKeyToPathFields[] = {
    {1, "key", T::kString, S::kOne, A::kZero},
    {2, "path", T::kString, S::kOne, A::kZero},
    {3, "mode", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kKeyToPath{kKeyToPathFields};
constexpr ProtobufField kSecretVolumeSourceFields[] = {
    {1, "secretName", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "items", T::kMessage, S::kList, A::kLeftOut, &kKeyToPath},
    {3, "defaultMode", T::kInteger, S::kOne, A::kLeftOut},
    {4, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kSecretVolumeSource{kSecretVolumeSourceFields};
constexpr ProtobufField kNFSVolumeSourceFields[] = {
    {1, "server", T::kString, S::kOne, A::kZero},
    {2, "path", T::kString, S::kOne, A::kZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kNFSVolumeSource{kNFSVolumeSourceFields};
constexpr ProtobufField kLocalObjectReferenceFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kLocalObjectReference{kLocalObjectReferenceFields};
constexpr ProtobufField kISCSIVolumeSourceFields[] = {
    {1, "targetPortal", T::kString, S::kOne, A::kZero},
    {2, "iqn", T::kString, S::kOne, A::kZero},
    {3, "lun", T::kInteger, S::kOne, A::kZero},
    {4, "iscsiInterface", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {7, "portals", T::kString, S::kList, A::kLeftOut},
    {8, "chapAuthDiscovery", T::kBool, S::kOne, A::kLeftOutIfZero},
    {11, "chapAuthSession", T::kBool, S::kOne, A::kLeftOutIfZero},
    {10, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference},
    {12, "initiatorName", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kISCSIVolumeSource{kISCSIVolumeSourceFields};
constexpr ProtobufField kGlusterfsVolumeSourceFields[] = {
    {1, "endpoints", T::kString, S::kOne, A::kZero},
    {2, "path", T::kString, S::kOne, A::kZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kGlusterfsVolumeSource{kGlusterfsVolumeSourceFields};
constexpr ProtobufField kPersistentVolumeClaimVolumeSourceFields[] = {
    {1, "claimName", T::kString, S::kOne, A::kZero},
    {2, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kPersistentVolumeClaimVolumeSource{kPersistentVolumeClaimVolumeSourceFields};
constexpr ProtobufField kRBDVolumeSourceFields[] = {
    {1, "monitors", T::kString, S::kList, A::kNull},
    {2, "image", T::kString, S::kOne, A::kZero},
    {3, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "pool", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "user", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "keyring", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference},
    {8, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kRBDVolumeSource{kRBDVolumeSourceFields};
constexpr ProtobufField kFlexVolumeSourceFields[] = {
    {1, "driver", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference},
    {4, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {5, "options", T::kString, S::kMap, A::kLeftOut}};
constexpr ProtobufMessage kFlexVolumeSource{kFlexVolumeSourceFields};
constexpr ProtobufField kCinderVolumeSourceFields[] = {
    {1, "volumeID", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {4, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference}};
constexpr ProtobufMessage kCinderVolumeSource{kCinderVolumeSourceFields};
constexpr ProtobufField kCephFSVolumeSourceFields[] = {
    {1, "monitors", T::kString, S::kList, A::kNull},
    {2, "path", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "user", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "secretFile", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference},
    {6, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kCephFSVolumeSource{kCephFSVolumeSourceFields};
constexpr ProtobufField kFlockerVolumeSourceFields[] = {
    {1, "datasetName", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "datasetUUID", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kFlockerVolumeSource{kFlockerVolumeSourceFields};
constexpr ProtobufField kObjectFieldSelectorFields[] = {
    {1, "apiVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "fieldPath", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kObjectFieldSelector{kObjectFieldSelectorFields};
constexpr ProtobufField kResourceFieldSelectorFields[] = {
    {1, "containerName", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "resource", T::kString, S::kOne, A::kZero},
    {3, "divisor", T::kQuantity, S::kOne, A::kZero}};
constexpr ProtobufMessage kResourceFieldSelector{kResourceFieldSelectorFields};
constexpr ProtobufField kDownwardAPIVolumeFileFields[] = {
    {1, "path", T::kString, S::kOne, A::kZero},
    {2, "fieldRef", T::kMessage, S::kOne, A::kLeftOut, &kObjectFieldSelector},
    {3, "resourceFieldRef", T::kMessage, S::kOne, A::kLeftOut, &kResourceFieldSelector},
    {4, "mode", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kDownwardAPIVolumeFile{kDownwardAPIVolumeFileFields};
constexpr ProtobufField kDownwardAPIVolumeSourceFields[] = {
    {1, "items", T::kMessage, S::kList, A::kLeftOut, &kDownwardAPIVolumeFile},
    {2, "defaultMode", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kDownwardAPIVolumeSource{kDownwardAPIVolumeSourceFields};
constexpr ProtobufField kFCVolumeSourceFields[] = {
    {1, "targetWWNs", T::kString, S::kList, A::kLeftOut},
    {2, "lun", T::kInteger, S::kOne, A::kLeftOut},
    {3, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {5, "wwids", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kFCVolumeSource{kFCVolumeSourceFields};
constexpr ProtobufField kAzureFileVolumeSourceFields[] = {
    {1, "secretName", T::kString, S::kOne, A::kZero},
    {2, "shareName", T::kString, S::kOne, A::kZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kAzureFileVolumeSource{kAzureFileVolumeSourceFields};
constexpr ProtobufField kConfigMapVolumeSourceFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "items", T::kMessage, S::kList, A::kLeftOut, &kKeyToPath},
    {3, "defaultMode", T::kInteger, S::kOne, A::kLeftOut},
    {4, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kConfigMapVolumeSource{kConfigMapVolumeSourceFields};
constexpr ProtobufField kVsphereVirtualDiskVolumeSourceFields[] = {
    {1, "volumePath", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "storagePolicyName", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "storagePolicyID", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kVsphereVirtualDiskVolumeSource{kVsphereVirtualDiskVolumeSourceFields};
constexpr ProtobufField kQuobyteVolumeSourceFields[] = {
    {1, "registry", T::kString, S::kOne, A::kZero},
    {2, "volume", T::kString, S::kOne, A::kZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {4, "user", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "group", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "tenant", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kQuobyteVolumeSource{kQuobyteVolumeSourceFields};
constexpr ProtobufField kAzureDiskVolumeSourceFields[] = {
    {1, "diskName", T::kString, S::kOne, A::kZero},
    {2, "diskURI", T::kString, S::kOne, A::kZero},
    {3, "cachingMode", T::kString, S::kOne, A::kLeftOut},
    {4, "fsType", T::kString, S::kOne, A::kLeftOut},
    {5, "readOnly", T::kBool, S::kOne, A::kLeftOut},
    {6, "kind", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kAzureDiskVolumeSource{kAzureDiskVolumeSourceFields};
constexpr ProtobufField kPhotonPersistentDiskVolumeSourceFields[] = {
    {1, "pdID", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kPhotonPersistentDiskVolumeSource{kPhotonPersistentDiskVolumeSourceFields};
constexpr ProtobufField kSecretProjectionFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "items", T::kMessage, S::kList, A::kLeftOut, &kKeyToPath},
    {4, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kSecretProjection{kSecretProjectionFields};
constexpr ProtobufField kDownwardAPIProjectionFields[] = {
    {1, "items", T::kMessage, S::kList, A::kLeftOut, &kDownwardAPIVolumeFile}};
constexpr ProtobufMessage kDownwardAPIProjection{kDownwardAPIProjectionFields};
constexpr ProtobufField kConfigMapProjectionFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "items", T::kMessage, S::kList, A::kLeftOut, &kKeyToPath},
    {4, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kConfigMapProjection{kConfigMapProjectionFields};
constexpr ProtobufField kServiceAccountTokenProjectionFields[] = {
    {1, "audience", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "expirationSeconds", T::kInteger, S::kOne, A::kLeftOut},
    {3, "path", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kServiceAccountTokenProjection{kServiceAccountTokenProjectionFields};
constexpr ProtobufField kLabelSelectorRequirementFields[] = {
    {1, "key", T::kString, S::kOne, A::kZero},
    {2, "operator", T::kString, S::kOne, A::kZero},
    {3, "values", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kLabelSelectorRequirement{kLabelSelectorRequirementFields};
constexpr ProtobufField kLabelSelectorFields[] = {
    {1, "matchLabels", T::kString, S::kMap, A::kLeftOut},
    {2, "matchExpressions", T::kMessage, S::kList, A::kLeftOut, &kLabelSelectorRequirement}};
constexpr ProtobufMessage kLabelSelector{kLabelSelectorFields};
constexpr ProtobufField kClusterTrustBundleProjectionFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOut},
    {2, "signerName", T::kString, S::kOne, A::kLeftOut},
    {3, "labelSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {5, "optional", T::kBool, S::kOne, A::kLeftOut},
    {4, "path", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kClusterTrustBundleProjection{kClusterTrustBundleProjectionFields};
constexpr ProtobufField kPodCertificateProjectionFields[] = {
    {1, "signerName", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "keyType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "maxExpirationSeconds", T::kInteger, S::kOne, A::kLeftOut},
    {4, "credentialBundlePath", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "keyPath", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "certificateChainPath", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "userAnnotations", T::kString, S::kMap, A::kLeftOut}};
constexpr ProtobufMessage kPodCertificateProjection{kPodCertificateProjectionFields};
constexpr ProtobufField kVolumeProjectionFields[] = {
    {1, "secret", T::kMessage, S::kOne, A::kLeftOut, &kSecretProjection},
    {2, "downwardAPI", T::kMessage, S::kOne, A::kLeftOut, &kDownwardAPIProjection},
    {3, "configMap", T::kMessage, S::kOne, A::kLeftOut, &kConfigMapProjection},
    {4, "serviceAccountToken", T::kMessage, S::kOne, A::kLeftOut, &kServiceAccountTokenProjection},
    {5, "clusterTrustBundle", T::kMessage, S::kOne, A::kLeftOut, &kClusterTrustBundleProjection},
    {6, "podCertificate", T::kMessage, S::kOne, A::kLeftOut, &kPodCertificateProjection}};
constexpr ProtobufMessage kVolumeProjection{kVolumeProjectionFields};
constexpr ProtobufField kProjectedVolumeSourceFields[] = {
    {1, "sources", T::kMessage, S::kList, A::kNull, &kVolumeProjection},
    {2, "defaultMode", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kProjectedVolumeSource{kProjectedVolumeSourceFields};
constexpr ProtobufField kPortworxVolumeSourceFields[] = {
    {1, "volumeID", T::kString, S::kOne, A::kZero},
    {2, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kPortworxVolumeSource{kPortworxVolumeSourceFields};
constexpr ProtobufField kScaleIOVolumeSourceFields[] = {
    {1, "gateway", T::kString, S::kOne, A::kZero},
    {2, "system", T::kString, S::kOne, A::kZero},
    {3, "secretRef", T::kMessage, S::kOne, A::kNull, &kLocalObjectReference},
    {4, "sslEnabled", T::kBool, S::kOne, A::kLeftOutIfZero},
    {5, "protectionDomain", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "storagePool", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "storageMode", T::kString, S::kOne, A::kLeftOutIfZero},
    {8, "volumeName", T::kString, S::kOne, A::kLeftOutIfZero},
    {9, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {10, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kScaleIOVolumeSource{kScaleIOVolumeSourceFields};
constexpr ProtobufField kStorageOSVolumeSourceFields[] = {
    {1, "volumeName", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "volumeNamespace", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "fsType", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {5, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference}};
constexpr ProtobufMessage kStorageOSVolumeSource{kStorageOSVolumeSourceFields};
constexpr ProtobufField kCSIVolumeSourceFields[] = {
    {1, "driver", T::kString, S::kOne, A::kZero},
    {2, "readOnly", T::kBool, S::kOne, A::kLeftOut},
    {3, "fsType", T::kString, S::kOne, A::kLeftOut},
    {4, "volumeAttributes", T::kString, S::kMap, A::kLeftOut},
    {5, "nodePublishSecretRef", T::kMessage, S::kOne, A::kLeftOut, &kLocalObjectReference}};
constexpr ProtobufMessage kCSIVolumeSource{kCSIVolumeSourceFields};
constexpr ProtobufField kVolumeResourceRequirementsFields[] = {
    {1, "limits", T::kQuantity, S::kMap, A::kLeftOut},
    {2, "requests", T::kQuantity, S::kMap, A::kLeftOut}};
constexpr ProtobufMessage kVolumeResourceRequirements{kVolumeResourceRequirementsFields};
constexpr ProtobufField kTypedLocalObjectReferenceFields[] = {
    {1, "apiGroup", T::kString, S::kOne, A::kNull},
    {2, "kind", T::kString, S::kOne, A::kZero},
    {3, "name", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kTypedLocalObjectReference{kTypedLocalObjectReferenceFields};
constexpr ProtobufField kTypedObjectReferenceFields[] = {
    {1, "apiGroup", T::kString, S::kOne, A::kNull},
    {2, "kind", T::kString, S::kOne, A::kZero},
    {3, "name", T::kString, S::kOne, A::kZero},
    {4, "namespace", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kTypedObjectReference{kTypedObjectReferenceFields};
constexpr ProtobufField kPersistentVolumeClaimSpecFields[] = {
    {1, "accessModes", T::kString, S::kList, A::kLeftOut},
    {4, "selector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {2, "resources", T::kMessage, S::kOne, A::kZero, &kVolumeResourceRequirements},
    {3, "volumeName", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "storageClassName", T::kString, S::kOne, A::kLeftOut},
    {6, "volumeMode", T::kString, S::kOne, A::kLeftOut},
    {7, "dataSource", T::kMessage, S::kOne, A::kLeftOut, &kTypedLocalObjectReference},
    {8, "dataSourceRef", T::kMessage, S::kOne, A::kLeftOut, &kTypedObjectReference},
    {9, "volumeAttributesClassName", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPersistentVolumeClaimSpec{kPersistentVolumeClaimSpecFields};
constexpr ProtobufField kPersistentVolumeClaimTemplateFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kPersistentVolumeClaimSpec}};
constexpr ProtobufMessage kPersistentVolumeClaimTemplate{kPersistentVolumeClaimTemplateFields};
constexpr ProtobufField kEphemeralVolumeSourceFields[] = {
    {1, "volumeClaimTemplate", T::kMessage, S::kOne, A::kLeftOut, &kPersistentVolumeClaimTemplate}};
constexpr ProtobufMessage kEphemeralVolumeSource{kEphemeralVolumeSourceFields};
constexpr ProtobufField kImageVolumeSourceFields[] = {
    {1, "reference", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "pullPolicy", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kImageVolumeSource{kImageVolumeSourceFields};
constexpr ProtobufField kVolumeSourceFields[] = {
    {1, "hostPath", T::kMessage, S::kOne, A::kLeftOut, &kHostPathVolumeSource},
    {2, "emptyDir", T::kMessage, S::kOne, A::kLeftOut, &kEmptyDirVolumeSource},
    {3, "gcePersistentDisk", T::kMessage, S::kOne, A::kLeftOut, &kGCEPersistentDiskVolumeSource},
    {4, "awsElasticBlockStore", T::kMessage, S::kOne, A::kLeftOut, &kAWSElasticBlockStoreVolumeSource},
    {5, "gitRepo", T::kMessage, S::kOne, A::kLeftOut, &kGitRepoVolumeSource},
    {6, "secret", T::kMessage, S::kOne, A::kLeftOut, &kSecretVolumeSource},
    {7, "nfs", T::kMessage, S::kOne, A::kLeftOut, &kNFSVolumeSource},
    {8, "iscsi", T::kMessage, S::kOne, A::kLeftOut, &kISCSIVolumeSource},
    {9, "glusterfs", T::kMessage, S::kOne, A::kLeftOut, &kGlusterfsVolumeSource},
    {10, "persistentVolumeClaim", T::kMessage, S::kOne, A::kLeftOut, &kPersistentVolumeClaimVolumeSource},
    {11, "rbd", T::kMessage, S::kOne, A::kLeftOut, &kRBDVolumeSource},
    {12, "flexVolume", T::kMessage, S::kOne, A::kLeftOut, &kFlexVolumeSource},
    {13, "cinder", T::kMessage, S::kOne, A::kLeftOut, &kCinderVolumeSource},
    {14, "cephfs", T::kMessage, S::kOne, A::kLeftOut, &kCephFSVolumeSource},
    {15, "flocker", T::kMessage, S::kOne, A::kLeftOut, &kFlockerVolumeSource},
    {16, "downwardAPI", T::kMessage, S::kOne, A::kLeftOut, &kDownwardAPIVolumeSource},
    {17, "fc", T::kMessage, S::kOne, A::kLeftOut, &kFCVolumeSource},
    {18, "azureFile", T::kMessage, S::kOne, A::kLeftOut, &kAzureFileVolumeSource},
    {19, "configMap", T::kMessage, S::kOne, A::kLeftOut, &kConfigMapVolumeSource},
    {20, "vsphereVolume", T::kMessage, S::kOne, A::kLeftOut, &kVsphereVirtualDiskVolumeSource},
    {21, "quobyte", T::kMessage, S::kOne, A::kLeftOut, &kQuobyteVolumeSource},
    {22, "azureDisk", T::kMessage, S::kOne, A::kLeftOut, &kAzureDiskVolumeSource},
    {23, "photonPersistentDisk", T::kMessage, S::kOne, A::kLeftOut, &kPhotonPersistentDiskVolumeSource},
    {26, "projected", T::kMessage, S::kOne, A::kLeftOut, &kProjectedVolumeSource},
    {24, "portworxVolume", T::kMessage, S::kOne, A::kLeftOut, &kPortworxVolumeSource},
    {25, "scaleIO", T::kMessage, S::kOne, A::kLeftOut, &kScaleIOVolumeSource},
    {27, "storageos", T::kMessage, S::kOne, A::kLeftOut, &kStorageOSVolumeSource},
    {28, "csi", T::kMessage, S::kOne, A::kLeftOut, &kCSIVolumeSource},
    {29, "ephemeral", T::kMessage, S::kOne, A::kLeftOut, &kEphemeralVolumeSource},
    {30, "image", T::kMessage, S::kOne, A::kLeftOut, &kImageVolumeSource}};
constexpr ProtobufMessage kVolumeSource{kVolumeSourceFields};
constexpr ProtobufField kVolumeFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "", T::kMessage, S::kInline, A::kZero, &kVolumeSource}};
constexpr ProtobufMessage kVolume{kVolumeFields};
constexpr ProtobufField kContainerPortFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "hostPort", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {3, "containerPort", T::kInteger, S::kOne, A::kZero},
    {4, "protocol", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "hostIP", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kContainerPort{kContainerPortFields};
constexpr ProtobufField kConfigMapEnvSourceFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kConfigMapEnvSource{kConfigMapEnvSourceFields};
constexpr ProtobufField kSecretEnvSourceFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kSecretEnvSource{kSecretEnvSourceFields};
constexpr ProtobufField kEnvFromSourceFields[] = {
    {1, "prefix", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "configMapRef", T::kMessage, S::kOne, A::kLeftOut, &kConfigMapEnvSource},
    {3, "secretRef", T::kMessage, S::kOne, A::kLeftOut, &kSecretEnvSource}};
constexpr ProtobufMessage kEnvFromSource{kEnvFromSourceFields};
constexpr ProtobufField kConfigMapKeySelectorFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "key", T::kString, S::kOne, A::kZero},
    {3, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kConfigMapKeySelector{kConfigMapKeySelectorFields};
constexpr ProtobufField kSecretKeySelectorFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kLocalObjectReference},
    {2, "key", T::kString, S::kOne, A::kZero},
    {3, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kSecretKeySelector{kSecretKeySelectorFields};
constexpr ProtobufField kFileKeySelectorFields[] = {
    {1, "volumeName", T::kString, S::kOne, A::kZero},
    {2, "path", T::kString, S::kOne, A::kZero},
    {3, "key", T::kString, S::kOne, A::kZero},
    {4, "optional", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kFileKeySelector{kFileKeySelectorFields};
constexpr ProtobufField kEnvVarSourceFields[] = {
    {1, "fieldRef", T::kMessage, S::kOne, A::kLeftOut, &kObjectFieldSelector},
    {2, "resourceFieldRef", T::kMessage, S::kOne, A::kLeftOut, &kResourceFieldSelector},
    {3, "configMapKeyRef", T::kMessage, S::kOne, A::kLeftOut, &kConfigMapKeySelector},
    {4, "secretKeyRef", T::kMessage, S::kOne, A::kLeftOut, &kSecretKeySelector},
    {5, "fileKeyRef", T::kMessage, S::kOne, A::kLeftOut, &kFileKeySelector}};
constexpr ProtobufMessage kEnvVarSource{kEnvVarSourceFields};
constexpr ProtobufField kEnvVarFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "value", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "valueFrom", T::kMessage, S::kOne, A::kLeftOut, &kEnvVarSource}};
constexpr ProtobufMessage kEnvVar{kEnvVarFields};
constexpr ProtobufField kResourceClaimFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "request", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kResourceClaim{kResourceClaimFields};
constexpr ProtobufField kResourceRequirementsFields[] = {
    {1, "limits", T::kQuantity, S::kMap, A::kLeftOut},
    {2, "requests", T::kQuantity, S::kMap, A::kLeftOut},
    {3, "claims", T::kMessage, S::kList, A::kLeftOut, &kResourceClaim}};
constexpr ProtobufMessage kResourceRequirements{kResourceRequirementsFields};
constexpr ProtobufField kContainerResizePolicyFields[] = {
    {1, "resourceName", T::kString, S::kOne, A::kZero},
    {2, "restartPolicy", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kContainerResizePolicy{kContainerResizePolicyFields};
constexpr ProtobufField kContainerRestartRuleOnExitCodesFields[] = {
    {1, "operator", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "values", T::kInteger, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kContainerRestartRuleOnExitCodes{kContainerRestartRuleOnExitCodesFields};
constexpr ProtobufField kContainerRestartRuleFields[] = {
    {1, "action", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "exitCodes", T::kMessage, S::kOne, A::kLeftOut, &kContainerRestartRuleOnExitCodes}};
constexpr ProtobufMessage kContainerRestartRule{kContainerRestartRuleFields};
constexpr ProtobufField kVolumeMountFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {7, "recursiveReadOnly", T::kString, S::kOne, A::kLeftOut},
    {3, "mountPath", T::kString, S::kOne, A::kZero},
    {4, "subPath", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "mountPropagation", T::kString, S::kOne, A::kLeftOut},
    {6, "subPathExpr", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kVolumeMount{kVolumeMountFields};
constexpr ProtobufField kVolumeDeviceFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "devicePath", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kVolumeDevice{kVolumeDeviceFields};
constexpr ProtobufField kExecActionFields[] = {
    {1, "command", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kExecAction{kExecActionFields};
constexpr ProtobufField kHTTPHeaderFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "value", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kHTTPHeader{kHTTPHeaderFields};
constexpr ProtobufField kHTTPGetActionFields[] = {
    {1, "path", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "port", T::kIntOrString, S::kOne, A::kZero},
    {3, "host", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "scheme", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "httpHeaders", T::kMessage, S::kList, A::kLeftOut, &kHTTPHeader}};
constexpr ProtobufMessage kHTTPGetAction{kHTTPGetActionFields};
constexpr ProtobufField kTCPSocketActionFields[] = {
    {1, "port", T::kIntOrString, S::kOne, A::kZero},
    {2, "host", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kTCPSocketAction{kTCPSocketActionFields};
constexpr ProtobufField kGRPCActionFields[] = {
    {1, "port", T::kInteger, S::kOne, A::kZero},
    {2, "service", T::kString, S::kOne, A::kNull}};
constexpr ProtobufMessage kGRPCAction{kGRPCActionFields};
constexpr ProtobufField kProbeHandlerFields[] = {
    {1, "exec", T::kMessage, S::kOne, A::kLeftOut, &kExecAction},
    {2, "httpGet", T::kMessage, S::kOne, A::kLeftOut, &kHTTPGetAction},
    {3, "tcpSocket", T::kMessage, S::kOne, A::kLeftOut, &kTCPSocketAction},
    {4, "grpc", T::kMessage, S::kOne, A::kLeftOut, &kGRPCAction}};
constexpr ProtobufMessage kProbeHandler{kProbeHandlerFields};
constexpr ProtobufField kProbeFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kProbeHandler},
    {2, "initialDelaySeconds", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {3, "timeoutSeconds", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {4, "periodSeconds", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {5, "successThreshold", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {6, "failureThreshold", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {7, "terminationGracePeriodSeconds", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kProbe{kProbeFields};
constexpr ProtobufField kSleepActionFields[] = {
    {1, "seconds", T::kInteger, S::kOne, A::kZero}};
constexpr ProtobufMessage kSleepAction{kSleepActionFields};
constexpr ProtobufField kLifecycleHandlerFields[] = {
    {1, "exec", T::kMessage, S::kOne, A::kLeftOut, &kExecAction},
    {2, "httpGet", T::kMessage, S::kOne, A::kLeftOut, &kHTTPGetAction},
    {3, "tcpSocket", T::kMessage, S::kOne, A::kLeftOut, &kTCPSocketAction},
    {4, "sleep", T::kMessage, S::kOne, A::kLeftOut, &kSleepAction}};
constexpr ProtobufMessage kLifecycleHandler{kLifecycleHandlerFields};
constexpr ProtobufField kLifecycleFields[] = {
    {1, "postStart", T::kMessage, S::kOne, A::kLeftOut, &kLifecycleHandler},
    {2, "preStop", T::kMessage, S::kOne, A::kLeftOut, &kLifecycleHandler},
    {3, "stopSignal", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kLifecycle{kLifecycleFields};
constexpr ProtobufField kCapabilitiesFields[] = {
    {1, "add", T::kString, S::kList, A::kLeftOut},
    {2, "drop", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kCapabilities{kCapabilitiesFields};
constexpr ProtobufField kSELinuxOptionsFields[] = {
    {1, "user", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "role", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "type", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "level", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kSELinuxOptions{kSELinuxOptionsFields};
constexpr ProtobufField kWindowsSecurityContextOptionsFields[] = {
    {1, "gmsaCredentialSpecName", T::kString, S::kOne, A::kLeftOut},
    {2, "gmsaCredentialSpec", T::kString, S::kOne, A::kLeftOut},
    {3, "runAsUserName", T::kString, S::kOne, A::kLeftOut},
    {4, "hostProcess", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kWindowsSecurityContextOptions{kWindowsSecurityContextOptionsFields};
constexpr ProtobufField kSeccompProfileFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "localhostProfile", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kSeccompProfile{kSeccompProfileFields};
constexpr ProtobufField kAppArmorProfileFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "localhostProfile", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kAppArmorProfile{kAppArmorProfileFields};
constexpr ProtobufField kSecurityContextFields[] = {
    {1, "capabilities", T::kMessage, S::kOne, A::kLeftOut, &kCapabilities},
    {2, "privileged", T::kBool, S::kOne, A::kLeftOut},
    {3, "seLinuxOptions", T::kMessage, S::kOne, A::kLeftOut, &kSELinuxOptions},
    {10, "windowsOptions", T::kMessage, S::kOne, A::kLeftOut, &kWindowsSecurityContextOptions},
    {4, "runAsUser", T::kInteger, S::kOne, A::kLeftOut},
    {8, "runAsGroup", T::kInteger, S::kOne, A::kLeftOut},
    {5, "runAsNonRoot", T::kBool, S::kOne, A::kLeftOut},
    {6, "readOnlyRootFilesystem", T::kBool, S::kOne, A::kLeftOut},
    {7, "allowPrivilegeEscalation", T::kBool, S::kOne, A::kLeftOut},
    {9, "procMount", T::kString, S::kOne, A::kLeftOut},
    {11, "seccompProfile", T::kMessage, S::kOne, A::kLeftOut, &kSeccompProfile},
    {12, "appArmorProfile", T::kMessage, S::kOne, A::kLeftOut, &kAppArmorProfile}};
constexpr ProtobufMessage kSecurityContext{kSecurityContextFields};
constexpr ProtobufField kContainerFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "image", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "command", T::kString, S::kList, A::kLeftOut},
    {4, "args", T::kString, S::kList, A::kLeftOut},
    {5, "workingDir", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "ports", T::kMessage, S::kList, A::kLeftOut, &kContainerPort},
    {19, "envFrom", T::kMessage, S::kList, A::kLeftOut, &kEnvFromSource},
    {7, "env", T::kMessage, S::kList, A::kLeftOut, &kEnvVar},
    {8, "resources", T::kMessage, S::kOne, A::kZero, &kResourceRequirements},
    {23, "resizePolicy", T::kMessage, S::kList, A::kLeftOut, &kContainerResizePolicy},
    {24, "restartPolicy", T::kString, S::kOne, A::kLeftOut},
    {25, "restartPolicyRules", T::kMessage, S::kList, A::kLeftOut, &kContainerRestartRule},
    {9, "volumeMounts", T::kMessage, S::kList, A::kLeftOut, &kVolumeMount},
    {21, "volumeDevices", T::kMessage, S::kList, A::kLeftOut, &kVolumeDevice},
    {10, "livenessProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {11, "readinessProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {22, "startupProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {12, "lifecycle", T::kMessage, S::kOne, A::kLeftOut, &kLifecycle},
    {13, "terminationMessagePath", T::kString, S::kOne, A::kLeftOutIfZero},
    {20, "terminationMessagePolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {14, "imagePullPolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {15, "securityContext", T::kMessage, S::kOne, A::kLeftOut, &kSecurityContext},
    {16, "stdin", T::kBool, S::kOne, A::kLeftOutIfZero},
    {17, "stdinOnce", T::kBool, S::kOne, A::kLeftOutIfZero},
    {18, "tty", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kContainer{kContainerFields};
constexpr ProtobufField kEphemeralContainerCommonFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "image", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "command", T::kString, S::kList, A::kLeftOut},
    {4, "args", T::kString, S::kList, A::kLeftOut},
    {5, "workingDir", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "ports", T::kMessage, S::kList, A::kLeftOut, &kContainerPort},
    {19, "envFrom", T::kMessage, S::kList, A::kLeftOut, &kEnvFromSource},
    {7, "env", T::kMessage, S::kList, A::kLeftOut, &kEnvVar},
    {8, "resources", T::kMessage, S::kOne, A::kZero, &kResourceRequirements},
    {23, "resizePolicy", T::kMessage, S::kList, A::kLeftOut, &kContainerResizePolicy},
    {24, "restartPolicy", T::kString, S::kOne, A::kLeftOut},
    {25, "restartPolicyRules", T::kMessage, S::kList, A::kLeftOut, &kContainerRestartRule},
    {9, "volumeMounts", T::kMessage, S::kList, A::kLeftOut, &kVolumeMount},
    {21, "volumeDevices", T::kMessage, S::kList, A::kLeftOut, &kVolumeDevice},
    {10, "livenessProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {11, "readinessProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {22, "startupProbe", T::kMessage, S::kOne, A::kLeftOut, &kProbe},
    {12, "lifecycle", T::kMessage, S::kOne, A::kLeftOut, &kLifecycle},
    {13, "terminationMessagePath", T::kString, S::kOne, A::kLeftOutIfZero},
    {20, "terminationMessagePolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {14, "imagePullPolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {15, "securityContext", T::kMessage, S::kOne, A::kLeftOut, &kSecurityContext},
    {16, "stdin", T::kBool, S::kOne, A::kLeftOutIfZero},
    {17, "stdinOnce", T::kBool, S::kOne, A::kLeftOutIfZero},
    {18, "tty", T::kBool, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kEphemeralContainerCommon{kEphemeralContainerCommonFields};
constexpr ProtobufField kEphemeralContainerFields[] = {
    {1, "", T::kMessage, S::kInline, A::kZero, &kEphemeralContainerCommon},
    {2, "targetContainerName", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kEphemeralContainer{kEphemeralContainerFields};
constexpr ProtobufField kSysctlFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "value", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kSysctl{kSysctlFields};
constexpr ProtobufField kPodSecurityContextFields[] = {
    {1, "seLinuxOptions", T::kMessage, S::kOne, A::kLeftOut, &kSELinuxOptions},
    {8, "windowsOptions", T::kMessage, S::kOne, A::kLeftOut, &kWindowsSecurityContextOptions},
    {2, "runAsUser", T::kInteger, S::kOne, A::kLeftOut},
    {6, "runAsGroup", T::kInteger, S::kOne, A::kLeftOut},
    {3, "runAsNonRoot", T::kBool, S::kOne, A::kLeftOut},
    {4, "supplementalGroups", T::kInteger, S::kList, A::kLeftOut},
    {12, "supplementalGroupsPolicy", T::kString, S::kOne, A::kLeftOut},
    {5, "fsGroup", T::kInteger, S::kOne, A::kLeftOut},
    {7, "sysctls", T::kMessage, S::kList, A::kLeftOut, &kSysctl},
    {9, "fsGroupChangePolicy", T::kString, S::kOne, A::kLeftOut},
    {10, "seccompProfile", T::kMessage, S::kOne, A::kLeftOut, &kSeccompProfile},
    {11, "appArmorProfile", T::kMessage, S::kOne, A::kLeftOut, &kAppArmorProfile},
    {13, "seLinuxChangePolicy", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPodSecurityContext{kPodSecurityContextFields};
constexpr ProtobufField kNodeSelectorRequirementFields[] = {
    {1, "key", T::kString, S::kOne, A::kZero},
    {2, "operator", T::kString, S::kOne, A::kZero},
    {3, "values", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kNodeSelectorRequirement{kNodeSelectorRequirementFields};
constexpr ProtobufField kNodeSelectorTermFields[] = {
    {1, "matchExpressions", T::kMessage, S::kList, A::kLeftOut, &kNodeSelectorRequirement},
    {2, "matchFields", T::kMessage, S::kList, A::kLeftOut, &kNodeSelectorRequirement}};
constexpr ProtobufMessage kNodeSelectorTerm{kNodeSelectorTermFields};
constexpr ProtobufField kNodeSelectorFields[] = {
    {1, "nodeSelectorTerms", T::kMessage, S::kList, A::kNull, &kNodeSelectorTerm}};
constexpr ProtobufMessage kNodeSelector{kNodeSelectorFields};
constexpr ProtobufField kPreferredSchedulingTermFields[] = {
    {1, "weight", T::kInteger, S::kOne, A::kZero},
    {2, "preference", T::kMessage, S::kOne, A::kZero, &kNodeSelectorTerm}};
constexpr ProtobufMessage kPreferredSchedulingTerm{kPreferredSchedulingTermFields};
constexpr ProtobufField kNodeAffinityFields[] = {
    {1, "requiredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kOne, A::kLeftOut, &kNodeSelector},
    {2, "preferredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kList, A::kLeftOut, &kPreferredSchedulingTerm}};
constexpr ProtobufMessage kNodeAffinity{kNodeAffinityFields};
constexpr ProtobufField kPodAffinityTermFields[] = {
    {1, "labelSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {2, "namespaces", T::kString, S::kList, A::kLeftOut},
    {3, "topologyKey", T::kString, S::kOne, A::kZero},
    {4, "namespaceSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {5, "matchLabelKeys", T::kString, S::kList, A::kLeftOut},
    {6, "mismatchLabelKeys", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kPodAffinityTerm{kPodAffinityTermFields};
constexpr ProtobufField kWeightedPodAffinityTermFields[] = {
    {1, "weight", T::kInteger, S::kOne, A::kZero},
    {2, "podAffinityTerm", T::kMessage, S::kOne, A::kZero, &kPodAffinityTerm}};
constexpr ProtobufMessage kWeightedPodAffinityTerm{kWeightedPodAffinityTermFields};
constexpr ProtobufField kPodAffinityFields[] = {
    {1, "requiredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kList, A::kLeftOut, &kPodAffinityTerm},
    {2, "preferredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kList, A::kLeftOut, &kWeightedPodAffinityTerm}};
constexpr ProtobufMessage kPodAffinity{kPodAffinityFields};
constexpr ProtobufField kPodAntiAffinityFields[] = {
    {1, "requiredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kList, A::kLeftOut, &kPodAffinityTerm},
    {2, "preferredDuringSchedulingIgnoredDuringExecution", T::kMessage, S::kList, A::kLeftOut, &kWeightedPodAffinityTerm}};
constexpr ProtobufMessage kPodAntiAffinity{kPodAntiAffinityFields};
constexpr ProtobufField kAffinityFields[] = {
    {1, "nodeAffinity", T::kMessage, S::kOne, A::kLeftOut, &kNodeAffinity},
    {2, "podAffinity", T::kMessage, S::kOne, A::kLeftOut, &kPodAffinity},
    {3, "podAntiAffinity", T::kMessage, S::kOne, A::kLeftOut, &kPodAntiAffinity}};
constexpr ProtobufMessage kAffinity{kAffinityFields};
constexpr ProtobufField kTolerationFields[] = {
    {1, "key", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "operator", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "value", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "effect", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "tolerationSeconds", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kToleration{kTolerationFields};
constexpr ProtobufField kHostAliasFields[] = {
    {1, "ip", T::kString, S::kOne, A::kZero},
    {2, "hostnames", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kHostAlias{kHostAliasFields};
constexpr ProtobufField kPodDNSConfigOptionFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "value", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPodDNSConfigOption{kPodDNSConfigOptionFields};
constexpr ProtobufField kPodDNSConfigFields[] = {
    {1, "nameservers", T::kString, S::kList, A::kLeftOut},
    {2, "searches", T::kString, S::kList, A::kLeftOut},
    {3, "options", T::kMessage, S::kList, A::kLeftOut, &kPodDNSConfigOption}};
constexpr ProtobufMessage kPodDNSConfig{kPodDNSConfigFields};
constexpr ProtobufField kPodReadinessGateFields[] = {
    {1, "conditionType", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kPodReadinessGate{kPodReadinessGateFields};
constexpr ProtobufField kTopologySpreadConstraintFields[] = {
    {1, "maxSkew", T::kInteger, S::kOne, A::kZero},
    {2, "topologyKey", T::kString, S::kOne, A::kZero},
    {3, "whenUnsatisfiable", T::kString, S::kOne, A::kZero},
    {4, "labelSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {5, "minDomains", T::kInteger, S::kOne, A::kLeftOut},
    {6, "nodeAffinityPolicy", T::kString, S::kOne, A::kLeftOut},
    {7, "nodeTaintsPolicy", T::kString, S::kOne, A::kLeftOut},
    {8, "matchLabelKeys", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kTopologySpreadConstraint{kTopologySpreadConstraintFields};
constexpr ProtobufField kPodOSFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kPodOS{kPodOSFields};
constexpr ProtobufField kPodSchedulingGateFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kPodSchedulingGate{kPodSchedulingGateFields};
constexpr ProtobufField kPodResourceClaimFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {3, "resourceClaimName", T::kString, S::kOne, A::kLeftOut},
    {4, "resourceClaimTemplateName", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPodResourceClaim{kPodResourceClaimFields};
constexpr ProtobufField kWorkloadReferenceFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "podGroup", T::kString, S::kOne, A::kZero},
    {3, "podGroupReplicaKey", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kWorkloadReference{kWorkloadReferenceFields};
constexpr ProtobufField kPodSpecFields[] = {
    {1, "volumes", T::kMessage, S::kList, A::kLeftOut, &kVolume},
    {20, "initContainers", T::kMessage, S::kList, A::kLeftOut, &kContainer},
    {2, "containers", T::kMessage, S::kList, A::kNull, &kContainer},
    {34, "ephemeralContainers", T::kMessage, S::kList, A::kLeftOut, &kEphemeralContainer},
    {3, "restartPolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "terminationGracePeriodSeconds", T::kInteger, S::kOne, A::kLeftOut},
    {5, "activeDeadlineSeconds", T::kInteger, S::kOne, A::kLeftOut},
    {6, "dnsPolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "nodeSelector", T::kString, S::kMap, A::kLeftOut},
    {8, "serviceAccountName", T::kString, S::kOne, A::kLeftOutIfZero},
    {9, "serviceAccount", T::kString, S::kOne, A::kLeftOutIfZero},
    {21, "automountServiceAccountToken", T::kBool, S::kOne, A::kLeftOut},
    {10, "nodeName", T::kString, S::kOne, A::kLeftOutIfZero},
    {11, "hostNetwork", T::kBool, S::kOne, A::kLeftOutIfZero},
    {12, "hostPID", T::kBool, S::kOne, A::kLeftOutIfZero},
    {13, "hostIPC", T::kBool, S::kOne, A::kLeftOutIfZero},
    {27, "shareProcessNamespace", T::kBool, S::kOne, A::kLeftOut},
    {14, "securityContext", T::kMessage, S::kOne, A::kLeftOut, &kPodSecurityContext},
    {15, "imagePullSecrets", T::kMessage, S::kList, A::kLeftOut, &kLocalObjectReference},
    {16, "hostname", T::kString, S::kOne, A::kLeftOutIfZero},
    {17, "subdomain", T::kString, S::kOne, A::kLeftOutIfZero},
    {18, "affinity", T::kMessage, S::kOne, A::kLeftOut, &kAffinity},
    {19, "schedulerName", T::kString, S::kOne, A::kLeftOutIfZero},
    {22, "tolerations", T::kMessage, S::kList, A::kLeftOut, &kToleration},
    {23, "hostAliases", T::kMessage, S::kList, A::kLeftOut, &kHostAlias},
    {24, "priorityClassName", T::kString, S::kOne, A::kLeftOutIfZero},
    {25, "priority", T::kInteger, S::kOne, A::kLeftOut},
    {26, "dnsConfig", T::kMessage, S::kOne, A::kLeftOut, &kPodDNSConfig},
    {28, "readinessGates", T::kMessage, S::kList, A::kLeftOut, &kPodReadinessGate},
    {29, "runtimeClassName", T::kString, S::kOne, A::kLeftOut},
    {30, "enableServiceLinks", T::kBool, S::kOne, A::kLeftOut},
    {31, "preemptionPolicy", T::kString, S::kOne, A::kLeftOut},
    {32, "overhead", T::kQuantity, S::kMap, A::kLeftOut},
    {33, "topologySpreadConstraints", T::kMessage, S::kList, A::kLeftOut, &kTopologySpreadConstraint},
    {35, "setHostnameAsFQDN", T::kBool, S::kOne, A::kLeftOut},
    {36, "os", T::kMessage, S::kOne, A::kLeftOut, &kPodOS},
    {37, "hostUsers", T::kBool, S::kOne, A::kLeftOut},
    {38, "schedulingGates", T::kMessage, S::kList, A::kLeftOut, &kPodSchedulingGate},
    {39, "resourceClaims", T::kMessage, S::kList, A::kLeftOut, &kPodResourceClaim},
    {40, "resources", T::kMessage, S::kOne, A::kLeftOut, &kResourceRequirements},
    {41, "hostnameOverride", T::kString, S::kOne, A::kLeftOut},
    {42, "workloadRef", T::kMessage, S::kOne, A::kLeftOut, &kWorkloadReference}};
constexpr ProtobufMessage kPodSpec{kPodSpecFields};
constexpr ProtobufField kPodConditionFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {7, "observedGeneration", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {2, "status", T::kString, S::kOne, A::kZero},
    {3, "lastProbeTime", T::kTime, S::kOne, A::kZero},
    {4, "lastTransitionTime", T::kTime, S::kOne, A::kZero},
    {5, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "message", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kPodCondition{kPodConditionFields};
constexpr ProtobufField kHostIPFields[] = {
    {1, "ip", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kHostIP{kHostIPFields};
constexpr ProtobufField kPodIPFields[] = {
    {1, "ip", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kPodIP{kPodIPFields};
constexpr ProtobufField kContainerStateWaitingFields[] = {
    {1, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "message", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kContainerStateWaiting{kContainerStateWaitingFields};
constexpr ProtobufField kContainerStateRunningFields[] = {
    {1, "startedAt", T::kTime, S::kOne, A::kZero}};
constexpr ProtobufMessage kContainerStateRunning{kContainerStateRunningFields};
constexpr ProtobufField kContainerStateTerminatedFields[] = {
    {1, "exitCode", T::kInteger, S::kOne, A::kZero},
    {2, "signal", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {3, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "message", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "startedAt", T::kTime, S::kOne, A::kZero},
    {6, "finishedAt", T::kTime, S::kOne, A::kZero},
    {7, "containerID", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kContainerStateTerminated{kContainerStateTerminatedFields};
constexpr ProtobufField kContainerStateFields[] = {
    {1, "waiting", T::kMessage, S::kOne, A::kLeftOut, &kContainerStateWaiting},
    {2, "running", T::kMessage, S::kOne, A::kLeftOut, &kContainerStateRunning},
    {3, "terminated", T::kMessage, S::kOne, A::kLeftOut, &kContainerStateTerminated}};
constexpr ProtobufMessage kContainerState{kContainerStateFields};
constexpr ProtobufField kVolumeMountStatusFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "mountPath", T::kString, S::kOne, A::kZero},
    {3, "readOnly", T::kBool, S::kOne, A::kLeftOutIfZero},
    {4, "recursiveReadOnly", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kVolumeMountStatus{kVolumeMountStatusFields};
constexpr ProtobufField kLinuxContainerUserFields[] = {
    {1, "uid", T::kInteger, S::kOne, A::kZero},
    {2, "gid", T::kInteger, S::kOne, A::kZero},
    {3, "supplementalGroups", T::kInteger, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kLinuxContainerUser{kLinuxContainerUserFields};
constexpr ProtobufField kContainerUserFields[] = {
    {1, "linux", T::kMessage, S::kOne, A::kLeftOut, &kLinuxContainerUser}};
constexpr ProtobufMessage kContainerUser{kContainerUserFields};
constexpr ProtobufField kResourceHealthFields[] = {
    {1, "resourceID", T::kString, S::kOne, A::kZero},
    {2, "health", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kResourceHealth{kResourceHealthFields};
constexpr ProtobufField kResourceStatusFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "resources", T::kMessage, S::kList, A::kLeftOut, &kResourceHealth}};
constexpr ProtobufMessage kResourceStatus{kResourceStatusFields};
constexpr ProtobufField kContainerStatusFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "state", T::kMessage, S::kOne, A::kZero, &kContainerState},
    {3, "lastState", T::kMessage, S::kOne, A::kZero, &kContainerState},
    {4, "ready", T::kBool, S::kOne, A::kZero},
    {5, "restartCount", T::kInteger, S::kOne, A::kZero},
    {6, "image", T::kString, S::kOne, A::kZero},
    {7, "imageID", T::kString, S::kOne, A::kZero},
    {8, "containerID", T::kString, S::kOne, A::kLeftOutIfZero},
    {9, "started", T::kBool, S::kOne, A::kLeftOut},
    {10, "allocatedResources", T::kQuantity, S::kMap, A::kLeftOut},
    {11, "resources", T::kMessage, S::kOne, A::kLeftOut, &kResourceRequirements},
    {12, "volumeMounts", T::kMessage, S::kList, A::kLeftOut, &kVolumeMountStatus},
    {13, "user", T::kMessage, S::kOne, A::kLeftOut, &kContainerUser},
    {14, "allocatedResourcesStatus", T::kMessage, S::kList, A::kLeftOut, &kResourceStatus},
    {15, "stopSignal", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kContainerStatus{kContainerStatusFields};
constexpr ProtobufField kPodResourceClaimStatusFields[] = {
    {1, "name", T::kString, S::kOne, A::kZero},
    {2, "resourceClaimName", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPodResourceClaimStatus{kPodResourceClaimStatusFields};
constexpr ProtobufField kContainerExtendedResourceRequestFields[] = {
    {1, "containerName", T::kString, S::kOne, A::kZero},
    {2, "resourceName", T::kString, S::kOne, A::kZero},
    {3, "requestName", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kContainerExtendedResourceRequest{kContainerExtendedResourceRequestFields};
constexpr ProtobufField kPodExtendedResourceClaimStatusFields[] = {
    {1, "requestMappings", T::kMessage, S::kList, A::kNull, &kContainerExtendedResourceRequest},
    {2, "resourceClaimName", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kPodExtendedResourceClaimStatus{kPodExtendedResourceClaimStatusFields};
constexpr ProtobufField kPodStatusFields[] = {
    {17, "observedGeneration", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {1, "phase", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "conditions", T::kMessage, S::kList, A::kLeftOut, &kPodCondition},
    {3, "message", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {11, "nominatedNodeName", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "hostIP", T::kString, S::kOne, A::kLeftOutIfZero},
    {16, "hostIPs", T::kMessage, S::kList, A::kLeftOut, &kHostIP},
    {6, "podIP", T::kString, S::kOne, A::kLeftOutIfZero},
    {12, "podIPs", T::kMessage, S::kList, A::kLeftOut, &kPodIP},
    {7, "startTime", T::kTime, S::kOne, A::kLeftOut},
    {10, "initContainerStatuses", T::kMessage, S::kList, A::kLeftOut, &kContainerStatus},
    {8, "containerStatuses", T::kMessage, S::kList, A::kLeftOut, &kContainerStatus},
    {9, "qosClass", T::kString, S::kOne, A::kLeftOutIfZero},
    {13, "ephemeralContainerStatuses", T::kMessage, S::kList, A::kLeftOut, &kContainerStatus},
    {14, "resize", T::kString, S::kOne, A::kLeftOutIfZero},
    {15, "resourceClaimStatuses", T::kMessage, S::kList, A::kLeftOut, &kPodResourceClaimStatus},
    {18, "extendedResourceClaimStatus", T::kMessage, S::kOne, A::kLeftOut, &kPodExtendedResourceClaimStatus},
    {19, "allocatedResources", T::kQuantity, S::kMap, A::kLeftOut},
    {20, "resources", T::kMessage, S::kOne, A::kLeftOut, &kResourceRequirements}};
constexpr ProtobufMessage kPodStatus{kPodStatusFields};
constexpr ProtobufField kPodFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kPodSpec},
    {3, "status", T::kMessage, S::kOne, A::kZero, &kPodStatus}};
constexpr ProtobufMessage kPod{kPodFields};
constexpr ProtobufField kPodListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kPod}};
constexpr ProtobufMessage kPodList{kPodListFields};
constexpr ProtobufField kServicePortFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "protocol", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "appProtocol", T::kString, S::kOne, A::kLeftOut},
    {3, "port", T::kInteger, S::kOne, A::kZero},
    {4, "targetPort", T::kIntOrString, S::kOne, A::kZero},
    {5, "nodePort", T::kInteger, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kServicePort{kServicePortFields};
constexpr ProtobufField kClientIPConfigFields[] = {
    {1, "timeoutSeconds", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kClientIPConfig{kClientIPConfigFields};
constexpr ProtobufField kSessionAffinityConfigFields[] = {
    {1, "clientIP", T::kMessage, S::kOne, A::kLeftOut, &kClientIPConfig}};
constexpr ProtobufMessage kSessionAffinityConfig{kSessionAffinityConfigFields};
constexpr ProtobufField kServiceSpecFields[] = {
    {1, "ports", T::kMessage, S::kList, A::kLeftOut, &kServicePort},
    {2, "selector", T::kString, S::kMap, A::kLeftOut},
    {3, "clusterIP", T::kString, S::kOne, A::kLeftOutIfZero},
    {18, "clusterIPs", T::kString, S::kList, A::kLeftOut},
    {4, "type", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "externalIPs", T::kString, S::kList, A::kLeftOut},
    {7, "sessionAffinity", T::kString, S::kOne, A::kLeftOutIfZero},
    {8, "loadBalancerIP", T::kString, S::kOne, A::kLeftOutIfZero},
    {9, "loadBalancerSourceRanges", T::kString, S::kList, A::kLeftOut},
    {10, "externalName", T::kString, S::kOne, A::kLeftOutIfZero},
    {11, "externalTrafficPolicy", T::kString, S::kOne, A::kLeftOutIfZero},
    {12, "healthCheckNodePort", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {13, "publishNotReadyAddresses", T::kBool, S::kOne, A::kLeftOutIfZero},
    {14, "sessionAffinityConfig", T::kMessage, S::kOne, A::kLeftOut, &kSessionAffinityConfig},
    {19, "ipFamilies", T::kString, S::kList, A::kLeftOut},
    {17, "ipFamilyPolicy", T::kString, S::kOne, A::kLeftOut},
    {20, "allocateLoadBalancerNodePorts", T::kBool, S::kOne, A::kLeftOut},
    {21, "loadBalancerClass", T::kString, S::kOne, A::kLeftOut},
    {22, "internalTrafficPolicy", T::kString, S::kOne, A::kLeftOut},
    {23, "trafficDistribution", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kServiceSpec{kServiceSpecFields};
constexpr ProtobufField kPortStatusFields[] = {
    {1, "port", T::kInteger, S::kOne, A::kZero},
    {2, "protocol", T::kString, S::kOne, A::kZero},
    {3, "error", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPortStatus{kPortStatusFields};
constexpr ProtobufField kLoadBalancerIngressFields[] = {
    {1, "ip", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "hostname", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "ipMode", T::kString, S::kOne, A::kLeftOut},
    {4, "ports", T::kMessage, S::kList, A::kLeftOut, &kPortStatus}};
constexpr ProtobufMessage kLoadBalancerIngress{kLoadBalancerIngressFields};
constexpr ProtobufField kLoadBalancerStatusFields[] = {
    {1, "ingress", T::kMessage, S::kList, A::kLeftOut, &kLoadBalancerIngress}};
constexpr ProtobufMessage kLoadBalancerStatus{kLoadBalancerStatusFields};
constexpr ProtobufField kConditionFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "status", T::kString, S::kOne, A::kZero},
    {3, "observedGeneration", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {4, "lastTransitionTime", T::kTime, S::kOne, A::kZero},
    {5, "reason", T::kString, S::kOne, A::kZero},
    {6, "message", T::kString, S::kOne, A::kZero}};
constexpr ProtobufMessage kCondition{kConditionFields};
constexpr ProtobufField kServiceStatusFields[] = {
    {1, "loadBalancer", T::kMessage, S::kOne, A::kZero, &kLoadBalancerStatus},
    {2, "conditions", T::kMessage, S::kList, A::kLeftOut, &kCondition}};
constexpr ProtobufMessage kServiceStatus{kServiceStatusFields};
constexpr ProtobufField kServiceFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kServiceSpec},
    {3, "status", T::kMessage, S::kOne, A::kZero, &kServiceStatus}};
constexpr ProtobufMessage kService{kServiceFields};
constexpr ProtobufField kServiceListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kService}};
constexpr ProtobufMessage kServiceList{kServiceListFields};
constexpr ProtobufField kObjectReferenceFields[] = {
    {1, "kind", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "namespace", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "uid", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "apiVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "resourceVersion", T::kString, S::kOne, A::kLeftOutIfZero},
    {7, "fieldPath", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kObjectReference{kObjectReferenceFields};
constexpr ProtobufField kServiceAccountFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "secrets", T::kMessage, S::kList, A::kLeftOut, &kObjectReference},
    {3, "imagePullSecrets", T::kMessage, S::kList, A::kLeftOut, &kLocalObjectReference},
    {4, "automountServiceAccountToken", T::kBool, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kServiceAccount{kServiceAccountFields};
constexpr ProtobufField kServiceAccountListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kServiceAccount}};
constexpr ProtobufMessage kServiceAccountList{kServiceAccountListFields};
constexpr ProtobufField kPodTemplateSpecFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kPodSpec}};
constexpr ProtobufMessage kPodTemplateSpec{kPodTemplateSpecFields};
constexpr ProtobufField kRollingUpdateDeploymentFields[] = {
    {1, "maxUnavailable", T::kIntOrString, S::kOne, A::kLeftOut},
    {2, "maxSurge", T::kIntOrString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kRollingUpdateDeployment{kRollingUpdateDeploymentFields};
constexpr ProtobufField kDeploymentStrategyFields[] = {
    {1, "type", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "rollingUpdate", T::kMessage, S::kOne, A::kLeftOut, &kRollingUpdateDeployment}};
constexpr ProtobufMessage kDeploymentStrategy{kDeploymentStrategyFields};
constexpr ProtobufField kDeploymentSpecFields[] = {
    {1, "replicas", T::kInteger, S::kOne, A::kLeftOut},
    {2, "selector", T::kMessage, S::kOne, A::kNull, &kLabelSelector},
    {3, "template", T::kMessage, S::kOne, A::kZero, &kPodTemplateSpec},
    {4, "strategy", T::kMessage, S::kOne, A::kZero, &kDeploymentStrategy},
    {5, "minReadySeconds", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {6, "revisionHistoryLimit", T::kInteger, S::kOne, A::kLeftOut},
    {7, "paused", T::kBool, S::kOne, A::kLeftOutIfZero},
    {9, "progressDeadlineSeconds", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kDeploymentSpec{kDeploymentSpecFields};
constexpr ProtobufField kDeploymentConditionFields[] = {
    {1, "type", T::kString, S::kOne, A::kZero},
    {2, "status", T::kString, S::kOne, A::kZero},
    {6, "lastUpdateTime", T::kTime, S::kOne, A::kZero},
    {7, "lastTransitionTime", T::kTime, S::kOne, A::kZero},
    {4, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "message", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kDeploymentCondition{kDeploymentConditionFields};
constexpr ProtobufField kDeploymentStatusFields[] = {
    {1, "observedGeneration", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {2, "replicas", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {3, "updatedReplicas", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {7, "readyReplicas", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {4, "availableReplicas", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {5, "unavailableReplicas", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {9, "terminatingReplicas", T::kInteger, S::kOne, A::kLeftOut},
    {6, "conditions", T::kMessage, S::kList, A::kLeftOut, &kDeploymentCondition},
    {8, "collisionCount", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kDeploymentStatus{kDeploymentStatusFields};
constexpr ProtobufField kDeploymentFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kDeploymentSpec},
    {3, "status", T::kMessage, S::kOne, A::kZero, &kDeploymentStatus}};
constexpr ProtobufMessage kDeployment{kDeploymentFields};
constexpr ProtobufField kDeploymentListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kDeployment}};
constexpr ProtobufMessage kDeploymentList{kDeploymentListFields};
constexpr ProtobufField kNetworkPolicyPortFields[] = {
    {1, "protocol", T::kString, S::kOne, A::kLeftOut},
    {2, "port", T::kIntOrString, S::kOne, A::kLeftOut},
    {3, "endPort", T::kInteger, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kNetworkPolicyPort{kNetworkPolicyPortFields};
constexpr ProtobufField kIPBlockFields[] = {
    {1, "cidr", T::kString, S::kOne, A::kZero},
    {2, "except", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kIPBlock{kIPBlockFields};
constexpr ProtobufField kNetworkPolicyPeerFields[] = {
    {1, "podSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {2, "namespaceSelector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {3, "ipBlock", T::kMessage, S::kOne, A::kLeftOut, &kIPBlock}};
constexpr ProtobufMessage kNetworkPolicyPeer{kNetworkPolicyPeerFields};
constexpr ProtobufField kNetworkPolicyIngressRuleFields[] = {
    {1, "ports", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyPort},
    {2, "from", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyPeer}};
constexpr ProtobufMessage kNetworkPolicyIngressRule{kNetworkPolicyIngressRuleFields};
constexpr ProtobufField kNetworkPolicyEgressRuleFields[] = {
    {1, "ports", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyPort},
    {2, "to", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyPeer}};
constexpr ProtobufMessage kNetworkPolicyEgressRule{kNetworkPolicyEgressRuleFields};
constexpr ProtobufField kNetworkPolicySpecFields[] = {
    {1, "podSelector", T::kMessage, S::kOne, A::kZero, &kLabelSelector},
    {2, "ingress", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyIngressRule},
    {3, "egress", T::kMessage, S::kList, A::kLeftOut, &kNetworkPolicyEgressRule},
    {4, "policyTypes", T::kString, S::kList, A::kLeftOut}};
constexpr ProtobufMessage kNetworkPolicySpec{kNetworkPolicySpecFields};
constexpr ProtobufField kNetworkPolicyFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kNetworkPolicySpec}};
constexpr ProtobufMessage kNetworkPolicy{kNetworkPolicyFields};
constexpr ProtobufField kNetworkPolicyListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kNetworkPolicy}};
constexpr ProtobufMessage kNetworkPolicyList{kNetworkPolicyListFields};
constexpr ProtobufField kPodDisruptionBudgetSpecFields[] = {
    {1, "minAvailable", T::kIntOrString, S::kOne, A::kLeftOut},
    {2, "selector", T::kMessage, S::kOne, A::kLeftOut, &kLabelSelector},
    {3, "maxUnavailable", T::kIntOrString, S::kOne, A::kLeftOut},
    {4, "unhealthyPodEvictionPolicy", T::kString, S::kOne, A::kLeftOut}};
constexpr ProtobufMessage kPodDisruptionBudgetSpec{kPodDisruptionBudgetSpecFields};
constexpr ProtobufField kPodDisruptionBudgetStatusFields[] = {
    {1, "observedGeneration", T::kInteger, S::kOne, A::kLeftOutIfZero},
    {2, "disruptedPods", T::kTime, S::kMap, A::kLeftOut},
    {3, "disruptionsAllowed", T::kInteger, S::kOne, A::kZero},
    {4, "currentHealthy", T::kInteger, S::kOne, A::kZero},
    {5, "desiredHealthy", T::kInteger, S::kOne, A::kZero},
    {6, "expectedPods", T::kInteger, S::kOne, A::kZero},
    {7, "conditions", T::kMessage, S::kList, A::kLeftOut, &kCondition}};
constexpr ProtobufMessage kPodDisruptionBudgetStatus{kPodDisruptionBudgetStatusFields};
constexpr ProtobufField kPodDisruptionBudgetFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kObjectMeta},
    {2, "spec", T::kMessage, S::kOne, A::kZero, &kPodDisruptionBudgetSpec},
    {3, "status", T::kMessage, S::kOne, A::kZero, &kPodDisruptionBudgetStatus}};
constexpr ProtobufMessage kPodDisruptionBudget{kPodDisruptionBudgetFields};
constexpr ProtobufField kPodDisruptionBudgetListFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "items", T::kMessage, S::kList, A::kNull, &kPodDisruptionBudget}};
constexpr ProtobufMessage kPodDisruptionBudgetList{kPodDisruptionBudgetListFields};
constexpr ProtobufField kStatusCauseFields[] = {
    {1, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "message", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "field", T::kString, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kStatusCause{kStatusCauseFields};
constexpr ProtobufField kStatusDetailsFields[] = {
    {1, "name", T::kString, S::kOne, A::kLeftOutIfZero},
    {2, "group", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "kind", T::kString, S::kOne, A::kLeftOutIfZero},
    {6, "uid", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "causes", T::kMessage, S::kList, A::kLeftOut, &kStatusCause},
    {5, "retryAfterSeconds", T::kInteger, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kStatusDetails{kStatusDetailsFields};
constexpr ProtobufField kStatusFields[] = {
    {1, "metadata", T::kMessage, S::kOne, A::kZero, &kListMeta},
    {2, "status", T::kString, S::kOne, A::kLeftOutIfZero},
    {3, "message", T::kString, S::kOne, A::kLeftOutIfZero},
    {4, "reason", T::kString, S::kOne, A::kLeftOutIfZero},
    {5, "details", T::kMessage, S::kOne, A::kLeftOut, &kStatusDetails},
    {6, "code", T::kInteger, S::kOne, A::kLeftOutIfZero}};
constexpr ProtobufMessage kStatus{kStatusFields};

constexpr ProtobufKind kKinds[] = {
    {"v1", "ConfigMap", &kConfigMap, &kConfigMapList},
    {"v1", "Node", &kNode, &kNodeList},
    {"v1", "Pod", &kPod, &kPodList},
    {"v1", "Service", &kService, &kServiceList},
    {"v1", "ServiceAccount", &kServiceAccount, &kServiceAccountList},
    {"apps/v1", "Deployment", &kDeployment, &kDeploymentList},
    {"networking.k8s.io/v1", "NetworkPolicy", &kNetworkPolicy, &kNetworkPolicyList},
    {"policy/v1", "PodDisruptionBudget", &kPodDisruptionBudget, &kPodDisruptionBudgetList}};

}  // namespace

std::span<const ProtobufKind> ProtobufKinds() {
  return kKinds;
}

const ProtobufMessage& ProtobufStatus() {
  return kStatus;
}

}  // namespace janus::control
