// Prints the API server's estimate of the highest cost of each CEL rule of a CustomResourceDefinition:
// rulecost FILE... A rule may cost 10,000,000 and a definition 100,000,000.
package main

import (
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

var environmentSet = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())

// times: how often the rules of s can be called: once for each item of the lists and maps above.
func visit(s *schema.Structural, path string, times uint64, total *uint64) {
	results, err := cel.Compile(s, model.SchemaDeclType(s, s.XEmbeddedResource), celconfig.PerCallLimit,
		environmentSet, cel.NewExpressionsEnvLoader())
	if err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	for i, result := range results {
		if result.Error != nil {
			log.Fatalf("%s: %v", path, result.Error)
		}
		cost := result.MaxCost * times
		message := result.MessageExpressionMaxCost * times
		*total += cost + message
		fmt.Printf("%11d %11d  %s#%d\n", cost, message, path, i)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		visit(&property, path+"."+name, times, total)
	}
	if s.Items != nil {
		visit(s.Items, path+"[]", times*most(s.ValueValidation.MaxItems), total)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		visit(s.AdditionalProperties.Structural, path+".*", times*most(s.ValueValidation.MaxProperties), total)
	}
}

func most(bound *int64) uint64 {
	if bound == nil {
		return math.MaxUint32
	}
	return uint64(*bound)
}

func main() {
	log.SetFlags(0)
	fmt.Printf("%11s %11s  %s\n", "rule", "message", "of (worst case, cost units)")
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		var crd v1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		var props apiextensions.JSONSchemaProps
		if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		structural, err := schema.NewStructural(&props)
		if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		var total uint64
		visit(structural, crd.Spec.Names.Kind, 1, &total)
		fmt.Printf("%23d  %s in all\n", total, crd.Spec.Names.Kind)
	}
}
