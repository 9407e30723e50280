//go:build unix

package faults

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
)

// damages replace a value. The last one replaces what has the value by a list.
var damages = []struct {
	name  string
	spoil func(value string) string
}{
	{"random bytes", func(value string) string { return randomText(len(value)) }},
	{"random bytes behind the first 8", func(value string) string {
		return value[:min(8, len(value))] + randomText(len(value))
	}},
	{"half of it", func(value string) string { return value[:len(value)/2] }},
	{"nothing", func(string) string { return "" }},
	{"another type", nil},
}

func randomText(n int) string {
	text := make([]byte, n)
	_, _ = rand.Read(text)
	return string(text)
}

// damaged is a caller with one damaged value.
type damaged struct {
	*world
	caller
	fleet *fleet
	calls *[]outcome
}

// call makes a call, which must not get a 5xx, and reports whether it is admitted.
func (d damaged) call(t *testing.T, secret apikey.Secret) bool {
	t.Helper()
	o := d.fleet.call(t.Context(), secret.Reveal())
	*d.calls = append(*d.calls, o)
	if o.status == 500 {
		t.Errorf("got %s, want an answer", o.detail)
	}
	return o.status == 200
}

// state returns the name of the caller's only log.
func (d damaged) state(t *testing.T) string {
	t.Helper()
	names, err := d.admin.Do(t.Context(), d.admin.B().Keys().Pattern(
		keyspace.Of(d.caller.key.ID, "s")+"*").Build()).AsStrSlice()
	if err != nil || len(names) != 1 {
		t.Fatalf("got the states %q, %v, want one", names, err)
	}
	return names[0]
}

// spoil damages the caller's state, or a field of the records of its bucket.
func (d damaged) spoil(t *testing.T, name, field string, with func(string) string) {
	t.Helper()
	ask := func(words ...string) string { return d.servers[0].ask(t, words...) }
	switch {
	case with == nil:
		ask("DEL", name)
		ask("RPUSH", name, "a", "list")
	case field == "":
		ask("SET", name, with(ask("GET", name)))
	default:
		ask("HSET", name, field, with(ask("HGET", name, field)))
	}
}

// heal repairs the damage as an operator does, and waits until a call is admitted: what is
// damaged is deleted, and the minute makes records again.
func (d damaged) heal(t *testing.T, name string) time.Duration {
	t.Helper()
	began := time.Now()
	d.servers[0].ask(t, "DEL", name)
	if err := d.keys.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.keys.Reset(t.Context(), d.caller.key.ID, tester); err != nil {
		t.Fatal(err)
	}
	waiting.Until(t, "a call is admitted", func() bool { return d.call(t, d.secret) })
	return time.Since(began)
}

// While the state of a caller, its record or the number of the policy in its bucket has wrong
// bytes, no client gets a 5xx. No revoked key and no wrong secret passes, and a caller gets at
// most its limit once more, since a damaged state counts nothing. All is whole again when an
// operator deletes the state, or the records of the bucket, which the minute makes again.
func TestDamage(t *testing.T) {
	skipUnlessFaults(t)
	const limit = 5
	w := single(t)
	w.plans(t, fmt.Sprint(limit, " per hour"))
	f := startFleet(t, w.url, fleetOptions{environments: 2, timeout: calm,
		env: map[string]string{"DENY_CACHE": "0s"}})
	revoked := w.key(t, "open")
	if _, err := registrytest.Revoke(t.Context(), w.keys, revoked.key.ID, tester); err != nil {
		t.Fatal(err)
	}
	var calls []outcome
	most, slowest := 0, time.Duration(0)
	for _, kind := range damages {
		for _, what := range []string{"state", "record", "policy"} {
			d := damaged{w, w.key(t, "closed"), f, &calls}
			forged, err := apikey.Renew("test", d.caller.key.ID)
			if err != nil {
				t.Fatal(err)
			}
			for range limit {
				d.call(t, d.secret)
			}
			id := d.caller.key.ID
			name, field := keyspace.BucketOf(id).Records(), map[string]string{
				"record": keyspace.RecordField(id), "policy": keyspace.PolicyField}[what]
			if what == "state" {
				name = d.state(t)
			}
			d.spoil(t, name, field, kind.spoil)
			admitted := 0
			for range 2 * limit {
				if d.call(t, d.secret) {
					admitted++
				}
				if d.call(t, forged) || d.call(t, revoked.secret) {
					t.Errorf("%s in the %s: a caller without a good key passes", kind.name, what)
				}
			}
			if most = max(most, admitted); admitted > limit || what != "state" && admitted > 0 {
				t.Errorf("%s in the %s: %d more calls pass", kind.name, what, admitted)
			}
			slowest = max(slowest, d.heal(t, name))
		}
	}
	if slowest > time.Second {
		t.Errorf("a value is whole again after %s, want at most 1s", slowest)
	}
	all := tallyOf(calls)
	report(t, "wrong bytes in a state, a record or the number of the policy",
		"0 5xx; no stranger passes; whole ≤ 1 s after the repair", fmt.Sprintf(
			"%d damages: %d of %d calls 5xx, %d degraded; a damaged state admits %d of %d again; "+
				"whole after %s", 3*len(damages), all.failed, all.calls, all.degraded, most, limit,
			ms(slowest)))
}
