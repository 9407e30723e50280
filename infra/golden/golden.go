// Package golden holds the templates that CDK synthesises, as a test of package infra
// keeps them: hashes are replaced by the word HASH. The emulators under local read their
// rules from Dev, so that what is tried on a machine is what would be deployed.
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

// Environment is what a template sets for the function of an id that begins so.
// References, whose values nobody knows yet, are the word "reference".
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

// plain is a text, or a join of texts and references.
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
