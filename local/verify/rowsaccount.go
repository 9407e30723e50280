package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var accountRows = []row{
	{
		id:       "stack",
		what:     "ElastiCache, Lambda and API Gateway took the template",
		source:   "cfn-lint 1.51 finds no error; no account confirms it",
		how:      "`aws cloudformation describe-stacks --stack-name STACK`",
		expected: "a status that ends in _COMPLETE, and is no ROLLBACK",
		probe:    awsStack,
		check:    printed(`(CREATE|UPDATE|IMPORT)_COMPLETE`),
		advice: "`aws cloudformation describe-stack-events` names the resource and the word that was " +
			"refused.",
	},
	{
		id:       "cache-user",
		what:     "ElastiCache takes access strings with selectors and braces",
		source:   unproven + " (`internal/store/acl`)",
		how:      "`aws elasticache describe-users --user-id STACK-check`",
		expected: "active",
		probe:    awsUser,
		check:    printed(`active`),
		advice:   "The user's event in CloudFormation says which word of the access string is refused.",
	},
	{
		id:     "pepper",
		what:   "Dynamic references in a function's environment",
		source: "CloudFormation user guide, Dynamic references",
		how: "`aws lambda get-function-configuration --function-name STACK-check --query " +
			"Environment.Variables.KEY_PEPPER`; the value is not shown",
		expected: "64 letters and digits",
		probe:    awsPepper,
		check:    pepper,
		advice: "Rotate the secret if `{{resolve` stands there: every key was hashed with a text that " +
			"is public. Then deploy again and make new keys.",
	},
	{
		id:       "log-key",
		what:     "Log groups may use the key",
		source:   "CloudWatch Logs user guide, Encrypt log data with KMS",
		how:      "`aws logs describe-log-groups`",
		expected: "every group has a key",
		probe:    awsLogKey,
		check:    encrypted,
		advice:   "The key's policy does not let CloudWatch Logs use it: see the stack's key.",
	},
	{
		id:     "log-lines",
		what:   "The platform's lines are off",
		source: "Lambda developer guide, Advanced logging controls",
		how: "`aws logs filter-log-events` since verify began; for levels deploy with `-c " +
			"logLevel=debug`, then `error`",
		expected: "no START, END, REPORT or platform line",
		probe:    awsLogLines,
		check:    ownLines,
		advice:   "They cost money, nothing else: set the function's system log level to WARN.",
	},
	{
		id:       "rest-authorizer",
		what:     "The REST authorizer has no cache and no identity source",
		source:   guide + "Configure a Lambda authorizer",
		how:      "`aws apigateway get-authorizers`",
		expected: "TTL 0, no identity source",
		probe:    awsRESTAuthorizer,
		check:    authorizers,
		advice: "Set the TTL to 0, take the source out unless Terraform needs it, and deploy the API " +
			"anew.",
	},
	{
		id:       "rest-gateway-response",
		what:     "ACCESS_DENIED maps the context into headers",
		source:   responses,
		how:      "`aws apigateway get-gateway-response`",
		expected: "Retry-After, RateLimit, RateLimit-Policy from `context.authorizer`",
		probe:    awsDenied,
		check:    mapsHeaders,
		advice: "The gateway response is missing or older: attach again, docs/attach.md. If this is " +
			"as expected and the 429 lacks the headers, AWS does not map them.",
	},
	{
		id:       "http-authorizer",
		what:     "The HTTP authorizer has no cache and no identity source",
		source:   guide + "Control access to HTTP APIs with Lambda authorizers",
		how:      "`aws apigatewayv2 get-authorizers`",
		expected: "TTL 0, no identity source",
		probe:    awsHTTPAuthorizer,
		check:    authorizers,
		advice:   "Set the TTL to 0 and take the source out.",
	},
	{
		id:     "usage-plan",
		what:   "A usage plan is verified after the authorizer",
		source: "AWS knowledge centre, API Gateway logs",
		how: "`aws logs filter-log-events` of the REST API's execution log since verify began, where " +
			"the stage writes one",
		expected: "for each request `Starting authorizer`, then `Verifying Usage Plan`",
		probe:    awsUsagePlan,
		check:    planAfterAuthorizer,
		advice: "A call that a plan refuses is not counted here, and costs no check: report it, and " +
			"go by that where you have both.",
	},
	{
		id:   "cache-metric",
		what: "CloudWatch's dimension for serverless caches",
		source: "ElastiCache user guide, Metrics for serverless; the dimension's spelling has no " +
			"source",
		how: "`aws cloudwatch list-metrics --namespace AWS/ElastiCache --metric-name " +
			"ElastiCacheProcessingUnits`",
		expected: "`clusterId` is the cache's name",
		probe:    awsMetric,
		check:    cacheDimension,
		advice: "The alarms on the cache see nothing: report the dimension's name. With nodes, or in " +
			"the first minutes, there is no such metric.",
	},
	{
		id:     "alarm",
		what:   "Calls without a credential make no alarm",
		source: unproven + " for what the metric Errors counts of them",
		how: "`aws cloudwatch describe-alarms --alarm-names STACK-CheckErrors`, after 600 calls " +
			"without a key within 5 minutes",
		expected: "OK",
		probe:    awsAlarm,
		check:    printed(`OK`),
		advice: "ALARM: read the log of check; if there are only refusals, raise the alarm's " +
			"threshold. INSUFFICIENT_DATA: wait 5 minutes.",
	},
}

