package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
)

// figureKeys is how many keys the figures of docs/journal.md are measured with; 0 for no
// measurement.
func figureKeys(t *testing.T) int {
	t.Helper()
	keys, _ := strconv.Atoi(os.Getenv("JOURNAL_FIGURES"))
	if keys == 0 {
		t.Skip("JOURNAL_FIGURES=KEYS measures saves and a restore")
	}
	return keys
}

// A save with and without a journal.
func TestSaveFigures(t *testing.T) {
	const saves = 300
	figureKeys(t)
	stores := map[string]Store{"no journal": nil, "folder": must(OpenStore(t.TempDir()))(t),
		"versitygw": must(OpenStore(s3test.Start(t).Address()))(t)}
	for name, s := range stores {
		w := open(t, valkeytest.Start(t), s, false)
		if s == nil {
			w.keys.Audit().UseJournal(nil)
		}
		w.plan(t, 10)
		k := w.create(t, "key")
		took := make([]time.Duration, saves)
		for i := range took {
			began := time.Now()
			k = must(w.keys.Update(t.Context(), k.ID, k.Version, "key.edit", byTest,
				func(k *policy.Key) { k.Name = fmt.Sprint("key ", i) }))(t)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		t.Logf("%s: p50 %s, p99 %s", name, took[saves/2], took[saves*99/100])
	}
}

// A restore of an empty Valkey.
func TestRestoreFigures(t *testing.T) {
	keys := figureKeys(t)
	folder := t.TempDir()
	w := open(t, valkeytest.Start(t), must(OpenStore(folder))(t), false)
	w.plan(t, 10)
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
