package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/s3test"
)

// onEveryStore runs a test on a folder, and on an S3 server without and with TLS.
func onEveryStore(t *testing.T, test func(*testing.T, Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { test(t, must(Open(t.TempDir()))(t)) })
	t.Run("s3", func(t *testing.T) { test(t, must(Open(s3test.Start(t).Address()))(t)) })
	t.Run("s3 with TLS", func(t *testing.T) { test(t, storeWithTLS(t, s3test.StartTLS(t))) })
}

// storeWithTLS returns a store that trusts the server.
func storeWithTLS(t *testing.T, server *s3test.Server) Store {
	t.Helper()
	return newBucket(must(parseS3(server.Address()))(t), server.Client().Transport)
}

// A put that S3 refuses for the moment is tried again, and a request that it refuses
// longer fails.
func TestMomentaryRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*s3test.Server)
		fails  bool
	}{
		"conflict":      {refuse: func(r *s3test.Server) { r.Conflict(5) }},
		"slow down":     {refuse: func(r *s3test.Server) { r.SlowDown(1) }},
		"too long slow": {refuse: func(r *s3test.Server) { r.SlowDown(s3Attempts) }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := s3test.StartTLS(t)
			s := storeWithTLS(t, server)
			c.refuse(server)
			if err := s.Create(t.Context(), "changes/000/001", []byte("a")); (err != nil) != c.fails {
				t.Errorf("create: got %v, want an error: %t", err, c.fails)
			}
			_, err := s.Read(t.Context(), "changes/000/001")
			if c.fails && !errors.Is(err, ErrNotFound) || !c.fails && err != nil {
				t.Errorf("read: got %v", err)
			}
		})
	}
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

func never([]byte) bool { return false }

// Create stores an object once, only Replace replaces it, and Read returns it unchanged.
func TestStores(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		name := "changes/000/007"
		if _, err := s.Read(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Errorf("read of a missing object: got %v, want ErrNotFound", err)
		}
		if err := s.Create(t.Context(), name, []byte("one")); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t.Context(), name, []byte("two")); !errors.Is(err, ErrExists) {
			t.Errorf("second create: got %v, want ErrExists", err)
		}
		if got := must(s.Read(t.Context(), name))(t); string(got) != "one" {
			t.Errorf("read: got %q, want one", got)
		}
		large := bytes.Repeat([]byte("x"), 3<<20)
		for _, content := range [][]byte{[]byte("a"), large, {}} {
			if err := s.Replace(t.Context(), "state/07", content, never); err != nil {
				t.Fatal(err)
			}
			if got := must(s.Read(t.Context(), "state/07"))(t); !bytes.Equal(got, content) {
				t.Errorf("read: got %d bytes, want %d as written", len(got), len(content))
			}
		}
	})
}

// Of concurrent creates of one object, exactly one succeeds.
func TestOneCreates(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		var created atomic.Int32
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				switch err := s.Create(t.Context(), "changes/000/001", []byte{byte(i)}); {
				case err == nil:
					created.Add(1)
				case !errors.Is(err, ErrExists):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if created.Load() != 1 {
			t.Errorf("got %d successful creates, want 1", created.Load())
		}
	})
}

// List returns the objects below a prefix and after a name in order, across pages and
// folders, and never what is not yet an object.
func TestLists(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		if got := must(s.List(t.Context(), "changes/", ""))(t); len(got) != 0 {
			t.Fatalf("an empty store: got %v", got)
		}
		var want []string
		var wait sync.WaitGroup
		for i := range 1100 {
			name := fmt.Sprintf("changes/%03d/%03d", i/300, i%300)
			want = append(want, name)
			if i%32 == 0 {
				wait.Wait()
			}
			wait.Go(func() {
				if err := s.Create(t.Context(), name, make([]byte, i%5)); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if err := s.Create(t.Context(), "state/00", nil); err != nil {
			t.Fatal(err)
		}
		if f, ok := s.(folder); ok {
			half := filepath.Join(f.root, "changes", "000", temporaryPrefix+"1")
			if err := os.WriteFile(half, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for after, from := range map[string]int{"": 0, "changes/": 0, want[0]: 1, want[299]: 300,
			want[300]: 301, "changes/001": 300, want[1099]: 1100} {
			got := must(s.List(t.Context(), "changes/", after))(t)
			if len(got) != len(want)-from {
				t.Fatalf("after %q: got %d objects, want %d", after, len(got), len(want)-from)
			}
			for i, o := range got {
				if o.Name != want[from+i] || o.Size != int64((from+i)%5) || o.Modified.IsZero() {
					t.Fatalf("after %q: got %+v, want %s", after, o, want[from+i])
				}
			}
		}
	})
}

// No object is stored after the deadline of the context by the wall clock, also if the
// context itself has not ended: a frozen process wakes with an old monotonic clock.
func TestDeadlineByTheWallClock(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		frozen := late{t.Context()}
		if err := s.Create(frozen, "changes/000/001", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline is exceeded", err)
		}
		if _, err := s.Read(t.Context(), "changes/000/001"); !errors.Is(err, ErrNotFound) {
			t.Errorf("read: got %v, want ErrNotFound", err)
		}
	})
}

// late is a context that has not ended, and whose deadline has passed.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second).Round(0), true }

// CheckAddress accepts folders and S3 addresses with a region, and refuses others.
func TestAddresses(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	for address, good := range map[string]bool{
		"/var/lib/tidegate": true, "changes": true, "s3://bucket?region=eu-west-1": true,
		"s3://bucket/a/b?region=eu-west-1&endpoint=http://127.0.0.1:9": true,
		"s3://bucket": false, "s3://?region=x": false, "s3://user:password@bucket?region=x": false,
		"s3://bucket?region=x&acl=public": false, "gs://bucket": false, "https://bucket": false,
	} {
		if err := CheckAddress(address); (err == nil) != good {
			t.Errorf("%s: got %v, want valid %t", address, err, good)
		}
	}
	if _, err := Open("gs://bucket"); err == nil {
		t.Error("open gs://bucket: got no error")
	}
}

// Of concurrent replaces of one object, the one with the greatest content is left, since
// each keeps a greater one.
func TestReplaceKeeps(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s Store) {
		var wait sync.WaitGroup
		for _, i := range rand.Perm(16) {
			content := []byte{0x80 + byte(i)}
			keep := func(stored []byte) bool { return bytes.Compare(stored, content) > 0 }
			wait.Go(func() {
				if err := s.Replace(t.Context(), "state/07", content, keep); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if got := must(s.Read(t.Context(), "state/07"))(t); !bytes.Equal(got, []byte{0x8f}) {
			t.Errorf("got %x, want 8f", got)
		}
	})
}
