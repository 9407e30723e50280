package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/cloudformationinclude"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v3"
)

// attachment is what matters of attaching Tidegate to a REST API and to an HTTP API, whatever the tool that writes it down.
type attachment struct {
	RESTType, HTTPType, Payload string
	RESTTTL, HTTPTTL            string
	RESTIdentity, HTTPIdentity  int
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

// deployed is what the stack deploys for its examples, from the template that is also what the emulators read.
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
		a.RESTType, a.RESTTTL, a.RESTIdentity = text(p["Type"]), given(p["AuthorizerResultTtlInSeconds"]), len(text(p["IdentitySource"]))
	case "AWS::ApiGatewayV2::Authorizer":
		a.HTTPType, a.HTTPTTL, a.HTTPIdentity = text(p["AuthorizerType"]), given(p["AuthorizerResultTtlInSeconds"]), len(list(p["IdentitySource"]))
		a.Payload, a.Simple = text(p["AuthorizerPayloadFormatVersion"]), text(p["EnableSimpleResponses"])
	case "AWS::ApiGateway::GatewayResponse":
		a.Responses[text(p["ResponseType"])] = response{
			text(p["StatusCode"]), stringsOf(p["ResponseParameters"]), strings.TrimSpace(text(p.at("ResponseTemplates", "application/json"))),
		}
	case "AWS::ApiGatewayV2::Integration":
		for _, item := range list(p.at("ResponseParameters", "200", "ResponseParameters")) {
			pair, _ := item.(map[string]any)
			a.Mapping[text(pair["Destination"])] = text(pair["Source"])
		}
	case "AWS::Lambda::Permission":
		if source := text(p["SourceArn"]); strings.Contains(source, "/authorizers/") {
			a.Permissions = append(a.Permissions, "/authorizers/"+pick(strings.HasSuffix(source, "*"), "*", "ID"))
		}
	}
}

// given tells a zero from nothing.
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

// plain turns YAML into what JSON would be; tags such as !Ref into the functions that they stand for.
func plain(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(t, n.Content[0])
	case yaml.AliasNode:
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
		t.Fatalf("line %d: tag %s is not read here", n.Line, n.Tag)
	}
	return n.Value
}

func readYAML(t *testing.T, name string) map[string]any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(read(t, filepath.Join("attach", name)), &n); err != nil {
		t.Fatal(err)
	}
	document, ok := plain(t, &n).(map[string]any)
	if !ok {
		t.Fatalf("%s is no mapping", name)
	}
	return document
}

