package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var executeAPI = regexp.MustCompile(`^([a-z0-9]+)\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// apiID returns the API's id from a URL of execute-api; "" for another URL.
func apiID(text string) string {
	id, _ := executeAddress(text)
	return id
}

// executeAddress returns the API's id and the region from a URL of execute-api.
func executeAddress(text string) (id, region string) {
	u, err := url.Parse(text)
	if err != nil {
		return "", ""
	}
	if parts := executeAPI.FindStringSubmatch(u.Hostname()); parts != nil {
		return parts[1], parts[2]
	}
	return "", ""
}

// region returns the --region flag with the region of the first URL that has one. Without
// the flag, aws uses its configured region.
func (s *session) region() []string {
	for _, url := range []string{s.rest, s.http, s.dashboard} {
		if _, region := executeAddress(url); region != "" {
			return []string{"--region", region}
		}
	}
	return nil
}

// stage returns the stack's name without the prefix "tidegate-".
func (s *session) stage() string { return strings.TrimPrefix(s.stack, "tidegate-") }

// invokesCheck returns the part of a query that leaves the authorizers whose URI invokes
// the stack's check function. Others, such as Cognito's, may cache.
func (s *session) invokesCheck(uri string) string {
	name := ":function:" + s.stack + "-check"
	return fmt.Sprintf("?%[1]s && (contains(%[1]s, '%[2]s/') || contains(%[1]s, '%[2]s:'))", uri, name)
}

// awsProbe returns a probe that runs one command of the AWS CLI. args returns the
// command's arguments for a session.
func awsProbe(needs need, args func(*session) []string) *probe {
	shown := args(&session{options: options{stack: "STACK", rest: shownAPI, http: shownAPI}})
	p := &probe{what: "aws " + shown[0] + " " + shown[1], needs: needAWS | needs, commands: 1}
	p.run = func(ctx context.Context, s *session) evidence {
		out, err := s.aws(ctx, append(args(s), s.region()...)...)
		if err != nil {
			return failed(err)
		}
		if len(bytes.TrimSpace(out)) == 0 {
			return failed(errors.New("aws printed nothing"))
		}
		return evidence{output: string(out), answers: []answer{{}}}
	}
	return p
}

// skipIfNotFound makes a probe skip its rows, with the reason, if AWS has no such
// resource.
func skipIfNotFound(p *probe, reason string) *probe {
	run := p.run
	p.run = func(ctx context.Context, s *session) evidence {
		e := run(ctx, s)
		if err := e.last().err; err != nil && strings.Contains(err.Error(), "ResourceNotFoundException") {
			return evidence{reason: reason}
		}
		return e
	}
	return p
}

// executionLog returns the log group to which API Gateway writes the steps of a REST
// API's requests.
func executionLog(rest string) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(rest, "https://"), "/")
	stage, _, _ := strings.Cut(path, "/")
	return "API-Gateway-Execution-Logs_" + apiID(rest) + "/" + stage
}

const shownAPI = "https://id.execute-api.region.amazonaws.com"

var (
	awsStack = awsProbe(0, func(s *session) []string {
		return []string{"cloudformation", "describe-stacks", "--stack-name", s.stack,
			"--query", "Stacks[0].StackStatus"}
	})
	awsUser = awsProbe(0, func(s *session) []string {
		return []string{"elasticache", "describe-users", "--user-id", s.stack + "-check",
			"--query", "Users[0].Status"}
	})
	awsPepper = awsProbe(0, func(s *session) []string {
		return []string{"lambda", "get-function-configuration", "--function-name", s.stack + "-check",
			"--query", "Environment.Variables.KEY_PEPPER"}
	})
	awsLogKey = awsProbe(0, func(s *session) []string {
		return []string{"logs", "describe-log-groups", "--log-group-name-prefix",
			"/tidegate/" + s.stage() + "/",
			"--query", "logGroups[].[logGroupName, kmsKeyId]"}
	})
	awsLogLines = awsProbe(0, func(s *session) []string {
		return []string{"logs", "filter-log-events", "--log-group-name", "/tidegate/" + s.stage() + "/check",
			"--start-time", fmt.Sprint(s.began.UnixMilli()), "--max-items", "100", "--query",
			"events[].message"}
	})
	awsRESTAuthorizer = awsProbe(needRESTID, func(s *session) []string {
		return []string{"apigateway", "get-authorizers", "--rest-api-id", apiID(s.rest), "--query",
			"items[" + s.invokesCheck("authorizerUri") + "]." +
				"{ttl: authorizerResultTtlInSeconds, source: identitySource, type: type}"}
	})
	awsDenied = awsProbe(needRESTID, func(s *session) []string {
		return []string{"apigateway", "get-gateway-response", "--rest-api-id", apiID(s.rest),
			"--response-type", "ACCESS_DENIED", "--query", "responseParameters"}
	})
	awsHTTPAuthorizer = awsProbe(needHTTPID, func(s *session) []string {
		return []string{"apigatewayv2", "get-authorizers", "--api-id", apiID(s.http), "--query",
			"Items[" + s.invokesCheck("AuthorizerUri") + "]." +
				"{ttl: AuthorizerResultTtlInSeconds, source: IdentitySource, type: AuthorizerType}"}
	})
	awsUsagePlan = skipIfNotFound(awsProbe(needRESTID, func(s *session) []string {
		return []string{"logs", "filter-log-events", "--log-group-name", executionLog(s.rest),
			"--start-time", fmt.Sprint(s.began.UnixMilli()), "--max-items", "100",
			"--filter-pattern", `?"Starting authorizer" ?"Verifying Usage Plan"`, "--query",
			"events[].message"}
	}), "the REST API's stage writes no execution log: turn it on for the stage, with level INFO")
	awsMetric = awsProbe(0, func(*session) []string {
		return []string{"cloudwatch", "list-metrics", "--namespace", "AWS/ElastiCache",
			"--metric-name", "ElastiCacheProcessingUnits", "--query", "Metrics[].Dimensions[].[Name, Value]"}
	})
	awsAlarm = awsProbe(0, func(s *session) []string {
		return []string{"cloudwatch", "describe-alarms", "--alarm-names", s.stack + "-CheckErrors",
			"--query", "MetricAlarms[0].StateValue"}
	})
)

// text returns the JSON string that a command printed, or else its output on one line.
func (e evidence) text() string {
	var text string
	if json.Unmarshal([]byte(e.output), &text) != nil {
		return strings.Join(strings.Fields(e.output), " ")
	}
	return text
}

// listed applies a check to the JSON list that a command printed.
func listed[T any](check func([]T) outcome) check {
	return func(e evidence) outcome {
		var list []T
		if err := json.Unmarshal([]byte(e.output), &list); err != nil {
			return differ("not a list: " + err.Error())
		}
		return check(list)
	}
}

// printed expects that a command printed a string that matches.
func printed(pattern string) check {
	want := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(e evidence) outcome { return judged(want.MatchString(e.text()), e.text()) }
}

var sixtyFour = regexp.MustCompile(`^[0-9A-Za-z]{64}$`)

// pepper checks the form of the pepper. The outcome does not show it.
func pepper(e evidence) outcome {
	switch text := e.text(); {
	case sixtyFour.MatchString(text):
		return pass("64 letters and digits")
	case strings.Contains(text, "{{resolve"):
		return differ("an unresolved reference")
	default:
		return differ(fmt.Sprintf("%d characters, not 64 letters and digits", len(text)))
	}
}

// encrypted expects that each log group has a key.
func encrypted(groups [][]*string) outcome {
	for _, group := range groups {
		if len(group) == 2 && group[0] != nil && group[1] == nil {
			return differ(*group[0] + " has no key")
		}
	}
	return judged(len(groups) > 0, fmt.Sprintf("%d groups", len(groups)))
}

var platformLine = regexp.MustCompile(`^(START|END|REPORT|INIT_START) |"type":\s*"platform\.`)

func noPlatformLines(lines []string) outcome {
	for _, line := range lines {
		if found := platformLine.FindString(line); found != "" {
			return differ(found)
		}
	}
	return pass(fmt.Sprintf("none in %d lines", len(lines)))
}

// awsAuthorizer is an authorizer as awsRESTAuthorizer and awsHTTPAuthorizer query it.
type awsAuthorizer struct {
	TTL    *int `json:"ttl"` // seconds; 0 caches nothing
	Source any  `json:"source"`
}

// authorizers expects that no authorizer has a cache, or an identity source that a call
// may lack. Calls always have what API Gateway's own context says.
func authorizers(list []awsAuthorizer) outcome {
	for _, a := range list {
		if a.TTL == nil || *a.TTL != 0 {
			return differ("TTL is not 0")
		}
		sources, isList := a.Source.([]any)
		if !isList && a.Source != nil && a.Source != "" {
			sources = []any{a.Source}
		}
		for _, source := range sources {
			if text, _ := source.(string); !ownContext.MatchString(text) {
				return differ(fmt.Sprintf("identity source %v", a.Source))
			}
		}
	}
	return judged(len(list) > 0, fmt.Sprintf("%d authorizers", len(list)))
}

// ownContext matches identity sources that every call has.
var ownContext = regexp.MustCompile(`^\$?context\.(accountId|apiId|requestId|stage)$`)

// mapsHeaders expects that the gateway response maps the context into three headers.
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

// planAfterAuthorizer expects that in the log of each request the authorizer starts
// before the usage plan is verified.
func planAfterAuthorizer(lines []string) outcome {
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

func cacheDimension(dimensions [][]string) outcome {
	for _, d := range dimensions {
		if len(d) == 2 && d[0] == "clusterId" {
			return pass(d[0] + " " + d[1])
		}
	}
	return differ(fmt.Sprintf("%v", dimensions))
}
