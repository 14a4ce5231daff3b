// Prints operator/kube/protobuf_tables.cc: by which number each field of the kinds that operator/kube reads
// as protobuf goes over the wire, what JSON calls it, and when JSON leaves it out. Read off the tags of
// the API's own Go types, which its generated.proto and its JSON are made of:
//
//	(cd e2e/build/kube && go run -trimpath ./protobuftables) > operator/kube/protobuf_tables.cc
//
// e2e/kube/protobuf_test.py checks that it is fresh.
package main

import (
	"fmt"
	"log"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type kind struct {
	apiVersion   string
	object, list any
}

var kinds = []kind{
	{"v1", corev1.ConfigMap{}, corev1.ConfigMapList{}},
	{"v1", corev1.Node{}, corev1.NodeList{}},
	{"v1", corev1.Pod{}, corev1.PodList{}},
	{"v1", corev1.Service{}, corev1.ServiceList{}},
	{"v1", corev1.ServiceAccount{}, corev1.ServiceAccountList{}},
	{"apps/v1", appsv1.Deployment{}, appsv1.DeploymentList{}},
	{"networking.k8s.io/v1", networkingv1.NetworkPolicy{}, networkingv1.NetworkPolicyList{}},
	{"policy/v1", policyv1.PodDisruptionBudget{}, policyv1.PodDisruptionBudgetList{}},
}

// Types that write themselves, in both formats.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():        "kTime",
	reflect.TypeFor[metav1.FieldsV1]():    "kJson",
	reflect.TypeFor[resource.Quantity]():  "kQuantity",
	reflect.TypeFor[intstr.IntOrString](): "kIntOrString",
}

type marshaler interface{ Marshal() ([]byte, error) }

var (
	names   = map[reflect.Type]string{} // done
	taken   = map[string]bool{}
	visited = map[reflect.Type]bool{} // begun
)

// The value of a field, list item or map entry; the table it needs is printed first.
func typeOf(t reflect.Type, where string) (wire, message string) {
	if name, ok := special[t]; ok {
		return name, ""
	}
	switch t.Kind() {
	case reflect.String:
		return "kString", ""
	case reflect.Bool:
		return "kBool", ""
	case reflect.Int32, reflect.Int64:
		return "kInteger", ""
	case reflect.Struct:
		return "kMessage", table(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "kBytes", ""
		}
	}
	log.Fatalf("%s: nobody reads %v", where, t)
	return "", ""
}

func field(f reflect.StructField, where string) string {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	options := "," + rest + ","
	tag := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(tag) < 3 {
		log.Fatalf("%s: no protobuf tag", where)
	}
	number, err := strconv.Atoi(tag[1])
	if err != nil {
		log.Fatalf("%s: %v", where, err)
	}
	t := f.Type
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	shape := "kOne"
	if t.Kind() == reflect.Map {
		if t.Key().Kind() != reflect.String {
			log.Fatalf("%s: a map by %v", where, t.Key())
		}
		shape, optional, t = "kMap", true, t.Elem()
	} else if t.Kind() == reflect.Slice {
		optional = true
		if t.Elem().Kind() != reflect.Uint8 {
			// A named list may be a message of its own on the wire.
			if reflect.PointerTo(t).Implements(reflect.TypeFor[marshaler]()) {
				log.Fatalf("%s: %v is a message", where, t)
			}
			shape, t = "kList", t.Elem()
		}
	}
	wire, message := typeOf(t, where)
	// What JSON says where the wire has nothing.
	absent := "kZero"
	switch {
	case strings.Contains(options, ",inline,"):
		if shape != "kOne" || wire != "kMessage" || optional {
			log.Fatalf("%s: inline", where)
		}
		shape, name = "kInline", ""
	case name == "" || name == "-":
		log.Fatalf("%s: no name", where)
	case optional && strings.Contains(options, ",omitempty,"):
		absent = "kLeftOut"
	case optional:
		absent = "kNull"
	case strings.Contains(options, ",omitzero,") && wire == "kTime":
		absent = "kLeftOutIfZero"
	case strings.Contains(options, ",omitzero,"):
		log.Fatalf("%s: omitzero", where)
	case strings.Contains(options, ",omitempty,") && (wire == "kString" || wire == "kBool" || wire == "kInteger"):
		absent = "kLeftOutIfZero"
	}
	if message != "" {
		message = ", &" + message
	}
	return fmt.Sprintf("{%d, %q, T::%s, S::%s, A::%s%s}", number, name, wire, shape, absent, message)
}

// Prints the table of a message, those that it needs before it.
func table(t reflect.Type) string {
	if name, ok := names[t]; ok {
		return name
	}
	if visited[t] {
		log.Fatalf("%v holds itself", t)
	}
	visited[t] = true
	var lines []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() && f.Tag.Get("protobuf") == "" {
			continue // is in the envelope
		}
		lines = append(lines, field(f, t.String()+"."+f.Name))
	}
	name := "k" + t.Name()
	if taken[name] {
		log.Fatalf("two messages are called %s", t.Name())
	}
	taken[name], names[t] = true, name
	if len(lines) == 0 {
		fmt.Printf("constexpr ProtobufMessage %s{};\n", name)
		return name
	}
	fmt.Printf("constexpr ProtobufField %sFields[] = {\n    %s};\nconstexpr ProtobufMessage %s{%sFields};\n",
		name, strings.Join(lines, ",\n    "), name, name)
	return name
}

func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		log.Fatal("no build information")
	}
	var out []string
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" || module.Path == "k8s.io/apimachinery" {
			out = append(out, module.Path+" "+module.Version)
		}
	}
	return strings.Join(out, ", ")
}

func main() {
	fmt.Printf(`// Made by e2e/build/kube/protobuftables of the Go types of
// %s
// (Apache-2.0); not to be edited.
// clang-format off
#include "operator/kube/protobuf_tables.h"

namespace janus::control {
namespace {

using T = ProtobufType;
using S = ProtobufShape;
using A = ProtobufAbsent;

`, versions())
	var lines []string
	for _, k := range kinds {
		object, list := table(reflect.TypeOf(k.object)), table(reflect.TypeOf(k.list))
		lines = append(lines, fmt.Sprintf("    {%q, %q, &%s, &%s}", k.apiVersion, reflect.TypeOf(k.object).Name(),
			object, list))
	}
	status := table(reflect.TypeFor[metav1.Status]())
	fmt.Printf("\nconstexpr ProtobufKind kKinds[] = {\n%s};\n", strings.Join(lines, ",\n"))
	fmt.Printf(`
}  // namespace

std::span<const ProtobufKind> ProtobufKinds() {
  return kKinds;
}

const ProtobufMessage& ProtobufStatus() {
  return %s;
}

}  // namespace janus::control
`, status)
}
