package acl_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/usage"
)

// server is a Valkey server. as creates its users.
type server struct{ url string }

func start(t *testing.T) server {
	t.Helper()
	return server{valkeytest.Start(t)}
}

// as returns a client that is logged in as one of the users.
func (s server) as(t *testing.T, user string) valkey.Client {
	t.Helper()
	access := map[string]string{"check": acl.Check(), "admin": acl.Admin()}[user]
	url := valkeytest.As(t, s.url, user, acl.Rules(access))
	return storetest.Connect(t, url)
}

var pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))

// fullPolicySet has every kind of limit, so that a check makes every kind of step.
func fullPolicySet() policy.Set {
	list := func(texts ...string) (all []limits.Limit) {
		for _, text := range texts {
			l, err := limits.Parse(text)
			if err != nil {
				panic(err)
			}
			all = append(all, l)
		}
		return all
	}
	return policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: list("2 per minute", "5 per hour, counter",
			"9 per hour, token bucket", "40 per calendar day", "100 per hour, shadow")}},
		Limits: list("50 per hour, on orders, each caller", "60 per hour, on orders, each address",
			"70 per hour, on orders, together", "80 per hour, each address", "90 per hour, together",
			"95 per hour, on orders, each caller and {id}"),
		Routes: []limits.Route{{Name: "orders", Match: []route.Pattern{{Path: "/orders/{id}"}}}},
	}
}

