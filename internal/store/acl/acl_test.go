package acl_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/acl"
	"tidegate/internal/valkeytest"
)

const password = "only-for-this-test"

// server has both users; as returns a client of one of them.
type server struct{ url string }

func start(t *testing.T) server {
	t.Helper()
	s := server{valkeytest.Start(t)}
	root := s.open(t, s.url)
	for user, access := range map[string]string{"check": acl.Check(), "admin": acl.Admin()} {
		words := append([]string{"ACL", "SETUSER", user, ">" + password}, acl.Rules(access)...)
		if err := root.Do(t.Context(), root.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("user %s: %v", user, err)
		}
	}
	return s
}

func (s server) open(t *testing.T, url string) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), url, store.Options{Dial: 5 * time.Second, Write: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (s server) as(t *testing.T, user string) valkey.Client {
	t.Helper()
	return s.open(t, strings.Replace(s.url, "://", "://"+user+":"+password+"@", 1))
}

var pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))

// What the functions do works with no more rights than these.
func TestUsersCanDoTheirWork(t *testing.T) {
	s := start(t)
	admin, check := policy.NewStore(s.as(t, "admin"), pepper), policy.NewStore(s.as(t, "check"), pepper)
	limits := []limiter.Limit{
		{Requests: 2, Window: time.Minute},
		{Requests: 5, Window: time.Hour, Algorithm: limiter.Counter},
		{Requests: 9, Window: time.Hour, Algorithm: limiter.TokenBucket},
	}
	key, secret, err := admin.Create(t.Context(), policy.NewKey{Name: "one", Env: "test", Plan: "free", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Probe(t.Context(), secret); err != nil {
		t.Errorf("probe: %v", err)
	}
	for i, want := range []bool{true, true, false} {
		c, err := check.Check(t.Context(), secret, 1)
		if err != nil || c.Decision.Allowed != want {
			t.Errorf("check %d: allowed %t, %v; want %t", i, c.Decision.Allowed, err, want)
		}
	}
	if key, err = admin.SetLimits(t.Context(), key.ID, key.Version, limits[:1]); err != nil {
		t.Errorf("edit: %v", err)
	}
	if _, err := admin.List(t.Context(), policy.Query{}); err != nil {
		t.Errorf("list: %v", err)
	}
	if _, err := admin.Usage(t.Context(), []policy.Key{key}); err != nil {
		t.Errorf("usage: %v", err)
	}
	if err := admin.Delete(t.Context(), key.ID); err != nil {
		t.Errorf("delete: %v", err)
	}
}

const (
	record = "tg:{slot}:id:c"
	plans  = "tg:{slot}:p"
	state  = "tg:{slot}:id:s"
	usage  = "tg:{slot}:u:5"
)

func TestUsersCanDoNoMore(t *testing.T) {
	s := start(t)
	eval := func(script string, keys ...string) []string {
		return append([]string{"EVAL", script, string(rune('0' + len(keys)))}, keys...)
	}
	for _, c := range []struct {
		user    string
		words   []string
		allowed bool
	}{
		{"check", []string{"GET", record}, true},
		{"check", []string{"GET", plans}, true},
		{"check", []string{"SET", state, "1"}, true},
		{"check", []string{"SET", usage, "1"}, true},
		{"check", eval("return redis.call('GET', KEYS[1])", record, state), true},
		{"check", eval("return redis.call('SET', KEYS[2], '1', 'PX', 1000)", record, state), true},

		{"check", []string{"SET", record, "1"}, false},
		{"check", []string{"SET", plans, "1"}, false},
		{"check", []string{"DEL", record}, false},
		{"check", eval("return redis.call('SET', KEYS[1], '1')", record, state), false},
		{"check", eval("return redis.call('SET', KEYS[1], '1')", plans), false},
		{"check", eval("return redis.call('SET', '" + record + "', '1')"), false},
		{"check", eval("return redis.call('PEXPIRE', KEYS[1], 1)", record), false},
		{"check", eval("return redis.call('FLUSHALL')"), false},
		{"check", []string{"GET", "tg:session:1"}, false},
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
		{"admin", []string{"FLUSHALL"}, false},
		{"admin", []string{"KEYS", "*"}, false},
		{"admin", []string{"CONFIG", "GET", "maxmemory"}, false},
		{"admin", []string{"ACL", "SETUSER", "check", "~*", "+@all"}, false},
	} {
		client := s.as(t, c.user)
		err := client.Do(t.Context(), client.B().Arbitrary(c.words...).Build()).Error()
		refused := err != nil && (strings.HasPrefix(err.Error(), "NOPERM") || strings.Contains(err.Error(), "ACL failure"))
		if refused == c.allowed || err != nil && !refused && !valkey.IsValkeyNil(err) {
			t.Errorf("%s, %q: %v; allowed is to be %t", c.user, c.words, err, c.allowed)
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
			t.Errorf("%q: %q, want %q", access, got, want)
		}
	}
}