// text returns the JSON string that a command printed.
func (e evidence) text() string {
	var text string
	if json.Unmarshal([]byte(e.output), &text) != nil {
		return strings.Join(strings.Fields(e.output), " ")
	}
	return text
}

// printed expects a word in a command's output.
func printed(pattern string) check {
	want := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(e evidence) outcome { return judged(want.MatchString(e.text()), e.text()) }
}

var sixtyFour = regexp.MustCompile(`^[0-9A-Za-z]{64}$`)

// pepper checks the pepper without showing it.
func pepper(e evidence) outcome {
	switch text := e.text(); {
	case sixtyFour.MatchString(text):
		return pass("64 letters and digits")
	case strings.Contains(text, "{{resolve"):
		return differ("an unresolved reference")
	default:
		return differ(fmt.Sprintf("%d characters of another form", len(text)))
	}
}

func encrypted(e evidence) outcome {
	var groups [][]*string
	if err := json.Unmarshal([]byte(e.output), &groups); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, group := range groups {
		if len(group) == 2 && group[0] != nil && group[1] == nil {
			return differ(*group[0] + " has no key")
		}
	}
	return judged(len(groups) > 0, fmt.Sprintf("%d groups", len(groups)))
}

var platformLine = regexp.MustCompile(`^(START|END|REPORT|INIT_START) |"type":\s*"platform\.`)

func ownLines(e evidence) outcome {
	var lines []string
	if err := json.Unmarshal([]byte(e.output), &lines); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, line := range lines {
		if found := platformLine.FindString(line); found != "" {
			return differ(found)
		}
	}
	return pass(fmt.Sprintf("none in %d lines", len(lines)))
}

func authorizers(e evidence) outcome {
	var list []struct {
		TTL    *int `json:"ttl"`
		Source any  `json:"source"`
	}
	if err := json.Unmarshal([]byte(e.output), &list); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, a := range list {
		if a.TTL == nil || *a.TTL != 0 {
			return differ("a TTL that is not 0")
		}
		if sources, isList := a.Source.([]any); a.Source != nil && a.Source != "" &&
			(!isList || len(sources) > 0) {
			return differ(fmt.Sprintf("identity source %v", a.Source))
		}
	}
	return judged(len(list) > 0, fmt.Sprintf("%d authorizers", len(list)))
}

func mapsHeaders(e evidence) outcome {
	var parameters map[string]string
	if err := json.Unmarshal([]byte(e.output), &parameters); err != nil {
		return differ("no parameters: " + err.Error())
	}
	for name, source := range map[string]string{
		"Retry-After": "retryAfter", "RateLimit": "rateLimit", "RateLimit-Policy": "rateLimitPolicy",
	} {
		if parameters["gatewayresponse.header."+name] != "context.authorizer."+source {
			return differ(name + " is " + fmt.Sprintf("%q", parameters["gatewayresponse.header."+name]))
		}
	}
	return pass("all three")
}

// stepOfRequest matches a line of an execution log.
var stepOfRequest = regexp.MustCompile(
	`(Starting authorizer|Verifying Usage Plan).* for request: ([0-9a-f-]+)`)

// planAfterAuthorizer compares the order of the two steps of each request in the log.
func planAfterAuthorizer(e evidence) outcome {
	var lines []string
	if err := json.Unmarshal([]byte(e.output), &lines); err != nil {
		return differ("not a list: " + err.Error())
	}
	steps := map[string][]string{}
	both := 0
	for _, line := range lines {
		found := stepOfRequest.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		steps[found[2]] = append(steps[found[2]], found[1])
	}
	for request, order := range steps {
		if len(order) < 2 {
			continue
		}
		both++
		if order[0] != "Starting authorizer" {
			return differ(strings.Join(order, ", then ") + ", for request " + request)
		}
	}
	if both == 0 {
		return skip("the execution log has no request with both steps yet")
	}
	return pass(fmt.Sprintf("in %d requests", both))
}

func cacheDimension(e evidence) outcome {
	var dimensions [][]string
	if err := json.Unmarshal([]byte(e.output), &dimensions); err != nil {
		return differ("not a list: " + err.Error())
	}
	for _, d := range dimensions {
		if len(d) == 2 && d[0] == "clusterId" {
			return pass(d[0] + " " + d[1])
		}
	}
	return differ(fmt.Sprintf("%v", dimensions))
}
