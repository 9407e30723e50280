package records

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
)

// Denial is the denied or refused calls of a caller in a minute, by one limit or for one
// cause and reason. Its details are those of the first call.
type Denial struct {
	Kind             // Plan is the caller's
	Time   time.Time `json:"time" doc:"Time of the first call, by the clock of the Lambda environment"`
	Caller string    `json:"key,omitempty" doc:"Id of the key or caller; absent if it proved nothing"`
	Calls  int64     `json:"calls" doc:"Number of calls in this minute; 0 if it is not kept"`
	Group  string    `json:"group,omitempty" doc:"Group of the key"`
	Route  string    `json:"route,omitempty" doc:"Name of the most specific route"`
	Method string    `json:"method,omitempty" doc:"HTTP method; other if API Gateway does not know it"`
	Path   string    `json:"path,omitempty" doc:"Pattern of the route, not the requested path" example:"/orders/{id}"`
	API    string    `json:"api,omitempty"`
	Stage  string    `json:"stage,omitempty"`

	Network    netip.Prefix  `json:"network,omitzero" required:"false" doc:"The /24 or /48 of the caller's address" example:"192.0.2.0/24"`
	RetryAfter time.Duration `json:"-"`
	// Requests are the ids of the first calls, at most 20. Only Find, Request and
	// WithRequests set them.
	Requests []string `json:"requests,omitempty" doc:"API Gateway's ids of the first 20 calls; only with request"`

	minute int64
	kind   string
}

// Reference returns the text by which a client names the denial; empty for a caller that
// proved nothing.
func (d *Denial) Reference() string {
	return Reference{d.Caller, minutes.start(d.minute), checksum(d.kind)}.String()
}

// DenialQuery says which denials to list. Zero fields match every denial.
type DenialQuery struct {
	From, To time.Time // of the first call; required
	Caller   string
	Cause    cause.Cause
	Plan, Group, Route, Limit,
	Method, Path string
	After string // cursor of a DenialPage; empty for the first page
	Count int    // of a page, 1 to MaxDenials
}

// DenialPage is a page of denials, the latest first.
type DenialPage struct {
	Denials []Denial
	Next    string // cursor of the page that follows; empty on the last one
}

const (
	// MaxDenials is the longest page.
	MaxDenials = 500
	// late is how much later than its call a denial may be stored and still be found in a
	// range that ended before: environments hold calls during an outage.
	late = 2 * time.Hour
	// perRead is how many entries of each stream a search reads at a time.
	perRead = 500
	// skew is how much the clock of an environment may be ahead of Valkey's.
	skew = time.Minute
	// searchTime is how long a search goes on. It then returns what it has found, and a
	// cursor.
	searchTime = 200 * time.Millisecond
)

// Denials returns the denials that follow the cursor. It reads the 16 streams of all
// callers, or the 2 of one caller's partition, and a count for each denial.
func (r *Reader) Denials(ctx context.Context, q DenialQuery) (DenialPage, error) {
	count := min(max(q.Count, 1), MaxDenials)
	at, err := parsePlace(q.After)
	if err != nil {
		return DenialPage{}, err
	}
	began, each := time.Now(), perRead
	if q.unfiltered() {
		each = count + 1
	}
	var page DenialPage
	seen, next := map[counter]bool{}, at
	for {
		found, last, err := r.readStreams(ctx, denialStream, q, at, each)
		if err != nil {
			return DenialPage{}, err
		}
		at = last
		for i := range found {
			d, ok := parseDenial(found[i].FieldValues["j"])
			k := counter{d.Caller, minutes, d.minute, d.kind}
			if !ok || seen[k] || !q.matches(&d) {
				continue
			}
			if len(page.Denials) == count {
				page.Next = next.String()
				return page, r.addCounts(ctx, page.Denials)
			}
			seen[k], next = true, found[i].place
			page.Denials = append(page.Denials, d)
		}
		if at.end() || time.Since(began) > searchTime {
			page.Next = at.String()
			return page, r.addCounts(ctx, page.Denials)
		}
	}
}

// unfiltered reports whether the query matches every denial of its time.
func (q DenialQuery) unfiltered() bool {
	return q == DenialQuery{From: q.From, To: q.To, After: q.After, Count: q.Count}
}

func (q DenialQuery) matches(d *Denial) bool {
	same := func(want, got string) bool { return want == "" || clip(want, maxText) == got }
	return !d.Time.Before(q.From) && d.Time.Before(q.To) && same(q.Caller, d.Caller) &&
		(q.Cause == 0 || q.Cause == d.Cause) && same(q.Plan, d.Plan) && same(q.Group, d.Group) &&
		same(q.Route, d.Route) && same(q.Limit, d.Limit) && same(q.Method, d.Method) && same(q.Path, d.Path)
}

func parseDenial(text string) (d Denial, ok bool) {
	var e entry
	if json.Unmarshal([]byte(text), &e) != nil {
		return d, false
	}
	kind, ok := parseKind(e.Kind)
	kind.Plan = e.Plan
	return Denial{
		Kind: kind, Time: time.UnixMilli(e.Time).UTC(), Caller: e.Caller, Group: e.Group, Route: e.Route,
		Method: e.Method, Path: e.Path, API: e.API, Stage: e.Stage, Network: e.Network,
		RetryAfter: time.Duration(e.Wait) * time.Millisecond, minute: e.Minute, kind: e.Kind,
	}, ok
}

