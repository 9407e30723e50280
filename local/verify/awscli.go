package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// awsCommand runs the AWS CLI with JSON output.
type awsCommand func(ctx context.Context, args ...string) ([]byte, error)

const awsLimit = time.Minute

// findAWS returns nil when the AWS CLI is not on PATH.
func findAWS() awsCommand {
	path, err := exec.LookPath("aws")
	if err != nil {
		return nil
	}
	return func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, awsLimit)
		defer cancel()
		args = append(args, "--output", "json", "--no-cli-pager")
		cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // args are of the table and checked
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			text := strings.Join(strings.Fields(errOut.String()), " ")
			return nil, fmt.Errorf("aws %s %s: %w: %.200s", args[0], args[1], err, text)
		}
		return out.Bytes(), nil
	}
}

var executeAPI = regexp.MustCompile(`^([a-z0-9]+)\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// apiID returns the API's id from a URL of execute-api, or an empty string.
func apiID(text string) string {
	id, _ := executeAddress(text)
	return id
}

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

// region returns the --region flag for the first URL that contains a region. Without one,
// aws uses its configured region.
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

// awsProbe returns a probe that runs one command. args returns the command's arguments
// for a session.
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

// whereFound skips the probe's rows, with the reason, when AWS has no such resource.
func whereFound(p *probe, reason string) *probe {
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
			"items[].{ttl: authorizerResultTtlInSeconds, source: identitySource, type: type}"}
	})
	awsDenied = awsProbe(needRESTID, func(s *session) []string {
		return []string{"apigateway", "get-gateway-response", "--rest-api-id", apiID(s.rest),
			"--response-type", "ACCESS_DENIED", "--query", "responseParameters"}
	})
	awsHTTPAuthorizer = awsProbe(needHTTPID, func(s *session) []string {
		return []string{"apigatewayv2", "get-authorizers", "--api-id", apiID(s.http), "--query",
			"Items[].{ttl: AuthorizerResultTtlInSeconds, source: IdentitySource, type: AuthorizerType}"}
	})
	awsUsagePlan = whereFound(awsProbe(needRESTID, func(s *session) []string {
		return []string{"logs", "filter-log-events", "--log-group-name", executionLog(s.rest),
			"--start-time", fmt.Sprint(s.began.UnixMilli()), "--max-items", "100",
			"--filter-pattern", `?"Starting authorizer" ?"Verifying Usage Plan"`, "--query",
			"events[].message"}
	}), "the REST API's stage writes no execution log: turn it on for the stage, level INFO")
	awsMetric = awsProbe(0, func(*session) []string {
		return []string{"cloudwatch", "list-metrics", "--namespace", "AWS/ElastiCache",
			"--metric-name", "ElastiCacheProcessingUnits", "--query", "Metrics[].Dimensions[].[Name, Value]"}
	})
	awsAlarm = awsProbe(0, func(s *session) []string {
		return []string{"cloudwatch", "describe-alarms", "--alarm-names", s.stack + "-CheckErrors",
			"--query", "MetricAlarms[0].StateValue"}
	})
)
