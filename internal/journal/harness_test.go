package journal

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/acl"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var (
	testPepper     = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest         = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
	errUnavailable = errors.New("the store is unavailable")
)

// failing is a store that can be unavailable before or after it executes a request.
type failing struct {
	Store
	before, after atomic.Bool
}

func (f *failing) Create(ctx context.Context, name string, content []byte) error {
	if f.before.Load() {
		return errUnavailable
	}
	err := f.Store.Create(ctx, name, content)
	if f.after.Load() {
		return errUnavailable
	}
	return err
}

func (f *failing) Read(ctx context.Context, name string) ([]byte, error) {
	if f.before.Load() {
		return nil, errUnavailable
	}
	return f.Store.Read(ctx, name)
}

// world is an admin environment: a registry with a journal. root has all rights.
type world struct {
	*Journal
	keys  *registry.Store
	store *failing
	root  valkey.Client
}

// open returns an environment with the rights of the admin function.
func open(t testing.TB, url string, s Store, queue bool) *world {
	t.Helper()
	client := storetest.Connect(t, valkeytest.As(t, url, "admin", acl.Rules(acl.Admin())))
	w := &world{keys: registry.NewStore(client, testPepper), store: &failing{Store: s},
		root: storetest.Connect(t, url)}
	w.Journal = New(w.store, client, audit.NewKey(testPepper), queue,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	w.timeout = time.Minute
	w.keys.Audit().UseJournal(w.Journal)
	return w
}

// start returns an environment with a plan, on a Valkey and a folder of its own.
func start(t *testing.T, queue bool) (w *world, url string) {
	t.Helper()
	url = valkeytest.Start(t)
	w = open(t, url, must(objects.Open(t.TempDir()))(t), queue)
	w.plan(t, 10)
	return w, url
}

// plan saves a policy set with one plan.
func (w *world) plan(t testing.TB, requests int64) {
	t.Helper()
	set := must(w.keys.Set(t.Context()))(t)
	next := *set
	next.Plans = []policy.Plan{{Name: "free",
		Limits: []limits.Limit{{Requests: requests, Window: time.Minute}}}}
	if len(set.Plans) > 0 {
		next.Plans[0].Number = set.Plans[0].Number
	}
	must(w.keys.SaveSet(t.Context(), next, byTest))(t)
}

func (w *world) create(t testing.TB, name string) policy.Key {
	t.Helper()
	k, _ := registrytest.Create(t, w.keys, byTest, policy.NewKey{Name: name, Env: "test", Plan: "free"})
	return k
}

// createOutside creates a key in another bucket than b.
func (w *world) createOutside(t testing.TB, b keyspace.Bucket, name string) policy.Key {
	t.Helper()
	k := w.create(t, name)
	for keyspace.BucketOf(k.ID) == b {
		k = w.create(t, name)
	}
	return k
}

// flush empties Valkey.
func (w *world) flush(t testing.TB) {
	t.Helper()
	if err := w.root.Do(t.Context(), w.root.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// newest returns the time of a bucket's newest entry by Valkey's clock. It waits until
// that clock is past this time, so that the next entry is later.
func (w *world) newest(t *testing.T, b keyspace.Bucket) time.Time {
	t.Helper()
	last := w.root.B().Xrevrange().Key(audit.Stream(b)).End("+").Start("-").Count(1).Build()
	at := takenAt(must(w.root.Do(t.Context(), last).AsXRange())(t)[0].ID)
	waiting.Until(t, "Valkey's next millisecond", func() bool {
		now := must(w.root.Do(t.Context(), w.root.B().Time().Build()).AsIntSlice())(t)
		return time.Unix(now[0], now[1]*1000).Truncate(time.Millisecond).After(at)
	})
	return at
}

// restore restores every bucket and returns how many it wrote.
func (w *world) restore(t testing.TB, o Options) (written int) {
	t.Helper()
	for _, b := range keyspace.All() {
		found, err := w.restoreBucket(t.Context(), w.keys, b, o)
		if err != nil {
			t.Fatal(err)
		}
		if found.Written {
			written++
		}
	}
	if err := w.keys.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return written
}

// records returns all configuration in Valkey by key, the heads, and the lists of keys.
func (w *world) records(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, key := range must(w.root.Do(t.Context(), w.root.B().Keys().Pattern("*").Build()).AsStrSlice())(t) {
		switch {
		case strings.HasSuffix(key, ":c") || strings.HasSuffix(key, ":ah"):
			found[key] = must(w.root.Do(t.Context(), w.root.B().Get().Key(key).Build()).ToString())(t)
		case key == keyspace.Tokens:
			for id, record := range must(w.root.Do(t.Context(),
				w.root.B().Hgetall().Key(key).Build()).AsStrMap())(t) {
				found[key+" "+id] = record
			}
		case strings.HasPrefix(key, "tg:keys"):
			list := w.root.B().Zrange().Key(key).Min("0").Max("-1").Build()
			found[key] = strings.Join(must(w.root.Do(t.Context(), list).AsStrSlice())(t), ",")
		}
	}
	return found
}

// onEveryStore runs a test on a folder and on an S3 server.
func onEveryStore(t *testing.T, test func(*testing.T, Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { test(t, must(objects.Open(t.TempDir()))(t)) })
	t.Run("s3", func(t *testing.T) { test(t, must(objects.Open(s3test.Start(t).Address()))(t)) })
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