// Each function can do its work with the rights of its user.
func TestUsersCanDoTheirWork(t *testing.T) {
	s := start(t)
	client, now := s.as(t, "admin"), time.Now()
	admin, edit := registry.NewStore(client, pepper),
		registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
	set := must(admin.SaveSet(t.Context(), fullPolicySet(), edit))(t)
	key, secret := registrytest.Create(t, admin, edit, policy.NewKey{Name: "one", Env: "test", Plan: "free"})
	checkUser := s.as(t, "check")
	check, recorder := enforce.NewChecker(checkUser, pepper),
		usage.NewRecorder(usage.Options{}, func() time.Time { return now })
	call := enforce.Call{
		Kind: policy.APIKey, Subject: secret.ID(), Secret: secret, Address: netip.MustParseAddr("192.0.2.1"),
		Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders/7"},
	}
	if err := check.Probe(t.Context(), call); err != nil {
		t.Errorf("probe: %v", err)
	}
	verdicts := ""
	for range 6 { // two calls are allowed, three denied, and then the caller is banned
		c, err := check.Check(t.Context(), call, nil)
		if err != nil {
			t.Fatalf("check: %v", err)
		}
		verdicts += map[bool]string{true: "y", false: "n"}[c.Allowed]
		for range 12 { // enough that call times are recorded
			recorder.Record(usage.Outcome{Subject: key.ID, Registered: true, Cost: 1,
				Rules: []string{"orders"}, Time: now})
			recorder.Record(usage.Outcome{Subject: "192.0.2.1", Verdict: usage.Denied, Cost: 1, Time: now})
		}
		if report := recorder.Flush(t.Context(), checkUser); report.Lost+report.Returned > 0 ||
			report.Err != nil {
			t.Errorf("usage: %+v", report)
		}
	}
	if verdicts != "yynnnn" {
		t.Errorf("got verdicts %s, want yynnnn", verdicts)
	}
	checkReads(t, admin, client, set, key)
	if err := admin.Delete(t.Context(), key.ID, edit); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// checkReads makes the reads of the dashboard.
func checkReads(t *testing.T, admin *registry.Store, client valkey.Client, set *policy.Set, key policy.Key) {
	t.Helper()
	reader, now := usage.NewReader(client), time.Now()
	for name, read := range map[string]func() error{
		"list":   func() error { _, err := admin.List(t.Context(), set, registry.Query{}); return err },
		"counts": func() error { _, err := admin.PlanCounts(t.Context(), set); return err },
		"usage": func() error {
			_, err := enforce.NewChecker(client, pepper).Usage(t.Context(), set, []policy.Key{key})
			return err
		},
		"audit":  func() error { _, err := admin.Audit().List(t.Context(), audit.Query{}); return err },
		"verify": func() error { _, err := admin.Audit().Verify(t.Context()); return err },
		"series": func() error {
			_, err := reader.Series(t.Context(), key.ID, now.Add(-time.Hour), now, time.Minute)
			return err
		},
		"active": func() error { _, err := reader.Active(t.Context(), "", 10); return err },
		"busiest": func() error {
			_, err := reader.Rank(t.Context(), now.Add(-time.Hour), now, time.Minute, 10, usage.Busiest)
			return err
		},
		"calls": func() error {
			_, err := reader.Calls(t.Context(), key.ID, now.Add(-time.Hour), now)
			return err
		},
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// must ends the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const (
	record  = "tg:{slot}:id:c"
	plans   = "tg:{slot}:p"
	set     = "tg:{slot}:policy:c"
	state   = "tg:{slot}:id:s"
	minutes = "tg:{slot}:id:m481"
	chain   = "tg:{slot}:a"
	session = "tg:session:e3b0c44298fc"
	tokens  = "tg:{tokens}:records"
)

// Commands beyond the work of a user's function are refused, sent directly or by a
// script.
func TestUsersCanDoNoMore(t *testing.T) {
	s := start(t)
	eval := func(script string, keys ...string) []string {
		return append([]string{"EVAL", script, string(rune('0' + len(keys)))}, keys...)
	}
	clients := map[string]valkey.Client{"check": s.as(t, "check"), "admin": s.as(t, "admin")}
	for _, c := range []struct {
		user    string
		words   []string
		allowed bool
	}{
		{"check", []string{"GET", record}, true},
		{"check", []string{"GET", plans}, true},
		{"check", []string{"SET", state, "1"}, true},
		{"check", []string{"SET", minutes, "1"}, true},
		{"check", eval("return redis.call('GET', KEYS[1])", record, state), true},
		{"check", eval("return redis.call('SET', KEYS[2], '1', 'PX', 1000)", record, state), true},

		{"check", []string{"SET", record, "1"}, false},
		{"check", []string{"SET", plans, "1"}, false},
		{"check", []string{"DEL", record}, false},
		{"check", []string{"SET", chain, "1"}, false},
		{"check", []string{"XADD", chain, "*", "e", "1"}, false},
		{"check", eval("return redis.call('XADD', KEYS[1], '*', 'e', '1')", chain), false},
		{"check", eval("return redis.call('SET', KEYS[1], '1')", record, state), false},
		{"check", eval("return redis.call('SET', KEYS[1], '1')", plans), false},
		{"check", eval("return redis.call('SET', '" + record + "', '1')"), false},
		{"check", eval("return redis.call('PEXPIRE', KEYS[1], 1)", record), false},
		{"check", eval("return redis.call('FLUSHALL')"), false},
		{"check", []string{"SET", set, "{}"}, false},
		{"check", []string{"GETRANGE", plans, "0", "4"}, true},
		{"check", []string{"GET", set}, true},
		{"check", eval("return redis.call('SET', KEYS[1], '{}')", set), false},
		{"check", eval("return redis.call('DEL', KEYS[1])", plans), false},
		{"check", eval("return redis.call('SETRANGE', KEYS[1], 0, 'x')", record, state), false},
		{"check", eval("return redis.call('RENAME', KEYS[2], KEYS[1])", record, state), false},
		{"check", eval("return redis.call('COPY', KEYS[2], KEYS[1], 'REPLACE')", record, state), false},
		{"check", eval("return redis.call('RESTORE', KEYS[1], 0, '')", record), false},
		{"check", eval("return redis.call('KEYS', '*')"), false},
		{"check", eval("return redis.call('SCAN', '0')"), false},
		{"check", []string{"FLUSHALL"}, false},
		{"check", []string{"FLUSHDB"}, false},
		{"check", []string{"SCRIPT", "FLUSH"}, false},
		{"check", []string{"FUNCTION", "FLUSH"}, false},
		{"check", []string{"CLIENT", "KILL", "TYPE", "normal"}, false},
		{"check", []string{"DEBUG", "SLEEP", "0"}, false},
		{"check", []string{"SHUTDOWN"}, false},
		{"check", []string{"GET", session}, false},
		{"check", []string{"SET", session, "1"}, false},
		{"check", eval("return redis.call('GET', KEYS[1])", session), false},
		{"check", eval("return redis.call('SET', KEYS[1], '1')", session), false},
		{"check", eval("return redis.call('ZADD', KEYS[1], 0, '1')", "tg:sessions:ada"), false},
		{"check", []string{"HGETALL", tokens}, false},
		{"check", eval("return redis.call('HGETALL', KEYS[1])", tokens), false},
		{"check", eval("return redis.call('HSET', KEYS[1], 'a', '1')", tokens), false},
		{"check", eval("return redis.call('DEL', KEYS[1])", "tg:login:account:1"), false},
		{"check", eval("return redis.call('ZADD', KEYS[1], 0, '1')", "tg:keys"), false},
		{"check", eval("return redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)", chain), false},
		{"check", []string{"GET", "another"}, false},
		{"check", []string{"EVAL", "return 1", "1", "another"}, false},
		{"check", []string{"SCAN", "0"}, false},
		{"check", []string{"KEYS", "*"}, false},
		{"check", []string{"CONFIG", "GET", "maxmemory"}, false},
		{"check", []string{"ACL", "LIST"}, false},

		{"admin", []string{"SET", record, "1"}, true},
		{"admin", []string{"SET", plans, "1"}, true},
		{"admin", []string{"SET", "another", "1"}, false},
		{"admin", eval("return redis.call('GET', KEYS[1])", "another"), false},
		{"admin", eval("return redis.call('SET', KEYS[1], '1')", session), true},
		{"admin", eval("return redis.call('HSET', KEYS[1], 'a', '1')", tokens), true},
		{"admin", eval("return redis.call('FLUSHALL')"), false},
		{"admin", []string{"FLUSHALL"}, false},
		{"admin", []string{"FLUSHDB"}, false},
		{"admin", []string{"SWAPDB", "0", "1"}, false},
		{"admin", []string{"KEYS", "*"}, false},
		{"admin", []string{"SCAN", "0"}, false},
		{"admin", []string{"RANDOMKEY"}, false},
		{"admin", []string{"CONFIG", "GET", "maxmemory"}, false},
		{"admin", []string{"CONFIG", "SET", "maxmemory", "1mb"}, false},
		{"admin", []string{"DEBUG", "SLEEP", "0"}, false},
		{"admin", []string{"SCRIPT", "FLUSH"}, false},
		{"admin", []string{"SCRIPT", "KILL"}, false},
		{"admin", []string{"FUNCTION", "FLUSH"}, false},
		{"admin", []string{"FUNCTION", "LOAD", "#!lua name=x"}, false},
		{"admin", []string{"ACL", "LIST"}, false},
		{"admin", []string{"ACL", "SETUSER", "check", "~*", "+@all"}, false},
		{"admin", []string{"CLIENT", "LIST"}, false},
		{"admin", []string{"CLIENT", "KILL", "TYPE", "normal"}, false},
		{"admin", []string{"MONITOR"}, false},
		{"admin", []string{"INFO"}, false},
		{"admin", []string{"REPLICAOF", "127.0.0.1", "1"}, false},
		{"admin", []string{"CLUSTER", "RESET"}, false},
		{"admin", []string{"MODULE", "LIST"}, false},
		{"admin", []string{"SHUTDOWN"}, false},
		{"admin", []string{"MIGRATE", "127.0.0.1", "1", record, "0", "1"}, false},
		{"admin", []string{"RESTORE", record, "0", ""}, false},
		{"admin", []string{"SORT", tokens}, false},
		{"admin", []string{"RENAME", session, record}, false},
		{"admin", []string{"COPY", session, record}, false},
		{"admin", []string{"XTRIM", chain, "MAXLEN", "0"}, true}, // the journal has the entries
		{"admin", []string{"XDEL", chain, "0-1"}, false},
		{"admin", []string{"PUBLISH", "a", "b"}, false},
		{"admin", []string{"BLPOP", "tg:list", "1"}, false},
	} {
		client := clients[c.user]
		err := client.Do(t.Context(), client.B().Arbitrary(c.words...).Build()).Error()
		refused := err != nil && (strings.HasPrefix(err.Error(), "NOPERM") ||
			strings.Contains(err.Error(), "ACL failure"))
		if refused == c.allowed || err != nil && !refused && !valkey.IsValkeyNil(err) {
			t.Errorf("%s, %q: got error %v, want allowed: %t", c.user, c.words, err, c.allowed)
		}
	}
}

func TestRules(t *testing.T) {
	for access, want := range map[string][]string{
		"":                                  nil,
		"on ~a +get":                        {"on", "~a", "+get"},
		"on (-@all +get ~a) (+set) (~b +x)": {"on", "(-@all +get ~a)", "(+set)", "(~b +x)"},
	} {
		if got := acl.Rules(access); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", access, got, want)
		}
	}
}
