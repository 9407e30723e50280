package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/store"
	"tidegate/internal/valkeytest"
)

var testPepper = apikey.Pepper(strings.Repeat("pepper!!", 4))

func open(t *testing.T, url string) (*Store, valkey.Client) {
	t.Helper()
	client, err := store.Open(t.Context(), url, store.Options{Dial: 5 * time.Second, Write: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return NewStore(client, testPepper), client
}

// onEveryServer runs a test on a real Valkey and on the embedded server.
func onEveryServer(t *testing.T, test func(*testing.T, *Store, valkey.Client)) {
	for name, start := range map[string]func(testing.TB) string{"valkey": valkeytest.Start, "embedded": valkeytest.Embedded} {
		t.Run(name, func(t *testing.T) {
			s, client := open(t, start(t))
			test(t, s, client)
		})
	}
}

func perMinute(requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: time.Minute}}
}

func create(t *testing.T, s *Store, name string, limits []limiter.Limit) (Key, apikey.Secret) {
	t.Helper()
	k, secret, err := s.Create(t.Context(), NewKey{Name: name, Env: "test", Plan: "free", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func TestCheckFindsKeyAndTakes(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, client valkey.Client) {
		limits := []limiter.Limit{{Requests: 2, Window: time.Minute}, {Requests: 5, Window: time.Hour, Algorithm: limiter.Counter}}
		k, secret := create(t, s, "Zoë <script>", limits)
		for i, want := range []bool{true, true, false} {
			c, err := s.Check(t.Context(), secret, 1)
			if err != nil {
				t.Fatal(err)
			}
			if c.Decision.Allowed != want || fmt.Sprint(c.Key) != fmt.Sprint(k) {
				t.Errorf("check %d: %+v, want allowed=%t for %+v", i, c, want, k)
			}
		}
		d, err := s.Usage(t.Context(), []Key{k})
		if err != nil {
			t.Fatal(err)
		}
		if d[0].Limits[0].Used() != 2 || d[0].Limits[1].Used() != 2 {
			t.Errorf("usage after two admitted and one denied call: %+v, want 2 of each limit", d[0])
		}
		ttl := client.Do(t.Context(), client.B().Pttl().Key(stateKey(k.ID)).Build())
		if left, err := ttl.AsInt64(); err != nil || left <= 0 || left > 2*time.Hour.Milliseconds()+1 {
			t.Errorf("counts live for %d ms, %v; want at most two windows", left, err)
		}
		if ttl, _ := client.Do(t.Context(), client.B().Pttl().Key(recordKey(k.ID)).Build()).AsInt64(); ttl != -1 {
			t.Errorf("the key's record expires in %d ms: configuration must not", ttl)
		}
	})
}

func TestUnknownKeysLookAlike(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		k, revoked := create(t, s, "revoked", perMinute(9))
		if _, err := s.Revoke(t.Context(), k.ID, k.Version); err != nil {
			t.Fatal(err)
		}
		never, err := apikey.Generate("test")
		if err != nil {
			t.Fatal(err)
		}
		_, known := create(t, s, "known", perMinute(9))
		otherPepper := NewStore(s.client, apikey.Pepper(strings.Repeat("q", 32)))
		for name, check := range map[string]func() (Checked, error){
			"revoked":      func() (Checked, error) { return s.Check(t.Context(), revoked, 1) },
			"never seen":   func() (Checked, error) { return s.Check(t.Context(), never, 1) },
			"wrong secret": func() (Checked, error) { return otherPepper.Check(t.Context(), known, 1) },
		} {
			if c, err := check(); !errors.Is(err, ErrUnknownKey) || err.Error() != ErrUnknownKey.Error() || c.Decision.Allowed {
				t.Errorf("%s: %+v, %v; want ErrUnknownKey", name, c, err)
			}
		}
	})
}

