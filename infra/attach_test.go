package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/cloudformationinclude"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// attachment has the properties by which Tidegate is attached to a REST API and to an
// HTTP API. They must be equal for all tools.
type attachment struct {
	RESTType, HTTPType, Payload string
	RESTTTL, HTTPTTL            string
	RESTIdentity, HTTPIdentity  string // "" for no identity source
	Simple                      string
	Responses                   map[string]response
	Mapping                     map[string]string // of status 200
	Permissions                 []string          // ends of the source ARNs
}

type response struct {
	Status     string
	Parameters map[string]string
	Template   string
}

// deployed returns the attachment of the stack's examples, from the template that the
// emulators read.
func deployed(t *testing.T) attachment {
	t.Helper()
	return ofResources(t, plainResources(of(t, dev).Resources))
}

func plainResources(all map[string]resource) map[string]any {
	plain := map[string]any{}
	for id, r := range all {
		plain[id] = map[string]any{"Type": r.Type, "Properties": map[string]any(r.Properties)}
	}
	return plain
}

// ofResources reads CloudFormation resources.
func ofResources(t *testing.T, resources map[string]any) attachment {
	t.Helper()
	a := attachment{Responses: map[string]response{}, Mapping: map[string]string{}}
	for _, id := range sorted(resources) {
		r, _ := resources[id].(map[string]any)
		p, _ := r["Properties"].(map[string]any)
		a.add(text(r["Type"]), p)
	}
	slices.Sort(a.Permissions)
	a.Permissions = slices.Compact(a.Permissions)
	return a
}

func (a *attachment) add(kind string, p properties) {
	switch kind {
	case "AWS::ApiGateway::Authorizer":
		a.RESTType, a.RESTTTL, a.RESTIdentity = text(p["Type"]), given(p["AuthorizerResultTtlInSeconds"]),
			source(p["IdentitySource"])
	case "AWS::ApiGatewayV2::Authorizer":
		a.HTTPType, a.HTTPTTL, a.HTTPIdentity = text(p["AuthorizerType"]),
			given(p["AuthorizerResultTtlInSeconds"]), source(p["IdentitySource"])
		a.Payload, a.Simple = text(p["AuthorizerPayloadFormatVersion"]), text(p["EnableSimpleResponses"])
	case "AWS::ApiGateway::GatewayResponse":
		a.Responses[text(p["ResponseType"])] = response{
			text(p["StatusCode"]), stringsOf(p["ResponseParameters"]),
			strings.TrimSpace(text(p.at("ResponseTemplates", "application/json"))),
		}
	case "AWS::ApiGatewayV2::Integration":
		for _, item := range list(p.at("ResponseParameters", "200", "ResponseParameters")) {
			pair, _ := item.(map[string]any)
			a.Mapping[text(pair["Destination"])] = text(pair["Source"])
		}
	case "AWS::Lambda::Permission":
		if arn := text(p["SourceArn"]); strings.Contains(arn, "/authorizers/") {
			id := "ID"
			if strings.HasSuffix(arn, "*") {
				id = "*"
			}
			a.Permissions = append(a.Permissions, "/authorizers/"+id)
		}
	}
}

// source returns an identity source as API Gateway gets it. An empty string is a source,
// which API Gateway refuses. An empty list is no source.
func source(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return fmt.Sprintf("%q", v)
	}
	if len(list(value)) == 0 {
		return ""
	}
	return fmt.Sprint(value)
}

// given returns a value as text, or "default" for a missing value.
func given(value any) string {
	if value == nil {
		return "default"
	}
	return text(value)
}

func stringsOf(value any) map[string]string {
	all := map[string]string{}
	m, _ := value.(map[string]any)
	for name, v := range m {
		all[name] = text(v)
	}
	return all
}

// plain converts YAML to the values of JSON. It converts !Ref to a JSON object, and !Sub
// to a string.
func plain(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(t, n.Content[0])
	case yaml.AliasNode:
		if n.Alias == nil {
			t.Fatalf("line %d: CloudFormation refuses aliases", n.Line)
		}
		return plain(t, n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(t, n.Content[i+1])
		}
		return m
	case yaml.ScalarNode: // below
	case yaml.SequenceNode:
		l := []any{}
		for _, item := range n.Content {
			l = append(l, plain(t, item))
		}
		return l
	}
	switch n.Tag {
	case "!Ref":
		return map[string]any{"Ref": n.Value}
	case "!Sub":
		return n.Value // with ${…} for references, as text writes them
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		t.Fatalf("line %d: unknown tag %s", n.Line, n.Tag)
	}
	var value any
	if err := n.Decode(&value); err != nil {
		t.Fatalf("line %d: %v", n.Line, err)
	}
	return value
}

func readYAML(t *testing.T, name string) map[string]any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(read(t, filepath.Join("attach", name)), &n); err != nil {
		t.Fatal(err)
	}
	if name != "serverless.yml" { // the framework resolves aliases itself
		refuseAliases(&n)
	}
	document, ok := plain(t, &n).(map[string]any)
	if !ok {
		t.Fatalf("%s: want a mapping", name)
	}
	return document
}

// refuseAliases takes the targets from aliases, so that plain fails.
func refuseAliases(n *yaml.Node) {
	n.Alias = nil
	for _, child := range n.Content {
		refuseAliases(child)
	}
}

// shown returns what a snippet shows in a comment, from a line that begins with first to
// the snippet's end.
func shown(t *testing.T, name, first string) string {
	t.Helper()
	_, text, found := strings.Cut(string(read(t, filepath.Join("attach", name))), "# "+first)
	if !found {
		t.Fatalf("%s: want a comment with %s", name, first)
	}
	lines := strings.Split(first+text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimLeft(line, " "), "# ")
	}
	return strings.Join(lines, "\n")
}

