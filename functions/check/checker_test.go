package main

import (
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fmt"
	"tidegate/internal/apikey"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// function is a checker with a Valkey server of its own and a clock that the test sets.
type function struct {
	*checker
	environment
	set *registry.Store
	log strings.Builder // read only between calls
	out strings.Builder // metrics

	group string // of new keys
}

var tester = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}}

func newFunction(t *testing.T, plans ...policy.Plan) *function {
	t.Helper()
	server := valkeytest.Start(t)
	f := &function{}
	c := settings{
		ValkeyURL: server, ValkeyTimeout: 5 * time.Second, ValkeyConnectTimeout: waiting.Timeout,
		CallerCache: 10 * time.Minute, DenyCache: 100 * time.Millisecond,
		SettleWithin: 10 * time.Minute,
	}
	c.pepper = apikey.Pepper("only for this test, and long enough")
	base := time.Now().Truncate(time.Hour) // Valkey's clock dates streams
	now := func() time.Time { return base.Add(time.Duration(f.clock.Load())) }
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	metrics, err := newCallMetrics(&f.out, "test", log, now)
	if err != nil {
		t.Fatal(err)
	}
	f.checker = newChecker(c, log, metrics, now)
	f.admin = storetest.Connect(t, server)
	f.set = registrytest.New(t, f.admin, c.pepper)
	f.edit(t, func(set *policy.Set) { set.Plans = plans })
	return f
}

func (f *function) key(t *testing.T, plan string) apikey.Secret {
	t.Helper()
	_, secret := registrytest.Create(t, f.set, tester, policy.NewKey{Name: "caller", Env: "test", Plan: plan,
		Group: f.group})
	return secret
}

