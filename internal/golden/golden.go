// Package golden has parts of the templates that the CDK synthesises, with the word HASH
// in place of hashes. go -C infra test . -update rewrites them. The emulators
// under local configure themselves from Dev, so that a local run equals a deployment.
package golden

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// Dev has the APIs and the functions' environments of a stack with every setting at its
// default.
//
//go:embed dev.json
var Dev []byte

// Prod has the functions' environments of a stack in stage prod with every option on.
//
//go:embed prod.json
var Prod []byte

// Template has the functions' environments of the published template with its defaults:
// variables that nobody sets are empty.
//
//go:embed template.json
var Template []byte

// Attached holds attach/TOOL.json: the template that each tool makes of its snippet in
// infra/attach.
//
//go:embed attach/*.json
var Attached embed.FS

// Environment returns the variables that a template sets for the function whose id begins
// with function. A reference, whose value is unknown, becomes the word "reference".
func Environment(template []byte, function string) (map[string]string, error) {
	var parsed struct{ Resources map[string]json.RawMessage }
	if err := json.Unmarshal(template, &parsed); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for id, text := range parsed.Resources {
		var r struct {
			Type       string
			Properties struct {
				Environment struct{ Variables map[string]any }
			}
		}
		if !strings.HasPrefix(id, function) || json.Unmarshal(text, &r) != nil ||
			r.Type != "AWS::Lambda::Function" {
			continue
		}
		values := map[string]string{}
		for name, value := range r.Properties.Environment.Variables {
			values[name] = plain(value)
		}
		return values, nil
	}
	return nil, fmt.Errorf("the template has no function %s", function)
}

// plain returns a string value, or the result of an Fn::Join, with references replaced by
// the word "reference".
func plain(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if join, ok := v["Fn::Join"].([]any); ok {
			return plain(join[1])
		}
	case []any:
		var b strings.Builder
		for _, part := range v {
			b.WriteString(plain(part))
		}
		return b.String()
	}
	return "reference"
}
