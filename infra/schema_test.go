package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// schemas are CloudFormation's schemas, as the CDK publishes them.
type schemas struct {
	types       map[string]typeOfResource
	definitions map[string]typeOfResource // of nested properties, by id
}

// typeOfResource is a resource type, or the type of a nested property.
type typeOfResource struct {
	ID                 string `json:"$id"`
	CloudFormationType string
	PrimaryIdentifier  []string
	Properties         map[string]property
}

type property struct {
	Type              valueType
	Required          bool
	CausesReplacement string
}

// valueType is string, integer, number, boolean, array, map, ref, tag, json or union.
type valueType struct {
	Type      string
	Reference struct {
		Ref string `json:"$ref"`
	}
	Element       *valueType
	AllowedValues []any
}

var readSchemas = sync.OnceValues(func() (schemas, error) {
	file, err := os.Open(packages + "/node_modules/@aws-cdk/aws-service-spec/db.json.gz")
	if err != nil {
		return schemas{}, err
	}
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	if err != nil {
		return schemas{}, err
	}
	var spec struct {
		Schema struct {
			Resource, TypeDefinition struct{ Entities []typeOfResource }
		}
	}
	if err := json.NewDecoder(content).Decode(&spec); err != nil {
		return schemas{}, err
	}
	s := schemas{map[string]typeOfResource{}, map[string]typeOfResource{}}
	for _, entity := range spec.Schema.Resource.Entities {
		s.types[entity.CloudFormationType] = entity
	}
	for _, entity := range spec.Schema.TypeDefinition.Entities {
		s.definitions[entity.ID] = entity
	}
	return s, nil
})

// schemasOf returns the schemas. If they are not installed, the test is skipped, or fails
// in CI.
func schemasOf(t *testing.T) schemas {
	t.Helper()
	tool(t, "@aws-cdk", "aws-service-spec", "db.json.gz")
	s, err := readSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check returns how resources differ from their schemas.
func (s schemas) check(resources map[string]any) []string {
	var problems []string
	for _, id := range sorted(resources) {
		r, _ := resources[id].(map[string]any)
		kind, known := s.types[text(r["Type"])]
		if !known {
			problems = append(problems, fmt.Sprintf("%s: unknown type %v", id, r["Type"]))
			continue
		}
		own, _ := r["Properties"].(map[string]any)
		problems = append(problems, s.object(id, own, kind.Properties)...)
	}
	return problems
}

func (s schemas) object(path string, value map[string]any, known map[string]property) []string {
	var problems []string
	for _, name := range sorted(value) {
		p, ok := known[name]
		if !ok {
			problems = append(problems, path+"."+name+": unknown property")
			continue
		}
		problems = append(problems, s.value(path+"."+name, value[name], p.Type)...)
	}
	for name, p := range known {
		if _, given := value[name]; p.Required && !given {
			problems = append(problems, path+"."+name+": missing")
		}
	}
	return problems
}

func (s schemas) value(path string, value any, kind valueType) []string {
	object, isObject := value.(map[string]any)
	if isObject && isIntrinsic(object) {
		return nil
	}
	items, isList := value.([]any)
	switch kind.Type {
	case "ref":
		if isObject {
			return s.object(path, object, s.definitions[kind.Reference.Ref].Properties)
		}
	case "array":
		var problems []string
		for i, item := range items {
			problems = append(problems, s.value(path+"."+strconv.Itoa(i), item, *kind.Element)...)
		}
		if isList {
			return problems
		}
	case "map":
		var problems []string
		for _, name := range sorted(object) {
			problems = append(problems, s.value(path+"."+name, object[name], *kind.Element)...)
		}
		if isObject {
			return problems
		}
	case "tag":
		if isObject && object["Key"] != nil && object["Value"] != nil {
			return nil
		}
	case "json", "union":
		return nil
	default:
		return scalar(path, value, kind)
	}
	return []string{fmt.Sprintf("%s: %v is no %s", path, value, kind.Type)}
}

// scalar checks a value that is written as one: CloudFormation converts between them.
func scalar(path string, value any, kind valueType) []string {
	rendered := fmt.Sprint(value)
	is := func(allowed any) bool { return fmt.Sprint(allowed) == rendered }
	var err error
	switch value.(type) {
	case map[string]any, []any, nil:
		err = fmt.Errorf("%v is no %s", value, kind.Type)
	}
	switch kind.Type {
	case "integer", "number":
		_, err = strconv.ParseFloat(rendered, 64)
	case "boolean":
		_, err = strconv.ParseBool(rendered)
	}
	if err == nil && len(kind.AllowedValues) > 0 && !slices.ContainsFunc(kind.AllowedValues, is) {
		err = fmt.Errorf("%s is none of %v", rendered, kind.AllowedValues)
	}
	if err != nil {
		return []string{path + ": " + err.Error()}
	}
	return nil
}

func isIntrinsic(object map[string]any) bool {
	for name := range object {
		if len(object) == 1 && (name == "Ref" || strings.HasPrefix(name, "Fn::")) {
			return true
		}
	}
	return false
}

// The stack's templates and the snippets, also as their tools package them, have the
// properties and values that CloudFormation knows.
func TestTemplatesFollowTheSchemas(t *testing.T) {
	s := schemasOf(t)
	templates := map[string]map[string]any{"dev": plainResources(of(t, dev).Resources),
		"prod": plainResources(of(t, prod).Resources), "IPv6": plainResources(of(t, overIPv6).Resources)}
	for _, name := range []string{"rest.yaml", "http.yaml", "websocket.yaml"} {
		templates[name] = at(t, readYAML(t, name), "Resources")
	}
	for _, path := range glob(t, filepath.Join("..", "internal", "golden", "attach", "*.json")) {
		templates[path] = resourcesOf(t, path)
	}
	checked := 0
	for name, resources := range templates {
		for _, problem := range s.check(resources) {
			t.Errorf("%s: %s", name, problem)
		}
		checked += len(resources)
	}
	if checked < 200 {
		t.Errorf("got %d resources, want at least 200", checked)
	}
}
