package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/objects"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// openLog returns a log of real parts: 256 buckets, the wall clock.
func openLog(t testing.TB, client valkey.Client, address string) *Log {
	t.Helper()
	store, err := objects.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return New(store, OnValkey(client), Options{
		Key:    testKey,
		Lists:  testLists,
		Name:   func(record string, _ []byte) string { return "the " + record },
		Settle: func(_ Mark, content []byte) []byte { return with(content, "status", "revoked") },
		Revert: revert,
	})
}

// On every server, and on S3: writers race, keys are revoked, Valkey is lost and made
// again from checkpoints and the log.
func TestOnRealParts(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) { onRealParts(t, url, t.TempDir()) })
	t.Run("s3", func(t *testing.T) { onRealParts(t, valkeytest.Start(t), s3test.Start(t).Address()) })
}

func onRealParts(t *testing.T, url, address string) {
	client := storetest.Connect(t, url)
	flush := func() {
		for _, node := range client.Nodes() {
			if err := node.Do(t.Context(), node.B().Flushall().Build()).Error(); err != nil {
				t.Log(err) // a replica
			}
		}
	}
	flush()
	l := openLog(t, client, address)
	l.behind = 10
	if err := l.Start(t.Context(), []byte("p q ")); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 3
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for j := range each {
				receipt, err := openLog(t, client, address).Edit(t.Context(), Edit{},
					set("p active 0", fmt.Sprintf("key-%d-%d", i, j), "shared"))
				if err != nil || !receipt.InForce || !receipt.Replicated {
					t.Errorf("got %+v %v", receipt, err)
				}
			}
		})
	}
	wait.Wait()
	receipt, err := l.Mark(t.Context(), Mark{Record: "key-1-1"})
	if err != nil || receipt.Number != writers*each+2 {
		t.Errorf("mark: got %+v %v", receipt, err)
	}
	check := func() {
		t.Helper()
		_, err := l.Edit(t.Context(), Edit{}, func(ctx context.Context, r *Reader) ([]Item, error) {
			found, err := r.Get(ctx, "key-1-1", "key-2-2", "shared", Policy)
			if err != nil {
				return nil, err
			}
			var got []string
			for _, f := range found {
				got = append(got, string(f.Content))
			}
			if want := []string{"p revoked 0", "p active 0", "p active 0", "p q "}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			count, err := r.Count(ctx, "plan:p\x00")
			if count != writers*each+1 {
				t.Errorf("got %d keys of the plan, want %d", count, writers*each+1)
			}
			return nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check()
	if err := l.CatchUp(t.Context()); err != nil { // writes checkpoints, since 10 changes make them due
		t.Fatal(err)
	}
	for _, lost := range []string{"", stateName(7)} {
		if f := address + "/" + lost; lost != "" && !strings.HasPrefix(address, "s3:") {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
		flush()
		if err := l.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if n, err := l.Verify(t.Context()); err != nil || n != writers*each+2 {
		t.Errorf("verify: got %d %v", n, err)
	}
}

// S3 answers one of two concurrent puts with 409: the edit is stored once.
func TestConflict(t *testing.T) {
	server := s3test.Start(t)
	l := openLog(t, storetest.Connect(t, valkeytest.Start(t)), server.Address())
	if err := l.Start(t.Context(), []byte("p ")); err != nil {
		t.Fatal(err)
	}
	_, err := l.Edit(t.Context(), Edit{}, func(ctx context.Context, r *Reader) ([]Item, error) {
		items, err := set("p active 0", "key-1")(ctx, r)
		server.Conflict(3)
		return items, err
	})
	if n, errVerify := l.Verify(t.Context()); err != nil || errVerify != nil || n != 2 {
		t.Errorf("got change %d, %v, %v; want 2", n, err, errVerify)
	}
}

// With a replica an acknowledgement waits for it; when it does not answer, the receipt says
// so after 100 ms.
func TestReplicated(t *testing.T) {
	tier.Two(t, "starts a cluster with a replica")
	urls := valkeytest.StartCluster(t, 1, 1)
	client := storetest.Connect(t, urls[0])
	v := OnValkey(client)
	name := keys(7)[0]
	if err := v.Replicated(t.Context(), []string{name, keys(200)[0]}); err != nil {
		t.Fatalf("with a replica: %v", err)
	}
	valkeytest.Ask(t, urls[1], "CLIENT", "PAUSE", "60000", "ALL")
	for i := range 3 {
		begin := time.Now()
		if err := v.Replicated(t.Context(), []string{name}); err == nil {
			t.Errorf("wait %d without its answer: got no error", i+1)
		}
		if passed := time.Since(begin); passed > 10*replicaWait {
			t.Errorf("it waited for %v, want %v", passed, replicaWait)
		}
	}
}

// BenchmarkEdit measures edits a second of one and of twenty processes, with a local Valkey
// and a folder.
func BenchmarkEdit(b *testing.B) {
	for _, writers := range []int{1, 20} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			client := storetest.Connect(b, valkeytest.Start(b))
			folder := b.TempDir()
			if err := openLog(b, client, folder).Start(b.Context(), []byte("p ")); err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			var wait sync.WaitGroup
			b.ResetTimer()
			for i := range writers {
				wait.Go(func() {
					l := openLog(b, client, folder)
					for next.Add(1) <= int64(b.N) {
						key := fmt.Sprint("key-", i)
						edit := set(fmt.Sprint("p active ", next.Load()), key)
						if _, err := l.Edit(b.Context(), Edit{}, edit); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "edits/s")
		})
	}
}

// A file among the changes that is none stops edits, and the error names it.
func TestStrayFile(t *testing.T) {
	folder := t.TempDir()
	l := openLog(t, storetest.Connect(t, valkeytest.Start(t)), folder)
	if err := l.Start(t.Context(), []byte("p ")); err != nil {
		t.Fatal(err)
	}
	stray := folder + "/changes/notes.txt"
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := l.Edit(t.Context(), Edit{}, set("p active 0", "key-1"))
	if found, ok := errors.AsType[*StrayError](err); !ok || found.Name != "changes/notes.txt" ||
		!strings.Contains(err.Error(), found.Name) {
		t.Errorf("got %v, want a StrayError with its name", err)
	}
	if receipt, err := l.Mark(t.Context(), Mark{Record: "key-1"}); err != nil || receipt.Number > 0 {
		t.Errorf("mark: got %+v %v, want one that is not stored yet", receipt, err)
	}
	if err := os.Remove(stray); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Edit(t.Context(), Edit{}, set("p active 0", "key-1")); err != nil {
		t.Errorf("without it: %v", err)
	}
}

// Twenty processes that edit without a rest do not starve one another.
func TestManyWriters(t *testing.T) {
	tier.Two(t, "loads both cores")
	client := storetest.Connect(t, valkeytest.Start(t))
	folder := t.TempDir()
	if err := openLog(t, client, folder).Start(t.Context(), []byte("p ")); err != nil {
		t.Fatal(err)
	}
	const writers, each = 20, 10
	took := make([]time.Duration, writers*each)
	begin := time.Now()
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			l := openLog(t, client, folder)
			for j := range each {
				began := time.Now()
				_, err := l.Edit(t.Context(), Edit{}, set(fmt.Sprint("p active ", j), fmt.Sprint("key-", i)))
				if err != nil {
					t.Errorf("writer %d, edit %d: %v", i, j, err)
				}
				took[i*each+j] = time.Since(began)
			}
		})
	}
	wait.Wait()
	slices.Sort(took)
	t.Logf("%.1f edits/s; half took up to %v, 99 %% %v, the slowest %v",
		writers*each/time.Since(begin).Seconds(), took[len(took)/2], took[len(took)*99/100],
		took[len(took)-1])
	if n, err := openLog(t, client, folder).Verify(t.Context()); err != nil || n != writers*each+1 {
		t.Errorf("verify: got %d %v, want %d changes", n, err, writers*each+1)
	}
}

// BenchmarkMakeAgain measures how long a lost Valkey of 100,000 records takes.
func BenchmarkMakeAgain(b *testing.B) {
	client := storetest.Connect(b, valkeytest.Start(b))
	l := openLog(b, client, b.TempDir())
	if err := l.Start(b.Context(), []byte("p ")); err != nil {
		b.Fatal(err)
	}
	content := "p active " + strings.Repeat("x", 300)
	for i := range 100 {
		var names []string
		for j := range MaxItems {
			names = append(names, fmt.Sprintf("key-%d-%d", i, j))
		}
		if _, err := l.Edit(b.Context(), Edit{}, set(content, names...)); err != nil {
			b.Fatal(err)
		}
	}
	for _, from := range []string{"log", "checkpoint"} {
		b.Run("from="+from, func(b *testing.B) {
			for b.Loop() {
				if err := client.Do(b.Context(), client.B().Flushall().Build()).Error(); err != nil {
					b.Fatal(err)
				}
				r, err := l.begin(b.Context(), true)
				if err != nil {
					b.Fatal(err)
				}
				r.bring(b.Context(), all(keyspace.Buckets))
			}
		})
		r, err := l.begin(b.Context(), false)
		if err == nil {
			err = r.writeStates(b.Context(), false)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
