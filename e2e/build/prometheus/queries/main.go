// Describes PromQL queries. It reads a list of queries as JSON strings and prints, for each, what it selects and
// by which labels it groups series, as Prometheus' own parser reports it; or what is wrong with it. With the name
// of a YAML file it prints its contents as JSON, for callers without a YAML parser.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

type selection struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"` // of its matchers
	// The values that it names for a label: with "=~" and "!~" a regular expression.
	Values map[string]string `json:"values"`
}

// Labels that an operation names, in addition to the selections below it.
type grouping struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

type answer struct {
	Error      string      `json:"error,omitempty"`
	Selections []selection `json:"selections"`
	Groupings  []grouping  `json:"groupings"`
}

func selectionsOf(node parser.Node) []selection {
	found := []selection{}
	parser.Inspect(node, func(at parser.Node, _ []parser.Node) error {
		if one, ok := at.(*parser.VectorSelector); ok {
			out := selection{Metric: one.Name, Labels: []string{}, Values: map[string]string{}}
			for _, matcher := range one.LabelMatchers {
				if matcher.Name == labels.MetricName {
					// {__name__="..."}, or {__name__=~"..."}, which has no name.
					if out.Metric == "" && matcher.Type == labels.MatchEqual {
						out.Metric = matcher.Value
					}
					continue
				}
				out.Labels = append(out.Labels, matcher.Name)
				out.Values[matcher.Name] = matcher.Value
			}
			found = append(found, out)
		}
		return nil
	})
	return found
}

func metricsOf(node parser.Node) []string {
	found := []string{}
	for _, one := range selectionsOf(node) {
		found = append(found, one.Metric)
	}
	return found
}

func judge(query string) answer {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return answer{Error: err.Error()}
	}
	out := answer{Selections: selectionsOf(expr), Groupings: []grouping{}}
	parser.Inspect(expr, func(at parser.Node, _ []parser.Node) error {
		switch one := at.(type) {
		case *parser.AggregateExpr:
			out.Groupings = append(out.Groupings, grouping{one.Grouping, metricsOf(one.Expr)})
		case *parser.BinaryExpr:
			if one.VectorMatching == nil {
				break
			}
			for _, side := range []parser.Expr{one.LHS, one.RHS} {
				out.Groupings = append(out.Groupings, grouping{one.VectorMatching.MatchingLabels, metricsOf(side)})
			}
		}
		return nil
	})
	return out
}

func read(path string) any {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		log.Fatalf("%s: %v", path, err)
	}
	return tree
}

func judgeAll() []answer {
	var queries []string
	if err := json.NewDecoder(os.Stdin).Decode(&queries); err != nil {
		log.Fatal(err)
	}
	answers := []answer{}
	for _, query := range queries {
		answers = append(answers, judge(query))
	}
	return answers
}

func main() {
	var out any
	if len(os.Args) > 1 {
		out = read(os.Args[1])
	} else {
		out = judgeAll()
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}
