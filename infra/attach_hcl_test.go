package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// readHCL evaluates the resources of a Terraform module, and the response mappings that it
// returns. It renders references in the same form as function text.
func readHCL(t *testing.T, module string) map[string]map[string]any {
	t.Helper()
	path := filepath.Join("attach", "terraform", module, "main.tf")
	file, diagnostics := hclparse.NewParser().ParseHCL(read(t, path), path)
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		t.Fatalf("%s has a body of type %T", path, file.Body)
	}
	blocks := map[string]map[string]any{}
	for _, block := range body.Blocks {
		if block.Type == "terraform" {
			for name, value := range attributes(t, block.Body.Blocks[0].Body) {
				blocks["terraform."+name], _ = value.(map[string]any)
			}
		}
		if block.Type == "output" && block.Labels[0] == "response_mappings" {
			blocks["mappings"] = attributes(t, block.Body)
		}
		if block.Type == "resource" {
			blocks[strings.Join(block.Labels, ".")] = attributes(t, block.Body)
		}
	}
	return blocks
}

func attributes(t *testing.T, body *hclsyntax.Body) map[string]any {
	t.Helper()
	all := map[string]any{}
	for name, attribute := range body.Attributes {
		value, diagnostics := attribute.Expr.Value(references(attribute.Expr))
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		all[name] = goValue(value)
	}
	return all
}

// references returns a context in which every reference of an expression has its name as
// value.
func references(expression hcl.Expression) *hcl.EvalContext {
	roots := map[string]cty.Value{}
	for _, traversal := range expression.Variables() {
		value := cty.StringVal("${" + fmt.Sprint(traversal.RootName()) + "}")
		for i := len(traversal) - 1; i > 0; i-- {
			if step, ok := traversal[i].(hcl.TraverseAttr); ok {
				value = cty.ObjectVal(map[string]cty.Value{step.Name: value})
			}
		}
		root := traversal.RootName()
		if old, ok := roots[root]; ok && old.Type().IsObjectType() {
			merged := old.AsValueMap()
			maps.Copy(merged, value.AsValueMap())
			value = cty.ObjectVal(merged)
		}
		roots[root] = value
	}
	return &hcl.EvalContext{Variables: roots}
}

func goValue(v cty.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case v.Type().IsObjectType() || v.Type().IsMapType():
		m := map[string]any{}
		for name, item := range v.AsValueMap() {
			m[name] = goValue(item)
		}
		return m
	}
	l := []any{}
	for _, item := range v.AsValueSlice() {
		l = append(l, goValue(item))
	}
	return l
}