// An edit acts on the next check and keeps the window's history: raising frees at once, lowering never resets the count.
func TestSetLimitsActsOnNextCheck(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		k, secret := create(t, s, "edited", perMinute(2))
		for _, step := range []struct {
			limits    []limiter.Limit
			allowed   bool
			remaining int64
		}{
			{perMinute(2), true, 1},
			{perMinute(2), true, 0},
			{perMinute(3), true, 0},
			{perMinute(1), false, 0},
			{perMinute(5), true, 1},
			{[]limiter.Limit{{Requests: 5, Window: time.Hour}}, true, 0},
			{[]limiter.Limit{{Requests: 5, Window: time.Hour, Algorithm: limiter.Counter}}, false, 0},
		} {
			var err error
			if k, err = s.SetLimits(t.Context(), k.ID, k.Version, step.limits); err != nil {
				t.Fatal(err)
			}
			c, err := s.Check(t.Context(), secret, 1)
			if err != nil {
				t.Fatal(err)
			}
			if c.Decision.Allowed != step.allowed || c.Decision.Limits[0].Remaining != step.remaining || c.Key.Version != k.Version {
				t.Errorf("after the edit to %v: %+v, want %+v at version %d", step.limits, c, step, k.Version)
			}
		}
	})
}

func TestStaleEditWritesNothing(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		k, _ := create(t, s, "edited", perMinute(2))
		first, err := s.SetLimits(t.Context(), k.ID, k.Version, perMinute(3))
		if err != nil {
			t.Fatal(err)
		}
		current, err := s.SetLimits(t.Context(), k.ID, k.Version, perMinute(4))
		if !errors.Is(err, ErrConflict) || fmt.Sprint(current) != fmt.Sprint(first) {
			t.Errorf("stale edit: %+v, %v; want %+v and ErrConflict", current, err, first)
		}
		if got, err := s.Get(t.Context(), k.ID); err != nil || fmt.Sprint(got) != fmt.Sprint(first) {
			t.Errorf("after the stale edit: %+v, %v; want %+v", got, err, first)
		}
	})
}

// Of many concurrent edits of one version exactly one is written.
func TestConcurrentEditsConflict(t *testing.T) {
	s, _ := open(t, valkeytest.Start(t))
	k, _ := create(t, s, "contended", perMinute(2))
	const editors = 20
	results := make(chan error, editors)
	for i := range editors {
		go func() {
			_, err := s.SetLimits(t.Context(), k.ID, k.Version, perMinute(int64(10+i)))
			results <- err
		}()
	}
	saved := 0
	for range editors {
		switch err := <-results; {
		case err == nil:
			saved++
		case !errors.Is(err, ErrConflict):
			t.Error(err)
		}
	}
	if got, err := s.Get(t.Context(), k.ID); err != nil || saved != 1 || got.Version != 2 {
		t.Errorf("%d edits saved, version %d, %v; want 1 and version 2", saved, got.Version, err)
	}
}

func TestListPagesByName(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		for _, name := range []string{"delta", "Alpha", "alpine", "beta", "Alp"} {
			create(t, s, name, perMinute(1))
		}
		var names []string
		q := Query{Count: 2}
		for {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range page.Keys {
				names = append(names, k.Name)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if got := strings.Join(names, " "); got != "Alp Alpha alpine beta delta" {
			t.Errorf("pages hold %s", got)
		}
		page, err := s.List(t.Context(), Query{Prefix: "ALP"})
		if err != nil || len(page.Keys) != 3 || page.Next != "" {
			t.Errorf("prefix ALP: %+v, %v; want 3 keys", page, err)
		}
		var invalid *InvalidError
		if _, err := s.List(t.Context(), Query{After: "!"}); !errors.As(err, &invalid) {
			t.Errorf("bad position: %v, want an InvalidError", err)
		}
	})
}

func TestDelete(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		k, secret := create(t, s, "gone", perMinute(1))
		if err := s.Delete(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(t.Context(), secret, 1); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("check of a deleted key: %v", err)
		}
		if page, err := s.List(t.Context(), Query{}); err != nil || len(page.Keys) != 0 {
			t.Errorf("list after delete: %+v, %v", page, err)
		}
		if err := s.Delete(t.Context(), k.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("second delete: %v, want ErrNotFound", err)
		}
	})
}

