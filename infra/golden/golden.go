// Package golden has the templates that CDK synthesises. A test of package infra updates
// them, with the word HASH in place of hashes. The emulators under local read their rules
// from Dev, so that local runs equal a deployment.
package golden

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// Dev is the template of a stack with every flag at its default.
//
//go:embed dev.json
var Dev []byte

// Prod is the template of a stack in stage prod with every option on.
//
//go:embed prod.json
var Prod []byte

// Attached holds, by the name of each tool, what it makes of its snippet in infra/attach.
//
//go:embed attach/*.json
var Attached embed.FS

// Environment returns the variables that a template sets for the function whose id has
// this prefix. References, whose values are unknown, are the word "reference".
func Environment(template []byte, function string) (map[string]string, error) {
	var made struct{ Resources map[string]json.RawMessage }
	if err := json.Unmarshal(template, &made); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for id, text := range made.Resources {
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

// plain returns a text, or a join of texts and references.
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