func at(t *testing.T, m map[string]any, path ...any) map[string]any {
	t.Helper()
	found, ok := properties(m).at(path...).(map[string]any)
	if !ok {
		t.Fatalf("there is no %v", path)
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
	same(t, ofResources(t, at(t, readYAML(t, "cloudformation.yaml"), "Resources")))
}

// The CDK reads both templates, resource by resource.
func TestTemplatesAreCloudFormation(t *testing.T) {
	for _, name := range []string{"cloudformation.yaml", "sam.yaml"} {
		app, _, err := newApp(nil)
		if err != nil {
			t.Fatal(err)
		}
		stack, id, path := awscdk.NewStack(app, jsii.String("Snippet"), nil), "Included", filepath.Join("attach", name)
		included := cloudformationinclude.NewCfnInclude(stack, &id, &cloudformationinclude.CfnIncludeProps{TemplateFile: &path})
		for _, resource := range sorted(at(t, readYAML(t, name), "Resources")) {
			if included.GetResource(&resource) == nil {
				t.Errorf("%s: %s was not read", name, resource)
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
		RESTType: text(a["FunctionPayloadType"]), RESTTTL: given(properties(a).at("Identity", "ReauthorizeEvery")), RESTIdentity: sources(a),
		HTTPType: "REQUEST", HTTPTTL: given(properties(b).at("Identity", "ReauthorizeEvery")), HTTPIdentity: sources(b),
		Payload: text(b["AuthorizerPayloadFormatVersion"]), Simple: text(b["EnableSimpleResponses"]),
		Responses: map[string]response{},
		// What SAM has no words for: its own permission is as wide as the API, and an HTTP API has no response mappings.
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

// sources is how many identity sources a SAM authorizer has.
func sources(authorizer properties) int {
	identity, _ := authorizer["Identity"].(map[string]any)
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(identity)), func(name string) bool { return name == "ReauthorizeEvery" }))
}

func TestAttachByServerlessFramework(t *testing.T) {
	document := readYAML(t, "serverless.yml")
	resources := maps.Clone(at(t, document, "resources", "Resources"))
	for id, extension := range at(t, document, "resources", "extensions") {
		kind := "AWS::Lambda::Permission"
		if strings.Contains(id, "Integration") {
			kind = "AWS::ApiGatewayV2::Integration"
		}
		extended, _ := extension.(map[string]any)
		resources[id] = map[string]any{"Type": kind, "Properties": extended["Properties"]}
	}
	got := ofResources(t, resources)
	rest := properties(at(t, document, "functions", "hello", "events", 0, "http", "authorizer"))
	http := properties(at(t, document, "provider", "httpApi", "authorizers", "tidegate"))
	got.RESTType, got.HTTPType = strings.ToUpper(text(rest["type"])), strings.ToUpper(text(http["type"]))
	got.RESTTTL, got.HTTPTTL = given(rest["resultTtlInSeconds"]), given(http["resultTtlInSeconds"])
	got.RESTIdentity, got.HTTPIdentity = len(text(rest["identitySource"])), len(list(http["identitySource"]))
	got.Payload, got.Simple = text(http["payloadVersion"]), text(http["enableSimpleResponses"])
	same(t, got)
	if rest["identitySource"] == nil {
		t.Error("without identitySource the framework takes the Authorization header")
	}
}

func TestAttachByTerraform(t *testing.T) {
	blocks := readHCL(t, "terraform.tf")
	rest, http := blocks["aws_api_gateway_authorizer.limits"], blocks["aws_apigatewayv2_authorizer.limits"]
	got := attachment{
		RESTType: text(rest["type"]), RESTTTL: given(rest["authorizer_result_ttl_in_seconds"]), RESTIdentity: len(text(rest["identity_source"])),
		HTTPType: text(http["authorizer_type"]), HTTPTTL: given(http["authorizer_result_ttl_in_seconds"]),
		HTTPIdentity: len(list(http["identity_sources"])),
		Payload:      text(http["authorizer_payload_format_version"]), Simple: text(http["enable_simple_responses"]),
		Responses: map[string]response{}, Mapping: stringsOf(blocks["mapping"]["mappings"]),
	}
	for _, name := range sorted(blocks) {
		p := properties(blocks[name])
		switch {
		case strings.HasPrefix(name, "aws_api_gateway_gateway_response."):
			got.Responses[text(p["response_type"])] = response{
				text(p["status_code"]), stringsOf(p["response_parameters"]), text(p.at("response_templates", "application/json")),
			}
		case strings.HasPrefix(name, "aws_lambda_permission."):
			got.add("AWS::Lambda::Permission", properties{"SourceArn": p["source_arn"]})
		}
	}
	got.Permissions = slices.Compact(got.Permissions)
	same(t, got)
	if rest["identity_source"] == nil {
		t.Error("without identity_source the provider takes the Authorization header")
	}
}

// readHCL evaluates the resources of a Terraform file; references are written as text writes them.
func readHCL(t *testing.T, name string) map[string]map[string]any {
	t.Helper()
	path := filepath.Join("attach", name)
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
		if block.Type == "resource" {
			blocks[strings.Join(block.Labels, ".")] = attributes(t, block.Body)
			for _, dynamic := range block.Body.Blocks {
				blocks["mapping"] = attributes(t, dynamic.Body.Blocks[0].Body)
			}
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

// references gives every reference of an expression a text.
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

// docs/attach.md shows every snippet by its path.
func TestAttachIsDocumented(t *testing.T) {
	entries, err := os.ReadDir("attach")
	if err != nil {
		t.Fatal(err)
	}
	document := string(read(t, filepath.Join("..", "docs", "attach.md")))
	for _, entry := range entries {
		if !strings.Contains(document, "infra/attach/"+entry.Name()) {
			t.Errorf("docs/attach.md does not name %s", entry.Name())
		}
	}
}
