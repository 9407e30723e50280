package acl_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
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
	orders := registrytest.Route("orders", 2, "/orders/{order}")
	orders.Settle = true
	return policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: registrytest.Limits("4 per minute",
			"50 per hour, counter", "90 per hour, token bucket", "80 per calendar day",
			"70 per hour, denied calls count",
			"60 per hour, on orders, each caller and {order}",
			"60 per hour, on orders, each caller and pattern",
			"600 per hour, each group", "900 per hour, together", "2 per hour, shadow")}},
		Limits: registrytest.Limits("600 per hour, on orders, each {order}", "600 per hour, each address",
			"900 per hour, on orders, together"),
		Routes: []limits.Route{orders},
	}
}

// Each function can do its work with the rights of its user: a check makes steps of every
// kind, settles, and sees resets.
func TestUsersCanDoTheirWork(t *testing.T) {
	s := start(t)
	client, now := s.as(t, "admin"), time.Now()
	admin, edit := registrytest.New(t, client, pepper), registrytest.Edit
	set := registrytest.Put(t, admin, edit, fullPolicySet())
	key, secret := registrytest.Create(t, admin, edit,
		policy.NewKey{Name: "one", Env: "test", Plan: "free", Group: "acme"})
	checkUser := s.as(t, "check")
	check, recorder := enforce.NewChecker(checkUser, pepper),
		records.NewRecorder(func() time.Time { return now })
	call := enforce.Call{
		Kind: policy.APIKey, Subject: secret.ID(), Secret: secret, Address: netip.MustParseAddr("192.0.2.1"),
		Network: netip.MustParsePrefix("192.0.2.1/32"),
		Route:   route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders/7"},
	}
	if err := check.Probe(t.Context(), call); err != nil {
		t.Errorf("probe: %v", err)
	}
	verdicts := ""
	checked := func() enforce.Result {
		c, err := check.Check(t.Context(), call)
		if err != nil {
			t.Fatalf("check: %v", err)
		}
		verdicts += map[bool]string{true: "y", false: "n"}[c.Allowed]
		return c
	}
	for range 4 {
		if c := checked(); len(verdicts) == 1 {
			actual := limits.Costs{Units: map[string]int64{limits.Cost: 1}}
			r, err := check.Settle(t.Context(), c.Settlement, actual)
			if err != nil || r.Reserved[limits.Cost] != 2 {
				t.Errorf("settle: %+v, %v", r, err)
			}
		}
		recorder.Record(records.Call{Caller: key.ID, Registered: true, Cost: 1, Routes: []string{"orders"},
			NearFor: time.Hour, Degraded: true, Time: now})
		recorder.Record(records.Call{Caller: "192.0.2.1", Cause: cause.Limit, Limit: "1 per hour",
			RetryAfter: time.Hour, Request: "a", Time: now})
		if report := recorder.Flush(t.Context(), checkUser); report.Lost+report.Returned > 0 ||
			report.Err != nil {
			t.Errorf("records: %+v", report)
		}
	}
	if _, err := admin.Reset(t.Context(), key.ID, edit); err != nil {
		t.Errorf("reset: %v", err)
	}
	if err := admin.ResetGroup(t.Context(), "acme", edit); err != nil {
		t.Errorf("reset of a group: %v", err)
	}
	c := checked()
	if verdicts != "yynny" { // 4 per minute: 1 as settled, 2, and after the reset again 2
		t.Errorf("got verdicts %s, want yynny", verdicts)
	}
	if i := slices.IndexFunc(c.Limits, func(l enforce.LimitState) bool {
		return l.Who == limits.EachGroup
	}); i < 0 || c.Limits[i].Used() != c.Cost {
		t.Errorf("got %+v after the reset, want the group's limit to count one call", c.Limits)
	}
	call.Route.Path = "/else"
	checkReads(t, admin, client, set, key, call)
	if err := admin.Delete(t.Context(), key.ID, edit); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// checkReads makes the reads of the dashboard.
func checkReads(t *testing.T, admin *registry.Store, client valkey.Client, set *policy.Set, key policy.Key,
	call enforce.Call) {
	t.Helper()
	reader, look := records.NewReader(client, time.Now), enforce.NewChecker(client, pepper)
	last := records.Last(time.Hour, 0, time.Now())
	for name, read := range map[string]func() error{
		"list":   func() error { _, err := admin.List(t.Context(), set, registry.Query{}); return err },
		"counts": func() error { _, err := admin.PlanCounts(t.Context(), set); return err },
		"usage":  func() error { _, err := look.Usage(t.Context(), set, []policy.Key{key}); return err },
		"group":  func() error { _, err := look.GroupUsage(t.Context(), set, "acme", set.Plans); return err },
		"survey": func() error { _, err := look.Survey(t.Context(), set, key); return err },
		"explain": func() error {
			e, err := look.Explain(t.Context(), set, key, call)
			if err == nil && len(e.Result.Limits) == 0 {
				t.Error("explain: no limits")
			}
			return err
		},
		"audit":   func() error { _, err := admin.Audit(t.Context(), registry.AuditQuery{}); return err },
		"groups":  func() error { _, err := admin.Groups(t.Context(), "", "", 10); return err },
		"tokens":  func() error { _, err := admin.ListTokens(t.Context()); return err },
		"minute":  func() error { return admin.CatchUp(t.Context()) },
		"series":  func() error { _, err := reader.Caller(t.Context(), key.ID, last); return err },
		"active":  func() error { _, err := reader.Active(t.Context(), "", 10); return err },
		"busiest": func() error { _, err := reader.Rank(t.Context(), last, records.Busiest, 10); return err },
		"last":    func() error { _, err := reader.LastCalls(t.Context(), []string{key.ID}); return err },
		"states":  func() error { _, err := reader.States(t.Context(), []string{key.ID}); return err },
		"denials": func() error {
			_, err := reader.Denials(t.Context(), records.DenialQuery{From: last.From, To: last.To})
			return err
		},
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const (
	bucket  = "tg:{slot}:cr"
	lists   = "tg:{slot}:cl"
	marks   = "tg:{slot}:cm"
	state   = "tg:{slot}:id:sAbC"
	mark    = "tg:{slot}:id:s!nonce"
	minutes = "tg:{slot}:id:m481"
	session = "tg:session:e3b0c44298fc"
	audit   = "tg:{slot}:audit:newest"
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
		{"check", []string{"HGET", bucket, "r:id"}, true},
		{"check", []string{"HMGET", bucket, "policy", "r:id"}, true},
		{"check", []string{"HVALS", marks}, true},
		{"check", []string{"SET", state, "1"}, true},
		{"check", []string{"DEL", mark}, true},
		{"check", []string{"SET", minutes, "1"}, true},
		{"check", eval("return redis.call('HMGET', KEYS[1], 'policy', 'r:id')", bucket, state), true},
		{"check", eval("return redis.call('SET', KEYS[2], '1', 'PX', 1000)", bucket, state), true},

		{"check", []string{"HGETALL", bucket}, false},
		{"check", []string{"HVALS", bucket}, false},
		{"check", []string{"HSET", bucket, "r:id", "1"}, false},
		{"check", []string{"HDEL", marks, "id"}, false},
		{"check", []string{"HSET", marks, "id", "1"}, false},
		{"check", []string{"DEL", bucket}, false},
		{"check", []string{"DEL", marks}, false},
		{"check", []string{"ZRANGE", lists, "0", "-1"}, false},
		{"check", []string{"ZADD", lists, "0", "1"}, false},
		{"check", eval("return redis.call('HSET', KEYS[1], 'r:id', '1')", bucket, state), false},
		{"check", eval("return redis.call('HDEL', KEYS[1], 'id')", marks), false},
		{"check", eval("return redis.call('DEL', KEYS[1])", bucket), false},
		{"check", eval("return redis.call('HSET', '" + bucket + "', 'r:id', '1')"), false},
		{"check", eval("return redis.call('PEXPIRE', KEYS[1], 1)", bucket), false},
		{"check", eval("return redis.call('RENAME', KEYS[2], KEYS[1])", bucket, state), false},
		{"check", eval("return redis.call('COPY', KEYS[2], KEYS[1], 'REPLACE')", bucket, state), false},
		{"check", eval("return redis.call('RESTORE', KEYS[1], 0, '')", bucket), false},
		{"check", eval("return redis.call('ZADD', KEYS[1], 0, '1')", audit), false},
		{"check", eval("return redis.call('FLUSHALL')"), false},
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
		{"check", eval("return redis.call('DEL', KEYS[1])", "tg:login:account:1"), false},
		{"check", eval("return redis.call('ZADD', KEYS[1], 0, '1')", "tg:keys"), false},
		{"check", []string{"GET", "another"}, false},
		{"check", []string{"EVAL", "return 1", "1", "another"}, false},
		{"check", []string{"SCAN", "0"}, false},
		{"check", []string{"KEYS", "*"}, false},
		{"check", []string{"CONFIG", "GET", "maxmemory"}, false},
		{"check", []string{"ACL", "LIST"}, false},

		{"admin", []string{"HSET", bucket, "r:id", "1"}, true},
		{"admin", []string{"ZREMRANGEBYRANK", audit, "0", "0"}, true},
		{"admin", []string{"SORT", lists}, false},
		{"admin", []string{"WAIT", "0", "0"}, true},
		{"admin", []string{"SET", "another", "1"}, false},
		{"admin", eval("return redis.call('GET', KEYS[1])", "another"), false},
		{"admin", eval("return redis.call('SET', KEYS[1], '1')", session), true},
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
		{"admin", []string{"MIGRATE", "127.0.0.1", "1", bucket, "0", "1"}, false},
		{"admin", []string{"RESTORE", bucket, "0", ""}, false},
		{"admin", []string{"RENAME", session, "another"}, false},
		{"admin", []string{"COPY", session, bucket}, false},
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
