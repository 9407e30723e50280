package enforce

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

var pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))

// world is a server with a policy set and keys, which are written as the registry writes
// them, and a Checker.
type world struct {
	*Checker
	t       testing.TB
	client  valkey.Client
	policy  policy.Set
	keys    map[string]policy.Key
	secrets map[string]apikey.Secret // by name of the key
	calls   int
}

func newWorld(t testing.TB, url string) *world {
	client := storetest.Connect(t, url)
	return &world{Checker: NewChecker(client, pepper), t: t, client: client,
		policy: policy.Set{NextNumber: 1},
		keys:   map[string]policy.Key{}, secrets: map[string]apikey.Secret{}}
}

func (w *world) do(words ...string) {
	w.t.Helper()
	command := w.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
	if err := w.client.Do(context.WithoutCancel(w.t.Context()), command).Error(); err != nil {
		w.t.Fatal(err)
	}
}

// save changes the policy set, and puts it in force in every bucket.
func (w *world) save(change func(*policy.Set)) {
	w.t.Helper()
	next := w.policy
	change(&next)
	saved, err := policy.Identify(next, &w.policy)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := saved.Validate(); err != nil {
		w.t.Fatal(err)
	}
	text, err := policyset.EncodeSet(saved)
	if err != nil {
		w.t.Fatal(err)
	}
	saved.Version = w.policy.Version + 1
	w.policy = *saved
	for _, b := range keyspace.PolicyBuckets {
		w.do("HSET", b.Records(), keyspace.RecordField(keyspace.PolicyID),
			fmt.Sprintf("%d %s", saved.Version, text))
	}
	commands := make(valkey.Commands, keyspace.Buckets)
	for i, b := range keyspace.All() {
		commands[i] = w.client.B().Hset().Key(b.Records()).FieldValue().FieldValue(keyspace.PolicyField,
			fmt.Sprint(saved.Version)).Build()
	}
	for _, result := range w.client.DoMulti(context.WithoutCancel(w.t.Context()), commands...) {
		if err := result.Error(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// plans puts a plan in force, in place of one with its name.
func (w *world) plan(name string, texts ...string) {
	w.t.Helper()
	w.save(func(s *policy.Set) {
		s.Plans = append([]policy.Plan(nil), s.Plans...)
		for i := range s.Plans {
			if s.Plans[i].Name == name {
				s.Plans[i].Limits = parseAll(w.t, texts)
				return
			}
		}
		s.Plans = append(s.Plans, policy.Plan{Name: name, Limits: parseAll(w.t, texts)})
	})
}

func parseAll(t testing.TB, texts []string) []limits.Limit {
	t.Helper()
	all := make([]limits.Limit, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = limits.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// key creates a key of a plan, or changes it.
func (w *world) key(name, plan string, change ...func(*policy.Key)) policy.Key {
	w.t.Helper()
	k, found := w.keys[name]
	if !found {
		secret, err := apikey.Generate("test")
		if err != nil {
			w.t.Fatal(err)
		}
		w.secrets[name] = secret
		k = policy.Key{ID: secret.ID(), Kind: policy.APIKey, Name: name, Env: "test", Status: policy.Active}
	}
	p, found := w.policy.Plan(plan)
	if !found {
		w.t.Fatalf("no plan %s", plan)
	}
	k.Plan, k.PlanNumber, k.Version = plan, p.Number, k.Version+1
	for _, c := range change {
		c(&k)
	}
	w.keys[name] = k
	w.put(k, policyset.Secrets{Current: pepper.Hash(w.secrets[name])})
	return k
}

func (w *world) put(k policy.Key, s policyset.Secrets) {
	w.t.Helper()
	record, err := policyset.EncodeRecord(k, s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.do("HSET", keyspace.BucketOf(k.ID).Records(), keyspace.RecordField(k.ID),
		fmt.Sprintf("%d %s", k.Version, record))
}

// callOf returns a call of a key: "GET /orders/7".
func (w *world) callOf(name, request string) Call {
	method, path, _ := strings.Cut(request, " ")
	return Call{Kind: policy.APIKey, Subject: w.keys[name].ID, Secret: w.secrets[name],
		Address: netip.MustParseAddr("192.0.2.1"), Network: netip.MustParsePrefix("192.0.2.1/32"),
		Route: route.Call{API: "api", Stage: "prod", Method: method, Path: path}}
}

func (w *world) check(name, request string) Result {
	w.t.Helper()
	w.calls++
	r, err := w.Check(w.t.Context(), w.callOf(name, request))
	if err != nil {
		w.t.Fatalf("%s by %s: %v", request, name, err)
	}
	return r
}

// passes checks calls, and fails the test unless exactly want of n pass.
func (w *world) passes(name, request string, n, want int) {
	w.t.Helper()
	passed := 0
	for range n {
		if w.check(name, request).Allowed {
			passed++
		}
	}
	if passed != want {
		w.t.Errorf("%s by %s: %d of %d calls passed, want %d", request, name, passed, n, want)
	}
}

// serverNow returns the server's clock.
func (w *world) serverNow() time.Time {
	w.t.Helper()
	parts, err := w.client.Do(w.t.Context(), w.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		w.t.Fatal(err)
	}
	return time.UnixMicro(parts[0]*1_000_000 + parts[1]).UTC()
}

// counting is a client that counts round trips: commands that leave in one flush make one.
type counting struct {
	valkey.Client
	flushes int
}

func (c *counting) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	c.flushes++
	return c.Client.Do(ctx, command)
}

func (c *counting) DoMulti(ctx context.Context, commands ...valkey.Completed) []valkey.ValkeyResult {
	c.flushes++
	return c.Client.DoMulti(ctx, commands...)
}

// flushes returns the round trips of the Checker during a test's function.
func (w *world) flushes(during func()) int {
	c := &counting{Client: w.client}
	w.Checker.client = c
	defer func() { w.Checker.client = w.client }()
	during()
	return c.flushes
}
