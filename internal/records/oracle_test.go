package records

import (
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidegate/internal/cause"
)

// denied is the calls of a denial.
type denied struct {
	calls    int64
	requests []string
	first    Call
}

// checkDenials compares the list of denials, and finds each by its reference and by its
// request ids.
func (w *world) checkDenials() {
	w.t.Helper()
	ctx := w.t.Context()
	want := map[counter]*denied{}
	for _, c := range w.counted {
		if c.Cause == 0 || c.Caller == "" && c.Reason == "" {
			continue
		}
		k := counter{c.Caller, minutes, minutes.slotOf(c.Time), c.kind()}
		if want[k] == nil {
			want[k] = &denied{first: c}
		}
		d := want[k]
		if d.calls++; d.calls <= maxKept {
			d.requests = append(d.requests, c.Request)
		}
	}
	got := 0
	q := DenialQuery{From: w.counted[0].Time, To: w.clock.Now(), Count: 40}
	for {
		page, err := w.reader.Denials(ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range page.Denials {
			k := counter{d.Caller, minutes, minutes.slotOf(d.Time), d.kind}
			if want[k] == nil || want[k].calls != d.Calls || d.Plan != want[k].first.Plan ||
				d.Path != "/find/{q}" || d.Route != append(want[k].first.Routes, "")[0] {
				w.t.Fatalf("got %+v, want %+v", d, want[k])
			}
			got++
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if got != len(want) {
		w.t.Fatalf("got %d denials, want %d", got, len(want))
	}
	n := 0
	for _, d := range want {
		if n++; n%7 == 0 {
			w.checkFound(d)
		}
	}
}

// checkFound finds a denial by its reference and by each of its request ids.
func (w *world) checkFound(d *denied) {
	w.t.Helper()
	ctx := w.t.Context()
	if d.first.Caller != "" {
		ref, ok := ParseReference(ReferenceOf(&d.first).String())
		found, err := w.reader.Find(ctx, ref)
		if !ok || err != nil || found.Calls != d.calls || found.Caller != d.first.Caller ||
			found.Limit != d.first.Limit || found.Cause != d.first.Cause ||
			found.Reference() != ref.String() {
			w.t.Fatalf("reference %v: got %+v, %v, want %d calls of %+v", ref, found, err, d.calls, d.first)
		}
	}
	found, err := w.reader.Request(ctx, d.requests[len(d.requests)-1])
	if err != nil || found.Calls != d.calls {
		w.t.Fatalf("request: got %+v, %v, want %d calls", found, err, d.calls)
	}
	less := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := gocmp.Diff(d.requests, found.Requests, less); diff != "" {
		w.t.Fatalf("request ids of %+v (-want +got):\n%s", d.first, diff)
	}
}

// checkStates compares the states of callers and the lists of callers by state.
func (w *world) checkStates() {
	w.t.Helper()
	ctx, now := w.t.Context(), w.clock.Now()
	states, err := w.reader.States(ctx, trafficCallers)
	if err != nil {
		w.t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, l := range []List{DeniedNow, BannedNow} {
		for _, registered := range []bool{true, false} {
			page, err := w.reader.InState(ctx, l, registered, "", 100)
			if err != nil || page.Next != "" {
				w.t.Fatalf("got %v, %v", page, err)
			}
			for _, id := range page.IDs {
				listed[id] = true
			}
		}
	}
	for i, id := range trafficCallers {
		var until time.Time
		kinds := map[Kind]bool{}
		for _, c := range w.counted {
			if c.Caller == id && !c.Degraded && (c.Cause == cause.Limit || c.Cause == cause.Ban) {
				kinds[Kind{Cause: c.Cause, Limit: c.Limit}] = true
				if u := c.Time.Add(c.RetryAfter); c.RetryAfter > 0 && u.After(until) {
					until = u.Truncate(time.Millisecond)
				}
			}
		}
		longest, ok := states[i].Now(now)
		if want := until.After(now); ok != want && (ok || until.Sub(now) > stateSlack) || ok != listed[id] {
			w.t.Fatalf("%s: denied %v, listed %v, want %v until %v at %v", id, ok, listed[id], want, until,
				now)
		}
		if slack := until.Sub(longest.Until); ok && (slack < 0 || slack >= stateSlack) {
			w.t.Fatalf("%s: denied until %v, want %v", id, longest.Until, until)
		}
		if len(states[i].Deniers) != len(kinds) {
			w.t.Fatalf("%s: got %+v, want the kinds %v", id, states[i], kinds)
		}
	}
}
