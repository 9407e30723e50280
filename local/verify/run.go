package verify

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// part is what verify does at one address. Its rows begin with its name.
type part struct {
	name  string
	calls int // at most
	run   func(*session, context.Context)
	// missing returns why the part is skipped; "" if it is not.
	missing func(*session) string
}

// callsWithKey is the number of calls that callWithKey makes in a row.
const callsWithKey = 4

const (
	burstWorkers = 10
	burstTries   = 3
	// maxToDenial bounds the calls of useUp.
	maxToDenial = burstTries * (maxRequests + 1)
)

// parts run in this order. The first that calls with the key reads its limit.
var parts = []part{
	{"rest", 2*(callsWithKey+maxToDenial) + 8, (*session).callREST,
		func(s *session) string { return unset("-rest", s.rest) }},
	{"http", callsWithKey + maxToDenial + 7, (*session).callHTTP,
		func(s *session) string { return unset("-http", s.http) }},
	{"edit", 6, (*session).editLimits, func(s *session) string {
		switch {
		case s.rest == "" || s.dashboard == "":
			return unset("-rest", s.rest) + unset("-dashboard", s.dashboard)
		case s.token == "":
			return "-token is not set: it needs scope write, to edit the key's limit"
		}
		return ""
	}},
	{"dash", 7, (*session).callDashboard,
		func(s *session) string { return unset("-dashboard", s.dashboard) }},
}

func unset(flag, value string) string {
	if value == "" {
		return flag + " is not set"
	}
	return ""
}

// announce prints the planned calls.
func (s *session) announce(w io.Writer) {
	calls := 0
	for _, p := range parts {
		if p.missing(s) == "" {
			calls += p.calls
		}
	}
	_, _ = fmt.Fprintf(w, "verify makes at most %d HTTP calls.\n", calls)
	if s.token != "" {
		_, _ = fmt.Fprintln(w,
			"It sets and removes an override of the key. The audit keeps both edits.")
	}
	_, _ = fmt.Fprintf(w, "Calls with the key reach the backend of %s %s, until its limit denies them.\n",
		s.method, s.path)
	_, _ = fmt.Fprint(w, "It uses up the key's limit several times, and waits until it is restored.\n\n")
}

// Reasons for skipping rows.
const (
	byHand     = "by hand: see -list"
	notReached = "an earlier row differs or is skipped: see it"
)

// collect runs the parts and reports every row.
func (s *session) collect(ctx context.Context, progress io.Writer) *report {
	skips := map[string]string{"hand": byHand}
	for _, p := range parts {
		if skips[p.name] = p.missing(s); skips[p.name] != "" || ctx.Err() != nil {
			continue
		}
		skips[p.name] = notReached
		began := s.now()
		p.run(s, ctx)
		_, _ = fmt.Fprintf(progress, "  %-8s %5.1f s\n", p.name, s.now().Sub(began).Seconds())
	}
	r := &report{
		Began: s.began.UTC(), Calls: s.calls.Load(), REST: s.rest, HTTP: s.http, Dashboard: s.dashboard,
	}
	for _, row := range rows {
		o, judged := s.outcomes[row.id]
		if !judged {
			name, _, _ := strings.Cut(row.id, "-")
			o = skip(skips[name])
		}
		r.add(row, o)
	}
	return r
}
