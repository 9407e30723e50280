//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
)

// floodTime is how long each flood lasts.
const floodTime = 2 * time.Second

// banned returns a key that is banned for an hour.
func (i *installation) banned(t testing.TB) string {
	t.Helper()
	k, secret := i.key(t, wide)
	_, err := i.store.Update(t.Context(), k.ID, k.Version, registry.KeyBan, suiteEdit, func(k *policy.Key) {
		k.Banned = time.Now().Add(time.Hour)
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// expired returns a key that was valid until it expired.
func (i *installation) expired(t testing.TB) string {
	t.Helper()
	k, secret := i.key(t, wide)
	_, err := i.store.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, suiteEdit, func(k *policy.Key) {
		k.Expires = time.Now().Add(-time.Minute)
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// refusedCaller is a caller that may not call, and the status that a REST API answers.
type refusedCaller struct {
	kind, address, secret string
	status                int
}

func (c refusedCaller) call(t testing.TB, i *installation, path string) int {
	t.Helper()
	return i.rest.from(t, c.address, http.MethodGet, path, "", "x-api-key", c.secret).status
}

// refusedCallers returns callers of every kind that may not call. Some of them called
// just before, so that the function remembers them as allowed.
func (i *installation) refusedCallers(t *testing.T) []refusedCaller {
	t.Helper()
	const usual = "192.0.2.1"
	late, lateSecret := i.key(t, wide)
	banned, bannedSecret := i.key(t, wide)
	for range environments {
		for _, secret := range []string{lateSecret, bannedSecret} {
			if got := i.rest.get(t, "/", "x-api-key", secret); got.status != http.StatusOK {
				t.Fatalf("a good key: %d %s", got.status, got.body)
			}
		}
	}
	if _, err := registrytest.Revoke(t.Context(), i.store, late.ID, suiteEdit); err != nil {
		t.Fatal(err)
	}
	ban := func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }
	_, err := i.store.Update(t.Context(), banned.ID, banned.Version, registry.KeyBan, suiteEdit, ban)
	if err != nil {
		t.Fatal(err)
	}
	_, elsewhere := i.key(t, wide)
	const unauthorized, tooMany = http.StatusUnauthorized, http.StatusTooManyRequests
	return []refusedCaller{
		{"unknown", usual, unknown(t), unauthorized},
		{"revoked", usual, i.revoked(t), unauthorized},
		{"expired", usual, i.expired(t), unauthorized},
		{"banned", usual, i.banned(t), tooMany},
		{"from a refused address", refusedAddress, elsewhere, unauthorized},
		{"over its own limit", usual, i.exhausted(t), tooMany},
		{"revoked a moment ago", usual, lateSecret, unauthorized},
		{"banned a moment ago", usual, bannedSecret, tooMany},
	}
}

// exhausted returns a good key whose own limit is used up. No call of the suite costs
// more than that limit.
func (i *installation) exhausted(t *testing.T) string {
	t.Helper()
	k, secret := i.key(t, wide)
	const cost = 4000
	name := "spent-" + k.ID
	i.route(t, name, cost)
	own := &policy.Override{Limits: registrytest.Limits("4,000 per hour"), Reason: "spent"}
	if _, err := registrytest.Override(t.Context(), i.store, k.ID, own, suiteEdit); err != nil {
		t.Fatal(err)
	}
	if got := i.rest.get(t, "/"+name, "x-api-key", secret); got.status != http.StatusOK {
		t.Fatalf("the first call: %d %s", got.status, got.body)
	}
	return secret
}

// flood makes calls of refused callers from floodThreads goroutines until end is called.
type flood struct {
	calls, unexpected atomic.Int64
	stop              chan struct{}
	threads           sync.WaitGroup
}

const floodThreads = 16

func (i *installation) flood(t *testing.T, path string, callers []refusedCaller) *flood {
	t.Helper()
	f := &flood{stop: make(chan struct{})}
	for thread := range floodThreads {
		f.threads.Go(func() {
			for n := thread; ; n++ {
				select {
				case <-f.stop:
					return
				default:
				}
				caller := callers[n%len(callers)]
				got := caller.call(t, i, path)
				f.calls.Add(1)
				if got != caller.status {
					f.unexpected.Add(1)
				}
			}
		})
	}
	return f
}

func (f *flood) end() { close(f.stop); f.threads.Wait() }

// While 16 threads of refused callers flood a path, every legitimate call passes and
// finds what earlier legitimate calls left.
func TestAttackSharedLimitsFlooded(t *testing.T) {
	a, i := attack(t, "shared limits, flooded",
		"16 threads of the same callers at limits of 20,000, of 1,000,000 at cost 4,000, of 5 and of "+
			"10 at cost 5 per 10 s, while a customer calls")
	for n, c := range []struct {
		rate  string
		cost  int64
		calls int // legitimate ones
	}{
		{"20,000 per 5 minutes", 1, 10},
		{"1,000,000 per 5 minutes", 4000, 10},
		{"5 per 10 seconds", 1, 4},
		{"10 per 10 seconds", 5, 2},
	} {
		t.Run(fmt.Sprintf("cost %d of %s", c.cost, c.rate), func(t *testing.T) {
			name := fmt.Sprintf("flooded-%d", n)
			words, path := fmt.Sprintf("%s, on %s, together", c.rate, name), "/"+name
			limit := registrytest.Limits(words)[0]
			i.route(t, name, c.cost, words)
			callers := i.refusedCallers(t)
			_, secret := i.key(t, wide)
			f := i.flood(t, path, callers)
			tick := time.NewTicker(floodTime / time.Duration(c.calls))
			defer tick.Stop()
			var seen []string
			for call := range c.calls {
				<-tick.C
				a.probe()
				got := i.rest.get(t, path, "x-api-key", secret)
				want := limit.Requests - int64(call+1)*c.cost
				if got.status != http.StatusOK {
					t.Errorf("legitimate call %d: %d, Retry-After %s", call+1, got.status,
						got.header.Get("Retry-After"))
					seen = append(seen, "denied")
					continue
				}
				left, long := got.remaining(t, c.rate+" on"), limit.Window > time.Minute
				if seen = append(seen, fmt.Sprint(left)); left < want || long && left > want {
					t.Errorf("legitimate call %d finds %d left, want %d", call+1, left, want)
				}
			}
			f.end()
			t.Logf("%d calls of the flood; left: %s", f.calls.Load(), strings.Join(seen, " "))
			if f.calls.Load() == 0 || f.unexpected.Load() > 0 {
				t.Errorf("%d calls of the flood, %d answered otherwise", f.calls.Load(), f.unexpected.Load())
			}
		})
	}
}
