// Writes objects of every kind that operator/kube reads as protobuf, each as the API server writes it in
// protobuf (NAME.pb) and in JSON (NAME.json): tests/golden/kubernetes, made by
//
//	(cd e2e/build/kube && go run -trimpath ./protobufsamples ../../../tests/golden/kubernetes)
//
// The objects mean nothing: of each kind one has every field (full), one every field with nothing in it
// (zeros), one nothing at all (empty), and of two kinds one has texts that are hard to write (odd).
package main

import (
	"bytes"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	core       = schema.GroupVersion{Version: "v1"}
	apps       = schema.GroupVersion{Group: "apps", Version: "v1"}
	networking = schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
	policy     = schema.GroupVersion{Group: "policy", Version: "v1"}
)

var kinds = []struct {
	version schema.GroupVersion
	object  func() runtime.Object
}{
	{core, func() runtime.Object { return &corev1.ConfigMap{} }},
	{core, func() runtime.Object { return &corev1.Node{} }},
	{core, func() runtime.Object { return &corev1.Pod{} }},
	{core, func() runtime.Object { return &corev1.PodList{} }},
	{core, func() runtime.Object { return &corev1.Service{} }},
	{core, func() runtime.Object { return &corev1.ServiceAccount{} }},
	{apps, func() runtime.Object { return &appsv1.Deployment{} }},
	{networking, func() runtime.Object { return &networkingv1.NetworkPolicy{} }},
	{policy, func() runtime.Object { return &policyv1.PodDisruptionBudget{} }},
	{core, func() runtime.Object { return &metav1.Status{} }},
}

var odd = []string{"\xff", "a\xe2\x82b\xed\xa0\x80", "<&>\u2028", "\"\\\n\x01\x7f", "é\U0001F600", strings.Repeat("x", 130)}

type filler struct {
	mode  string
	count int
}

func (f *filler) number() int64 {
	f.count++
	if f.count%7 == 0 {
		return int64(-f.count)
	}
	return int64(f.count)
}

func (f *filler) text() string {
	f.count++
	switch f.mode {
	case "zeros":
		return ""
	case "odd":
		return odd[f.count%len(odd)]
	}
	return "t" + strconv.Itoa(f.count)
}

// Puts something into v and all below it.
func (f *filler) fill(v reflect.Value) {
	zeros := f.mode == "zeros"
	switch at := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		if !zeros {
			*at = metav1.Unix(1763800000+f.number()*86399, 0)
		}
		return
	case *metav1.FieldsV1:
		at.Raw = []byte(`{"f:spec":{"k:{\"name\":\"a\"}":{".":{},"f:x":{}}}}`)
		return
	case *resource.Quantity:
		*at = resource.MustParse([]string{"0", "1500m", "64Gi", "12", "1e9", "-5k"}[f.number()&3])
		if zeros {
			*at = resource.Quantity{}
		}
		return
	case *intstr.IntOrString:
		if zeros {
			return
		}
		if *at = intstr.FromInt32(int32(f.number())); f.count&1 == 0 {
			*at = intstr.FromString(f.text())
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(!zeros)
	case reflect.Int32, reflect.Int64:
		if !zeros {
			v.SetInt(f.number())
		}
	case reflect.Uint8:
		v.SetUint(uint64(f.number() & 255))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		count := 2
		if zeros || v.Type().Elem().Kind() == reflect.Struct && v.Type().Elem().NumField() > 8 {
			count = 1
		}
		v.Set(reflect.MakeSlice(v.Type(), count, count))
		for i := range count {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value)
			f.count++
			// Keys that differ as texts do so as UTF-8 as well, so that their order is that of both.
			v.SetMapIndex(reflect.ValueOf("k"+strconv.Itoa(f.count%1000)).Convert(v.Type().Key()), value)
		}
	default:
		log.Fatalf("nobody fills %v", v.Type())
	}
}

func write(folder, name string, data []byte) {
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("protobufsamples FOLDER")
	}
	time.Local = time.UTC
	inProtobuf := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	inJSON := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{})
	for _, kind := range kinds {
		for _, mode := range []string{"full", "zeros", "odd", "empty"} {
			object := kind.object()
			name := reflect.TypeOf(object).Elem().Name()
			if mode == "odd" && name != "ConfigMap" && name != "Pod" {
				continue
			}
			if mode != "empty" {
				(&filler{mode: mode}).fill(reflect.ValueOf(object).Elem())
			}
			object.GetObjectKind().SetGroupVersionKind(kind.version.WithKind(name))
			var wire, again, text bytes.Buffer
			if err := inProtobuf.Encode(object, &wire); err != nil {
				log.Fatal(err)
			}
			// The server writes what it has read from its database, which holds protobuf.
			read, _, err := inProtobuf.Decode(wire.Bytes(), nil, kind.object())
			if err != nil {
				log.Fatal(err)
			}
			read.GetObjectKind().SetGroupVersionKind(kind.version.WithKind(name))
			if err := inProtobuf.Encode(read, &again); err != nil {
				log.Fatal(err)
			}
			if err := inJSON.Encode(read, &text); err != nil {
				log.Fatal(err)
			}
			base := strings.ToLower(name) + "-" + mode
			write(os.Args[1], base+".pb", again.Bytes())
			write(os.Args[1], base+".json", text.Bytes())
		}
	}
}
