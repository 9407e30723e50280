package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// need is a requirement of a probe.
type need uint8

// The needs.
const (
	needREST need = 1 << iota
	needHTTP
	needDashboard
	needToken
	needThrottle
	needAWS
	needRESTID // the id of the REST API, for the AWS command line
	needHTTPID
)

// evidence is the observation of a probe. If reason is set, there is none.
type evidence struct {
	answers   []answer
	output    string // of a command of the AWS command line
	limit     quota
	dashboard string // its URL
	reason    string
}

// probe makes a few calls whose answers rows check. Each probe runs once, in the order of
// the table of probes.
type probe struct {
	what     string // what it calls, for the plan and the progress
	needs    need
	calls    int // over HTTP, at most
	commands int // of the AWS command line
	run      func(context.Context, *session) evidence
}

func failed(err error) evidence { return evidence{answers: []answer{{err: err}}} }

// missing returns the reason for which a need is not met, or nothing.
func (s *session) missing(n need) string {
	for _, m := range []struct {
		of     need
		lacks  bool
		reason string
	}{
		{needREST, s.rest == "", "-rest is not given"},
		{needHTTP, s.http == "", "-http is not given"},
		{needDashboard, s.dashboard == "", "-dashboard is not given"},
		{needToken, s.token == "",
			"-token is not given: one of scope write lets verify edit the key's limits"},
		{needThrottle, !s.throttle, "-throttle is not given: it makes bursts of calls"},
		{needThrottle, s.local, "the local gateways have no throttle"},
		{needAWS, s.stack == "", "the stack is not named: -stack or -outputs"},
		{needAWS, s.aws == nil, "aws is not on PATH"},
		{needRESTID, apiID(s.rest) == "", "-rest is not an address of execute-api, which names the API"},
		{needHTTPID, apiID(s.http) == "", "-http is not an address of execute-api, which names the API"},
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
			fmt.Fprintf(&plan, "  %4d  %s\n", p.calls, p.what)
		} else {
			fmt.Fprintf(&plan, "   aws  %s\n", p.what)
		}
	}
	_, _ = fmt.Fprintf(w, "verify makes at most %d calls over HTTP and %d commands of aws that read:\n%s",
		calls, commands, plan.String())
	if s.token != "" {
		_, _ = fmt.Fprintln(w,
			"It sets an override of the key and ends it again; the audit keeps both edits.")
	}
	_, _ = fmt.Fprint(w, "It uses up the key's limit and waits for it some times.\n\n")
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
		_, _ = fmt.Fprintf(progress, "  %-72s %5.1f s\n", p.what, s.now().Sub(began).Seconds())
	}
	r := &report{
		Began: s.began.UTC(), Calls: s.calls.Load(), REST: s.rest, HTTP: s.http, Dashboard: s.dashboard,
	}
	for _, row := range rows {
		r.add(row, row.judge(seen))
	}
	return r
}

// probes are in the order of their runs. The first probe makes the first call with the
// key.
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
