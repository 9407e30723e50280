package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// figureKeys returns the number of keys for the figures of docs/operations.md. It skips the
// test if none is set.
func figureKeys(t *testing.T) int {
	t.Helper()
	keys, _ := strconv.Atoi(os.Getenv("JOURNAL_FIGURES"))
	if keys == 0 {
		t.Skip("set JOURNAL_FIGURES=KEYS to measure saves and a restore")
	}
	return keys
}

// Measures saves without a journal, with a folder and with an S3 server, in turns.
func TestSaveFigures(t *testing.T) {
	const saves = 500
	figureKeys(t)
	type measured struct {
		name string
		*world
		key  policy.Key
		took []time.Duration
	}
	s3 := must(OpenStore(s3test.Start(t).Address()))(t)
	all := []*measured{{name: "no journal"}, {name: "folder"}, {name: "versitygw"}}
	for i, store := range []Store{nil, must(OpenStore(t.TempDir()))(t), s3} {
		r := all[i]
		r.world = open(t, valkeytest.Start(t), store, false)
		if store == nil {
			r.keys.Audit().UseJournal(nil)
		}
		r.plan(t, 10)
		r.key = r.create(t, "key")
	}
	for i := range saves {
		for _, r := range all {
			began := time.Now()
			r.key = must(r.keys.Update(t.Context(), r.key.ID, r.key.Version, "key.edit", byTest,
				func(k *policy.Key) { k.Name = fmt.Sprint("key ", i) }))(t)
			r.took = append(r.took, time.Since(began))
		}
	}
	var baseline [2]time.Duration // p50 and p99 without a journal
	for i, r := range all {
		slices.Sort(r.took)
		p50, p99 := r.took[saves/2], r.took[saves*99/100]
		if i == 0 {
			baseline = [2]time.Duration{p50, p99}
		}
		t.Logf("%-10s p50 %s, %.1f times; p99 %s, %.1f times", r.name, p50.Round(time.Microsecond),
			float64(p50)/float64(baseline[0]), p99.Round(time.Microsecond),
			float64(p99)/float64(baseline[1]))
	}
}

// memory returns how many bytes Valkey uses, without those of connections.
func memory(t *testing.T, root valkey.Client) int {
	t.Helper()
	info := must(root.Do(t.Context(), root.B().Info().Section("memory").Build()).ToString())(t)
	figures := map[string]int{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		figures[name], _ = strconv.Atoi(value) // some are texts
	}
	return figures["used_memory"] - figures["mem_clients_normal"]
}

// Measures the memory of keys before and after AUDIT_RETENTION, and a restore of an empty
// Valkey.
func TestRestoreFigures(t *testing.T) {
	keys := figureKeys(t)
	folder := t.TempDir()
	url := valkeytest.Start(t)
	root := storetest.Connect(t, url)
	w := open(t, url, must(OpenStore(folder))(t), false)
	w.plan(t, 10)
	empty := memory(t, root)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(keys); i = next.Add(1) {
				n := policy.NewKey{Name: fmt.Sprint("customer ", i), Env: "live", Plan: "free"}
				if _, _, err := w.keys.Create(t.Context(), n, byTest); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	for range keys/checkpointEvery/256 + 1 {
		if err := w.Upkeep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	all := memory(t, root)
	if err := w.trimAll(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys: %d bytes of Valkey's memory each with their audit, %d once AUDIT_RETENTION has passed",
		keys, (all-empty)/keys, (memory(t, root)-empty)/keys)
	bytes, objects := int64(0), 0
	err := filepath.Walk(folder, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			bytes, objects = bytes+info.Size(), objects+1
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.flush(t)
	var most uint64
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	})
	began := time.Now()
	s, err := w.RestoreAll(t.Context(), registry.NewStore(w.client, testPepper), Options{}, nil, nil)
	took := time.Since(began)
	close(ended)
	watching.Wait()
	if err != nil || s.Records < keys {
		t.Fatalf("%+v, %v", s, err)
	}
	t.Logf("%d keys: %s, %d MiB of heap, %d objects, %d bytes a change", keys, took.Round(time.Millisecond),
		most>>20, objects, bytes/int64(objects))
}
