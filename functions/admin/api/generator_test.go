package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Generators of clients accept the document: no security scheme has the name of a schema,
// which would get the same type, and each schema has only keywords of JSON Schema.
func TestDocumentForGenerators(t *testing.T) {
	var document struct {
		Components struct {
			Schemas         map[string]json.RawMessage
			SecuritySchemes map[string]any
		}
	}
	text := newService(t).get("/openapi.json").wants(http.StatusOK).text
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Components.Schemas) < 20 || len(document.Components.SecuritySchemes) != 3 {
		t.Fatalf("got %d schemas and %d security schemes, want some 50 and 3",
			len(document.Components.Schemas), len(document.Components.SecuritySchemes))
	}
	for name, schema := range document.Components.Schemas {
		for scheme := range document.Components.SecuritySchemes {
			if strings.EqualFold(name, scheme) {
				t.Errorf("the security scheme %s has the name of the schema %s", scheme, name)
			}
		}
		checkKeywords(t, name, schema)
	}
}

// keywords are the keywords of JSON Schema 2020-12 that the document uses.
const keywords = `$ref $schema additionalProperties anyOf contentEncoding default deprecated description
 enum example examples format items maxItems maxLength maximum minItems minLength minimum oneOf pattern
 properties propertyNames readOnly required title type uniqueItems`

func checkKeywords(t *testing.T, place string, schema json.RawMessage) {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil {
		return // true, false, or a list of schemas
	}
	for name, value := range members {
		if !slices.Contains(strings.Fields(keywords), name) {
			t.Errorf("%s: %s is no keyword of JSON Schema", place, name)
		}
		switch name {
		case "properties":
			var properties map[string]json.RawMessage
			if err := json.Unmarshal(value, &properties); err != nil {
				t.Fatal(err)
			}
			for property, inner := range properties {
				checkKeywords(t, place+"."+property, inner)
			}
		case "items", "additionalProperties":
			checkKeywords(t, place+"."+name, value)
		}
	}
}

// A text that must not be blank is refused in words, not by a pattern.
func TestBlankReason(t *testing.T) {
	s := newService(t)
	s.do(http.MethodPost, "/keys/"+s.create("a").ID+"/ban",
		map[string]any{"reason": "  ", "until": "2030-01-02T03:04:05Z"}, nil).
		wants(http.StatusUnprocessableEntity, `"location":"body.reason"`, "must be text that is not blank")
}
