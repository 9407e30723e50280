package verify

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// need is a requirement of a probe.
type need uint16

// The needs.
const (
	needREST need = 1 << iota
	needHTTP
	needDashboard
	needToken
	needThrottle
	needAWS
	needRESTID // the id of the REST API, for the AWS CLI
	needHTTPID
	needExample // the example's backend, which takes all paths below the path
)

// evidence is the observation of a probe.
type evidence struct {
	answers   []answer
	output    string // of an AWS CLI command
	limit     quota
	dashboard string // URL of the dashboard
	reason    string // why there is no observation; empty if there is one
}

// probe makes a few calls whose answers rows check. Each probe runs once, in the order of
// probes.
type probe struct {
	what     string // description for the plan and the progress
	needs    need
	calls    int // maximum number of HTTP calls
	commands int // number of AWS CLI commands
	run      func(context.Context, *session) evidence
}

func failed(err error) evidence { return evidence{answers: []answer{{err: err}}} }

// missing returns the reason for which the needs n are not met; "" if they are.
func (s *session) missing(n need) string {
	for _, m := range []struct {
		of     need
		lacks  bool
		reason string
	}{
		{needREST, s.rest == "", "-rest is not set"},
		{needHTTP, s.http == "", "-http is not set"},
		{needDashboard, s.dashboard == "", "-dashboard is not set"},
		{needToken, s.token == "", "-token is not set: it needs scope write, to edit the key's limit"},
		{needThrottle, !s.throttle, "-throttle is not set: it makes bursts of calls"},
		{needThrottle, s.local, "the local gateways have no throttle"},
		{needExample, s.path != examplePath, "-path is set: its backend need not take other paths"},
		{needAWS, s.stack == "", "the stack is unknown: set -stack or -outputs"},
		{needAWS, s.aws == nil, "aws is not on PATH"},
		{needRESTID, apiID(s.rest) == "", "-rest is not a URL of execute-api, which has the API's id"},
		{needHTTPID, apiID(s.http) == "", "-http is not a URL of execute-api, which has the API's id"},
	} {
		if n&m.of != 0 && m.lacks {
			return m.reason
		}
	}
	return ""
}

// announce prints the planned calls.
func (s *session) announce(w io.Writer) {
	var plan strings.Builder
	calls, commands := 0, 0
	for _, p := range probes {
		if s.missing(p.needs) != "" {
			continue
		}
		calls += p.calls
		commands += p.commands
		if p.calls > 0 {
			fmt.Fprintf(&plan, "  %4d  %s\n", p.calls, s.describe(p))
		} else {
			fmt.Fprintf(&plan, "   aws  %s\n", p.what)
		}
	}
	_, _ = fmt.Fprintf(w, "verify makes at most %d HTTP calls and runs %d AWS CLI commands that only "+
		"read:\n%s", calls, commands, plan.String())
	if s.token != "" {
		_, _ = fmt.Fprintln(w,
			"It sets and removes an override of the key. The audit keeps both edits.")
	}
	_, _ = fmt.Fprintf(w, "Calls with the key reach the backend of %s %s, until its limit denies them.\n",
		s.method, s.path)
	_, _ = fmt.Fprint(w, "It uses up the key's limit several times, and waits until it is restored.\n\n")
}

// describe returns what a probe does, with the method and the path of the flags.
func (s *session) describe(p *probe) string {
	return strings.NewReplacer("GET REST/verify", s.method+" REST"+s.path, "GET HTTP/verify",
		s.method+" HTTP"+s.path, "REST/verify", "REST"+s.path, "HTTP/verify", "HTTP"+s.path).Replace(p.what)
}

// collect runs all probes and checks every row with its probe's evidence.
func (s *session) collect(ctx context.Context, progress io.Writer) *report {
	seen := map[*probe]evidence{}
	for _, p := range probes {
		reason := s.missing(p.needs)
		if reason != "" || ctx.Err() != nil {
			seen[p] = evidence{reason: reason}
			continue
		}
		began := s.now()
		e := p.run(ctx, s)
		e.limit = s.quota
		e.dashboard = s.dashboard
		seen[p] = e
		_, _ = fmt.Fprintf(progress, "  %-72s %5.1f s\n", s.describe(p), s.now().Sub(began).Seconds())
	}
	r := &report{
		Began: s.began.UTC(), Calls: s.calls.Load(), REST: s.rest, HTTP: s.http, Dashboard: s.dashboard,
	}
	for _, row := range rows {
		r.add(row, row.judge(seen))
	}
	return r
}

// probes are all probes in the order in which they run. The first probe reads the key's
// limit.
var probes = []*probe{
	restKey, restOpen, restBadKey, restPreflight, restPath, restLongPath, restLongARN, restHeaders,
	restOver, restAgain,
	httpKey, httpOpen, httpBadKey, httpPreflight, httpPath, httpHeaders, httpOver,
	edits,
	dashRoot, dashLogin, dashStatic, dashHealth, dashAPI, dashToken,
	restFlood, dashFlood,
	awsStack, awsUser, awsPepper, awsLogKey, awsLogLines,
	awsRESTAuthorizer, awsDenied, awsHTTPAuthorizer, awsUsagePlan, awsMetric, awsAlarm,
}