func (f *function) call(t *testing.T, secret apikey.Secret) enforce.Result {
	t.Helper()
	checked, err := f.Check(t.Context(),
		enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

// stopServing makes the server refuse every check, as a replica that lost its primary
// does.
func (f *function) stopServing(t *testing.T) {
	t.Helper()
	f.command(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	f.command(t, "REPLICAOF", "127.0.0.1", "1")
}

// serveAgain ends stopServing, and advances the clock until the circuit breaker retries.
func (f *function) serveAgain(t *testing.T) {
	t.Helper()
	f.command(t, "REPLICAOF", "NO", "ONE")
	f.freeze(decide.Pause)
}

var scriptCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// scriptRuns returns how many EVAL and EVALSHA commands the server received, failed ones
// included.
func (f *function) scriptRuns(t *testing.T) int {
	t.Helper()
	total := 0
	for _, match := range scriptCalls.FindAllStringSubmatch(f.command(t, "INFO", "commandstats"), -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// openPlan is a plan whose callers pass while Valkey is unavailable.
var openPlan = policy.Plan{Name: "open", Limits: registrytest.Limits("10 per day"), Degraded: policy.Open}

// A server without a place for another client refuses the first command of a connection.
// That is an outage: known callers of an open plan pass.
func TestDecidesWithoutAPlaceForAClient(t *testing.T) {
	f := newFunction(t, openPlan)
	secret, unknown := f.key(t, "open"), f.key(t, "open")
	f.call(t, secret)
	f.command(t, "CONFIG", "SET", "maxclients", "1")
	f.command(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 3 {
		if checked := f.call(t, secret); !checked.Allowed || !checked.Degraded {
			t.Errorf("a known caller: got %+v, want it allowed without Valkey", checked)
		}
		if checked := f.call(t, unknown); checked.Allowed || checked.ID != "" {
			t.Errorf("an unknown caller: got %+v, want it denied", checked)
		}
	}
	if log := f.log.String(); strings.Contains(log, "check failed") ||
		!strings.Contains(log, "decided without Valkey") {
		t.Errorf("got %s, want that it was decided without Valkey", log)
	}
}

// Calls that are refused without asking Valkey do not end an outage: only an answer of
// Valkey does.
func TestRefusedCallersDoNotEndAnOutage(t *testing.T) {
	f := newFunction(t, openPlan)
	secret := f.key(t, "open")
	f.call(t, secret)
	withoutPlan := enforce.Call{Kind: policy.Token, Subject: "AAAAAAAAAAAAAAAAAAAAAA"}
	refused := func() {
		t.Helper()
		if _, err := f.Check(t.Context(), withoutPlan); !errors.Is(err, policy.ErrRefused) {
			t.Errorf("a token without a plan: %v", err)
		}
	}
	refused()
	f.stopServing(t)
	for range 50 {
		f.call(t, secret)
		refused()
	}
	if tries := f.degradedCount(); tries != 2 {
		t.Errorf("%d calls tried Valkey, want 2", tries)
	}
	if strings.Contains(f.log.String(), "Valkey answers again") {
		t.Error("the log reports the end of the outage")
	}
	f.serveAgain(t)
	refused()
	if checked := f.call(t, secret); checked.Degraded {
		t.Errorf("Valkey answers again: %+v", checked)
	}
}

// damage replaces from by to in the stored policy set, under a new version, which it also
// writes to all buckets. Checks cannot use the result, as may happen with the policy set
// of another build.
func (f *function) damage(t *testing.T, from, to string) {
	t.Helper()
	field := keyspace.RecordField(keyspace.PolicyID)
	record := f.command(t, "HGET", keyspace.PolicyBuckets[0].Records(), field)
	if !strings.Contains(record, from) {
		t.Fatalf("no %s in %s", from, record)
	}
	version, content := policyset.Stored(record)
	damaged := fmt.Sprintf("%d %s", version+1, strings.ReplaceAll(string(content), from, to))
	for _, bucket := range keyspace.PolicyBuckets {
		f.command(t, "HSET", bucket.Records(), field, damaged)
	}
	for _, bucket := range keyspace.All() {
		f.command(t, "HSET", bucket.Records(), keyspace.PolicyField, fmt.Sprint(version+1))
	}
}

// saveCalendarLimit saves a policy set with a limit on all calls per day in Berlin.
func (f *function) saveCalendarLimit(t *testing.T) {
	t.Helper()
	f.edit(t, func(set *policy.Set) {
		set.Limits = registrytest.Limits("1,000 per calendar day (Europe/Berlin), together")
	})
}

// unusableSetLines returns the number of log lines about an unusable policy set.
func (f *function) unusableSetLines() int {
	return strings.Count(f.log.String(), "the policy set cannot be used")
}

// An unusable policy set is no outage: checks continue with the one before. The log says
// so once a minute until a usable one is saved.
func TestUsesTheLastGoodSet(t *testing.T) {
	for name, change := range map[string][2]string{"unknown zone": {"Europe/Berlin", "Mars/Utopia"},
		"unreadable": {`{`, `<`}} {
		t.Run(name, func(t *testing.T) {
			f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("10 per day")})
			f.saveCalendarLimit(t)
			secret := f.key(t, "free")
			f.call(t, secret)
			f.damage(t, change[0], change[1])
			for minute := 1; minute <= 3; minute++ {
				for range 3 {
					if checked := f.call(t, secret); checked.Degraded || !checked.Allowed ||
						len(checked.Limits) != 2 {
						t.Fatalf("got %+v, want the limits of the set before", checked)
					}
				}
				if lines := f.unusableSetLines(); lines != minute {
					t.Errorf("%d log lines after %d minutes, want one a minute", lines, minute)
				}
				f.freeze(unusableLogPause)
			}
			if f.degradedCount() > 0 {
				t.Errorf("the log reports an outage: %s", f.log.String())
			}
			f.damage(t, change[1], change[0])
			f.call(t, secret)
			f.freeze(unusableLogPause)
			if f.call(t, secret); f.unusableSetLines() != 3 {
				t.Error("the log still reports a good set as unusable")
			}
		})
	}
}

// A function that starts with an unusable policy set denies every call without reporting
// an outage. It needs no restart when a usable one is saved.
func TestStartsWithoutAUsableSet(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("10 per day")})
	f.saveCalendarLimit(t)
	secret := f.key(t, "free")
	f.damage(t, "Europe/Berlin", "Mars/Utopia")
	for range 20 {
		if checked, err := f.Check(t.Context(), enforce.Call{Kind: policy.APIKey, Subject: secret.ID(),
			Secret: secret}); !errors.Is(err, enforce.ErrSet) {
			t.Fatalf("got %+v, %v, want ErrSet", checked, err)
		}
	}
	if f.unusableSetLines() != 1 || f.degradedCount() > 0 {
		t.Errorf("want one line about the set and none about an outage: %s", f.log.String())
	}
	f.damage(t, "Mars/Utopia", "Europe/Berlin")
	if checked := f.call(t, secret); !checked.Allowed || checked.Degraded {
		t.Errorf("the set is good again: %+v", checked)
	}
}

// degradedCount returns the number of calls that Valkey did not answer.
func (f *function) degradedCount() int {
	return strings.Count(f.log.String(), "decided without Valkey")
}

// A denial in memory ends when any check of the environment reads a newer policy set.
func TestHammeringUntilANewSet(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("10 per day")})
	secret, other := f.key(t, "free"), f.key(t, "free")
	for range 25 {
		f.call(t, secret)
	}
	f.edit(t, func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 20 })
	f.call(t, other)
	if !f.call(t, secret).Allowed {
		t.Error("still denied by the old policy set")
	}
}

// The function's clock does not affect decisions: only Valkey's clock counts. In the
// other tests of this file it is off by years.
func TestClientClock(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("3 per hour")})
	secret := f.key(t, "free")
	start := time.Until(time.Unix(1_800_000_000, 0))
	var longest time.Duration
	for i, off := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute, 0, 10 * time.Minute,
		-10 * time.Minute} {
		f.clock.Store(int64(off - start))
		checked := f.call(t, secret)
		if checked.Allowed != (i < 3) || checked.Degraded ||
			checked.Limits[0].Remaining != int64(max(0, 2-i)) {
			t.Errorf("call %d, clock off by %s: %+v", i, off, checked)
		}
		if wait := checked.RetryAfter(); wait < 0 || wait > time.Hour || longest > 0 && wait > longest {
			t.Errorf("call %d, clock off by %s: Retry-After is %s, was %s before", i, off, wait, longest)
		} else if wait > 0 {
			longest = wait
		}
	}
}