// addCounts sets the calls of each denial.
func (r *Reader) addCounts(ctx context.Context, all []Denial) error {
	commands := make(valkey.Commands, len(all))
	for i := range all {
		c := counter{cmp.Or(all[i].Caller, nobodyID), minutes, all[i].minute, all[i].kind}
		commands[i] = r.client.B().Hget().Key(countsKey(c.id, minutes, c.slot)).Field(c.field()).Build()
	}
	for i, result := range r.client.DoMulti(ctx, commands...) {
		n, err := result.AsInt64()
		if err != nil && !valkey.IsValkeyNil(err) {
			return fmt.Errorf("records: denials: %w", err)
		}
		all[i].Calls = n //nolint:gosec // a result for each command, and a command for each entry
	}
	return nil
}

// WithRequests returns the denial with the ids of its first requests.
func (r *Reader) WithRequests(ctx context.Context, d Denial) (Denial, error) {
	err := r.eachRequests(ctx, d.Caller, minutes.start(d.minute), func(e *streamEntry) bool {
		if e.is(d.Caller, d.minute, d.kind) {
			d.Requests = append(strings.Fields(e.FieldValues["i"]), d.Requests...)
		}
		return true
	})
	d.Requests = d.Requests[:min(maxKept, len(d.Requests))]
	return d, err
}

// is reports whether an entry has ids of a caller, a minute and a kind.
func (e *streamEntry) is(caller string, minute int64, kind string) bool {
	return e.FieldValues["c"] == caller && e.FieldValues["m"] == strconv.FormatInt(minute, 10) &&
		e.FieldValues["k"] == kind
}

// eachRequests calls do for the entries with request ids since a time, the latest first,
// until it returns false.
func (r *Reader) eachRequests(ctx context.Context, caller string, from time.Time,
	do func(*streamEntry) bool) error {
	q := DenialQuery{From: from, To: r.now().Add(late), Caller: caller}
	for at := newest; !at.end(); {
		found, last, err := r.readStreams(ctx, idStream, q, at, perRead)
		if err != nil {
			return err
		}
		for i := range found {
			if !do(&found[i]) {
				return nil
			}
		}
		at = last
	}
	return nil
}

// Request returns the denial of a call by API Gateway's id of its request. It returns
// ErrNotKept if no such id is kept: that of an allowed call, of a call after the first 20
// of its minute, or of one that is too long ago.
func (r *Reader) Request(ctx context.Context, id string) (Denial, error) {
	var found *streamEntry
	err := r.eachRequests(ctx, "", time.Unix(0, 0), func(e *streamEntry) bool {
		if slices.Contains(strings.Fields(e.FieldValues["i"]), id) {
			found = e
		}
		return found == nil
	})
	if err != nil || found == nil {
		return Denial{}, cmp.Or(err, ErrNotKept)
	}
	minute, _ := strconv.ParseInt(found.FieldValues["m"], 10, 64)
	return r.denial(ctx, found.FieldValues["c"], minute, found.FieldValues["k"])
}

// Find returns the denial that a reference names. It returns ErrNotKept if the caller's
// counts of the minute are not kept, or have no such denial.
func (r *Reader) Find(ctx context.Context, ref Reference) (Denial, error) {
	minute := minutes.slotOf(ref.Minute)
	key := countsKey(ref.Caller, minutes, minute)
	fields, err := r.client.Do(ctx, r.client.B().Hgetall().Key(key).Build()).AsStrMap()
	if err != nil {
		return Denial{}, fmt.Errorf("records: find: %w", err)
	}
	for field := range fields {
		slot, kind, ok := parseField(field)
		if _, denies := parseKind(kind); ok && denies && slot == minute%hourMinutes &&
			kind[0] != shadowKind && checksum(kind) == ref.check {
			return r.denial(ctx, ref.Caller, minute, kind)
		}
	}
	return Denial{}, ErrNotKept
}

// denial returns a caller's denial of a kind in a minute. Without an entry in the stream
// it has no more than its count.
func (r *Reader) denial(ctx context.Context, caller string, minute int64, kind string) (Denial, error) {
	d := Denial{Time: minutes.start(minute), Caller: caller, minute: minute, kind: kind}
	d.Kind, _ = parseKind(kind)
	q := DenialQuery{From: d.Time, To: d.Time.Add(time.Minute), Caller: caller}
	for at := newest; !at.end(); {
		found, last, err := r.readStreams(ctx, denialStream, q, at, perRead)
		if err != nil {
			return d, err
		}
		for i := range found {
			if e, ok := parseDenial(found[i].FieldValues["j"]); ok && e.Caller == caller &&
				e.minute == minute && e.kind == kind {
				d = e
			}
		}
		at = last
	}
	all := []Denial{d}
	if err := r.addCounts(ctx, all); err != nil {
		return d, err
	}
	return r.WithRequests(ctx, all[0])
}