func TestBadInputIsNamedAndNotStored(t *testing.T) {
	s, client := open(t, valkeytest.Start(t))
	good := NewKey{Name: "name", Env: "test", Plan: "free", Limits: perMinute(1)}
	for field, change := range map[string]func(*NewKey){
		"name":               func(n *NewKey) { n.Name = strings.Repeat("x", 1<<20) },
		"env":                func(n *NewKey) { n.Env = "Prod" },
		"plan":               func(n *NewKey) { n.Plan = "\u202e" },
		"limits":             func(n *NewKey) { n.Limits = nil },
		"limits[0].requests": func(n *NewKey) { n.Limits = perMinute(0) },
		"limits[0].window":   func(n *NewKey) { n.Limits = []limiter.Limit{{Requests: 1, Window: 367 * 24 * time.Hour}} },
	} {
		n := good
		change(&n)
		_, _, err := s.Create(t.Context(), n)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != field {
			t.Errorf("%s: %v, want an InvalidError about it alone", field, err)
		}
	}
	if size, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64(); err != nil || size != 0 {
		t.Errorf("%d keys stored, %v; want none", size, err)
	}
}

func TestCheckRefusesCost(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, _ valkey.Client) {
		_, secret := create(t, s, "costly", perMinute(5))
		for _, cost := range []int64{-1, 0, 6, limiter.MaxRequests + 1} {
			if _, err := s.Check(t.Context(), secret, cost); !errors.Is(err, limiter.ErrCost) {
				t.Errorf("cost %d: %v, want ErrCost", cost, err)
			}
		}
		if c, err := s.Check(t.Context(), secret, 5); err != nil || !c.Decision.Allowed {
			t.Errorf("cost 5 of 5 after refused costs: %+v, %v; want allowed", c, err)
		}
	})
}

// A record that is not ours is an error, never an allowed call.
func TestForeignBytesNeverAllow(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, client valkey.Client) {
		k, secret := create(t, s, "broken", perMinute(5))
		whole, err := client.Do(t.Context(), client.B().Get().Key(recordKey(k.ID)).Build()).AsBytes()
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			client.Do(t.Context(), client.B().Set().Key(recordKey(k.ID)).Value(string(whole[:n])).Build())
			if c, err := s.Check(t.Context(), secret, 1); err == nil || c.Decision.Allowed {
				t.Errorf("a record cut to %d bytes allowed: %+v", n, c)
			}
		}
	})
}

// A key that another version wrote denies its caller, is listed beside the others, and can be deleted. Its counts are not touched.
func TestUnreadableKeyHidesNoOther(t *testing.T) {
	onEveryServer(t, func(t *testing.T, s *Store, client valkey.Client) {
		odd, secret := create(t, s, "Odd", perMinute(5))
		good, _ := create(t, s, "good", perMinute(5))
		record, err := client.Do(t.Context(), client.B().Get().Key(recordKey(odd.ID)).Build()).AsBytes()
		if err != nil {
			t.Fatal(err)
		}
		record[programAt+2]++ // the program's version
		client.Do(t.Context(), client.B().Set().Key(recordKey(odd.ID)).Value(valkey.BinaryString(record)).Build())
		if c, err := s.Check(t.Context(), secret, 1); err == nil || errors.Is(err, ErrUnknownKey) {
			t.Errorf("check: %+v, %v; want an error that says why", c, err)
		}
		if n, _ := client.Do(t.Context(), client.B().Exists().Key(stateKey(odd.ID)).Build()).AsInt64(); n != 0 {
			t.Error("the check wrote counts")
		}
		page, err := s.List(t.Context(), Query{})
		if err != nil || len(page.Keys) != 2 || page.Keys[0].ID != good.ID || page.Keys[1].Status != Unreadable || page.Keys[1].Name != "odd" {
			t.Fatalf("list: %+v, %v", page, err)
		}
		if d, err := s.Usage(t.Context(), page.Keys); err != nil || len(d) != 2 || d[0].Limits[0].Remaining != 5 || len(d[1].Limits) != 0 {
			t.Errorf("usage: %+v, %v", d, err)
		}
		if _, err := s.Get(t.Context(), odd.ID); !errors.Is(err, ErrUnreadable) {
			t.Errorf("get: %v, want ErrUnreadable", err)
		}
		if err := s.Delete(t.Context(), odd.ID); err != nil {
			t.Error(err)
		}
		if page, err := s.List(t.Context(), Query{}); err != nil || len(page.Keys) != 1 {
			t.Errorf("list after delete: %+v, %v", page, err)
		}
	})
}