func at(t *testing.T, m map[string]any, path ...any) map[string]any {
	t.Helper()
	found, ok := properties(m).at(path...).(map[string]any)
	if !ok {
		t.Fatalf("want a mapping at %v", path)
	}
	return found
}

func same(t *testing.T, got attachment) {
	t.Helper()
	if diff := cmp.Diff(deployed(t), got); diff != "" {
		t.Errorf("differs from what the stack deploys (-stack +snippet):\n%s", diff)
	}
}

func TestAttachByCloudFormation(t *testing.T) {
	resources := maps.Clone(at(t, readYAML(t, "rest.yaml"), "Resources"))
	maps.Copy(resources, at(t, readYAML(t, "http.yaml"), "Resources"))
	var integration map[string]any
	if err := yaml.Unmarshal([]byte(shown(t, "http.yaml", "ResponseParameters:")), &integration); err != nil {
		t.Fatal(err)
	}
	integration["ApiId"], integration["IntegrationType"] = map[string]any{"Ref": "HttpApiId"}, "HTTP_PROXY"
	resources["HttpIntegration"] = map[string]any{"Type": "AWS::ApiGatewayV2::Integration",
		"Properties": integration}
	same(t, ofResources(t, resources))
	compareGolden(t, "cloudformation", resources)
}

// The CDK can include the templates with all their resources.
func TestTemplatesAreCloudFormation(t *testing.T) {
	for _, name := range []string{"rest.yaml", "http.yaml", "websocket.yaml", "sam.yaml"} {
		app, err := newApp(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		stack, id, path := awscdk.NewStack(app, jsii.String("Snippet"), nil), "Included",
			filepath.Join("attach", name)
		included := cloudformationinclude.NewCfnInclude(stack, &id,
			&cloudformationinclude.CfnIncludeProps{TemplateFile: &path})
		for _, resource := range sorted(at(t, readYAML(t, name), "Resources")) {
			if included.GetResource(&resource) == nil {
				t.Errorf("%s: want resource %s in the included template", name, resource)
			}
		}
	}
}

func TestAttachBySAM(t *testing.T) {
	document := readYAML(t, "sam.yaml")
	rest := at(t, document, "Resources", "RestApi", "Properties")
	http := at(t, document, "Resources", "HttpApi", "Properties")
	a, b := at(t, rest, "Auth", "Authorizers", "Tidegate"), at(t, http, "Auth", "Authorizers", "Tidegate")
	got := attachment{
		RESTType: text(a["FunctionPayloadType"]),
		RESTTTL:  given(properties(a).at("Identity", "ReauthorizeEvery")), RESTIdentity: identitySources(a),
		HTTPType: "REQUEST", HTTPTTL: given(properties(b).at("Identity", "ReauthorizeEvery")),
		HTTPIdentity: identitySources(b),
		Payload:      text(b["AuthorizerPayloadFormatVersion"]), Simple: text(b["EnableSimpleResponses"]),
		Responses: map[string]response{},
		// SAM cannot express two things: its own permission covers the whole API, and an
		// HTTP API has no response mappings.
		Mapping: deployed(t).Mapping, Permissions: deployed(t).Permissions,
	}
	for kind, value := range at(t, rest, "GatewayResponses") {
		r, _ := value.(map[string]any)
		parameters := map[string]string{}
		for name, expression := range stringsOf(properties(r).at("ResponseParameters", "Headers")) {
			parameters["gatewayresponse.header."+name] = expression
		}
		template := text(properties(r).at("ResponseTemplates", "application/json"))
		got.Responses[kind] = response{text(r["StatusCode"]), parameters, strings.TrimSpace(template)}
	}
	same(t, got)
	equal(t, "default of the REST API", properties(rest).at("Auth", "DefaultAuthorizer"), "Tidegate")
	equal(t, "default of the HTTP API", properties(http).at("Auth", "DefaultAuthorizer"), "Tidegate")
}

// identitySources returns the identity sources of a SAM authorizer.
func identitySources(authorizer properties) string {
	identity, _ := authorizer["Identity"].(map[string]any)
	return strings.Join(slices.DeleteFunc(sorted(identity), func(name string) bool {
		return name == "ReauthorizeEvery"
	}), ",")
}

func TestAttachByServerlessFramework(t *testing.T) {
	document := readYAML(t, "serverless.yml")
	resources := maps.Clone(at(t, document, "resources", "Resources"))
	for id, extension := range at(t, document, "resources", "extensions") {
		kind := "AWS::Lambda::Permission"
		switch {
		case strings.Contains(id, "Integration"):
			kind = "AWS::ApiGatewayV2::Integration"
		case strings.Contains(id, "Method"):
			continue // TestPackagedByServerlessFramework checks it
		}
		extended, _ := extension.(map[string]any)
		resources[id] = map[string]any{"Type": kind, "Properties": extended["Properties"]}
	}
	got := ofResources(t, resources)
	rest := properties(at(t, document, "functions", "hello", "events", 0, "http", "authorizer"))
	http := properties(at(t, document, "provider", "httpApi", "authorizers", "tidegate"))
	got.RESTType, got.HTTPType = strings.ToUpper(text(rest["type"])), strings.ToUpper(text(http["type"]))
	got.RESTTTL, got.HTTPTTL = given(rest["resultTtlInSeconds"]), given(http["resultTtlInSeconds"])
	got.RESTIdentity, got.HTTPIdentity = source(rest["identitySource"]), source(http["identitySource"])
	got.Payload, got.Simple = text(http["payloadVersion"]), text(http["enableSimpleResponses"])
	same(t, got)
}
