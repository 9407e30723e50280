package api

import (
	"bytes"
	_ "embed"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// openapiSchema is the schema of OpenAPI 3.1 documents, as the OpenAPI Initiative
// publishes it (https://spec.openapis.org/oas/3.1/schema/2022-10-07).
//
//go:embed testdata/openapi-3.1.json
var openapiSchema []byte

// openAPI is the API's OpenAPI document. Its schemas are compiled as they are needed.
type openAPI struct {
	root  map[string]any
	paths map[string]any
	*jsonschema.Compiler
}

// documentURL is the name under which the compiler knows the document.
const documentURL = "https://api.example/openapi.json"

func newOpenAPI(t testing.TB, text []byte) *openAPI {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &openAPI{Compiler: jsonschema.NewCompiler()}
	d.AssertFormat()
	if err := d.AddResource(documentURL, value); err != nil {
		t.Fatal(err)
	}
	d.root, _ = value.(map[string]any)
	d.paths, _ = d.root["paths"].(map[string]any)
	return d
}

// validate checks the document against the schema of OpenAPI, and compiles the schema of
// each response, which checks them against the schema of JSON Schema.
func (d *openAPI) validate(t testing.TB) {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapiSchema))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.AddResource("https://api.example/schema.json", schema); err != nil {
		t.Fatal(err)
	}
	if err := d.MustCompile("https://api.example/schema.json").Validate(any(d.root)); err != nil {
		t.Error(err)
	}
	for path, item := range d.paths {
		for method, operation := range item.(map[string]any) {
			for status, response := range operation.(map[string]any)["responses"].(map[string]any) {
				content, _ := response.(map[string]any)["content"].(map[string]any)
				for kind := range content {
					if _, err := d.Compile(pointer(path, method, status, kind)); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

// pointer is the address of the schema of a response.
func pointer(path, method, status, kind string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B")
	address := documentURL + "#/paths"
	for _, step := range []string{path, method, "responses", status, "content", kind, "schema"} {
		address += "/" + escape.Replace(step)
	}
	return address
}

// operation returns the path of the document that a URL's path matches. A path with more
// literal segments is preferred, as in the router.
func (d *openAPI) operation(method, path string) (found string, documented bool) {
	best := -1
	for pattern, item := range d.paths {
		if _, has := item.(map[string]any)[strings.ToLower(method)]; !has {
			continue
		}
		if literals, ok := matches(pattern, path); ok && literals > best {
			best, found = literals, pattern
		}
	}
	return found, best >= 0
}

func matches(pattern, path string) (literals int, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return 0, false
	}
	for i, segment := range want {
		switch {
		case strings.HasPrefix(segment, "{") && got[i] != "":
		case segment == got[i]:
			literals++
		default:
			return 0, false
		}
	}
	return literals, true
}

// check reports a response that is not as documented: its status, its media type or its
// body. A path that no operation has is answered by a problem that no operation documents.
func (d *openAPI) check(t testing.TB, method, path string, r reply) {
	t.Helper()
	pattern, documented := d.operation(method, path)
	if !documented {
		if r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: got status %d of an operation that is not documented", r.what, r.status)
		}
		return
	}
	operation := d.paths[pattern].(map[string]any)[strings.ToLower(method)].(map[string]any)
	responses := operation["responses"].(map[string]any)
	status := strconv.Itoa(r.status)
	if responses[status] == nil {
		status = "default"
	}
	response, _ := responses[status].(map[string]any)
	if response == nil {
		t.Errorf("%s: status %d is not documented", r.what, r.status)
		return
	}
	content, _ := response["content"].(map[string]any)
	if r.text == "" {
		if len(content) > 0 && r.status != http.StatusNotModified {
			t.Errorf("%s: got no body, and status %d is documented with one", r.what, r.status)
		}
		return
	}
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || content[kind] == nil {
		t.Errorf("%s: a body of type %q is not documented for status %d", r.what, kind, r.status)
		return
	}
	if !strings.Contains(kind, "json") {
		return
	}
	schema, err := d.Compile(pointer(pattern, strings.ToLower(method), status, kind))
	if err != nil {
		t.Fatal(err)
	}
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(r.text))
	if err != nil {
		t.Fatalf("%s: %v", r.what, err)
	}
	if err := schema.Validate(body); err != nil {
		t.Errorf("%s: the response is not as documented: %v\n%s", r.what, err, r.text)
	}
}
