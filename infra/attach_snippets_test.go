package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The snippets of one kind of API want only this API, and create nothing but the
// authorizer, its permission and a REST API's answers.
func TestSnippetsWantWhatTheyUse(t *testing.T) {
	for name, parameter := range map[string]string{"rest": "RestApiId", "http": "HttpApiId",
		"websocket": "WebSocketApiId"} {
		document := readYAML(t, name+".yaml")
		equal(t, name, sorted(at(t, document, "Parameters")), []string{"CheckFunctionArn", parameter})
		for id, value := range at(t, document, "Resources") {
			kind := text(properties(value.(map[string]any))["Type"])
			if !strings.HasSuffix(kind, "::Authorizer") && !strings.HasSuffix(kind, "::Permission") &&
				!strings.HasSuffix(kind, "::GatewayResponse") {
				t.Errorf("%s.yaml creates %s, a %s", name, id, kind)
			}
		}
		for block := range readHCL(t, name) {
			if kind, _, _ := strings.Cut(block, "."); !strings.HasSuffix(kind, "_authorizer") &&
				!strings.HasSuffix(kind, "_permission") && !strings.HasSuffix(kind, "_response") &&
				kind != "terraform" && kind != "mappings" {
				t.Errorf("module %s creates %s", name, block)
			}
		}
	}
}

// A WebSocket API has a REQUEST authorizer without a TTL, since API Gateway asks it for
// every connection.
func TestAttachToAWebSocketAPI(t *testing.T) {
	got := ofResources(t, at(t, readYAML(t, "websocket.yaml"), "Resources"))
	want := attachment{HTTPType: "REQUEST", HTTPTTL: "default", Responses: map[string]response{},
		Mapping: map[string]string{}, Permissions: []string{"/authorizers/ID"}}
	equal(t, "CloudFormation", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	blocks := readHCL(t, "websocket")
	equal(t, "Terraform", text(blocks["aws_apigatewayv2_authorizer.limits"]["authorizer_type"]), "REQUEST")
	source := text(blocks["aws_lambda_permission.websocket"]["source_arn"])
	equal(t, "permission", strings.HasSuffix(source, "/authorizers/${aws_apigatewayv2_authorizer}"),
		true)
}

// An OpenAPI body has the same authorizer and answers as the stack's REST API.
func TestAttachByOpenAPI(t *testing.T) {
	document := readYAML(t, "openapi.yaml")
	a := at(t, document, "components", "securitySchemes", "tidegate", "x-amazon-apigateway-authorizer")
	want := deployed(t)
	got := want
	got.RESTType, got.RESTTTL = strings.ToUpper(text(a["type"])), given(a["authorizerResultTtlInSeconds"])
	got.RESTIdentity = source(a["identitySource"])
	got.Responses = map[string]response{}
	for kind, value := range at(t, document, "x-amazon-apigateway-gateway-responses") {
		r := properties(value.(map[string]any))
		got.Responses[kind] = response{text(r["statusCode"]), stringsOf(r["responseParameters"]),
			strings.TrimSpace(text(r.at("responseTemplates", "application/json")))}
	}
	same(t, got)
}

func TestAttachByTerraform(t *testing.T) {
	blocks := readHCL(t, "rest")
	maps.Copy(blocks, readHCL(t, "http"))
	rest, http := blocks["aws_api_gateway_authorizer.limits"], blocks["aws_apigatewayv2_authorizer.limits"]
	got := attachment{
		RESTType: text(rest["type"]), RESTTTL: given(rest["authorizer_result_ttl_in_seconds"]),
		RESTIdentity: source(rest["identity_source"]),
		HTTPType:     text(http["authorizer_type"]), HTTPTTL: given(http["authorizer_result_ttl_in_seconds"]),
		HTTPIdentity: source(http["identity_sources"]),
		Payload:      text(http["authorizer_payload_format_version"]),
		Simple:       text(http["enable_simple_responses"]),
		Responses:    map[string]response{}, Mapping: stringsOf(blocks["mappings"]["value"]),
	}
	for _, name := range sorted(blocks) {
		p := properties(blocks[name])
		switch {
		case strings.HasPrefix(name, "aws_api_gateway_gateway_response."):
			got.Responses[text(p["response_type"])] = response{
				text(p["status_code"]), stringsOf(p["response_parameters"]),
				text(p.at("response_templates", "application/json")),
			}
		case strings.HasPrefix(name, "aws_lambda_permission."):
			got.add("AWS::Lambda::Permission", properties{"SourceArn": p["source_arn"]})
		}
	}
	got.Permissions = slices.Compact(got.Permissions)
	// Only Terraform needs an identity source, one that every call has: by default the
	// provider sends a header, and it sends "" unchanged.
	equal(t, "identity source", got.RESTIdentity, `"context.accountId"`)
	got.RESTIdentity = ""
	same(t, got)
	equal(t, "provider", blocks["terraform.aws"],
		map[string]any{"source": "hashicorp/aws", "version": ">= 5.0"})
}
