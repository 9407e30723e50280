package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"tidegate/internal/testing/s3test"
)

// onEveryStore runs a test on a folder, and on an S3 server without and with TLS.
func onEveryStore(t *testing.T, test func(*testing.T, Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { test(t, must(OpenStore(t.TempDir()))(t)) })
	t.Run("s3", func(t *testing.T) { test(t, must(OpenStore(s3test.Start(t).Address()))(t)) })
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
			if err := s.Create(t.Context(), entryName(1, 1), []byte("a")); (err != nil) != c.fails {
				t.Errorf("create: got %v, want an error: %t", err, c.fails)
			}
			_, err := s.Read(t.Context(), entryName(1, 1))
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
		name := entryName(7, 1)
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
			if err := s.Replace(t.Context(), checkpointName(7), content, never); err != nil {
				t.Fatal(err)
			}
			if got := must(s.Read(t.Context(), checkpointName(7)))(t); !bytes.Equal(got, content) {
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
				switch err := s.Create(t.Context(), entryName(1, 1), []byte{byte(i)}); {
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

// CheckAddress accepts folders and S3 addresses with a region, and refuses others.
func TestAddresses(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	for address, good := range map[string]bool{
		"/var/lib/tidegate": true, "journal": true, "s3://bucket?region=eu-west-1": true,
		"s3://bucket/a/b?region=eu-west-1&endpoint=http://127.0.0.1:9": true,
		"s3://bucket": false, "s3://?region=x": false, "s3://user:password@bucket?region=x": false,
		"s3://bucket?region=x&acl=public": false, "gs://bucket": false, "https://bucket": false,
	} {
		if err := CheckAddress(address); (err == nil) != good {
			t.Errorf("%s: got %v, want valid %t", address, err, good)
		}
	}
	if _, err := OpenStore("gs://bucket"); err == nil {
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
				if err := s.Replace(t.Context(), checkpointName(7), content, keep); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if got := must(s.Read(t.Context(), checkpointName(7)))(t); !bytes.Equal(got, []byte{0x8f}) {
			t.Errorf("got %x, want 8f", got)
		}
	})
}
