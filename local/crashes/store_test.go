//go:build linux

package crashes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
)

// While the store of the log is away, edits save nothing and say so. Revocations and bans
// act at once, and are stored by the next minute, after which they survive a loss of
// Valkey. One that Valkey loses before is lost, as its answer said.
func TestStoreAway(t *testing.T) {
	for name, c := range map[string]struct {
		world func(*testing.T, string) *world
		away  func(*world)
		back  func(*world)
	}{
		"no answer": {
			func(t *testing.T, url string) *world { return newWorld(t, url, 1) },
			func(w *world) { w.envs[0].setFaults(storeFaults{away: true}) },
			func(w *world) { w.envs[0].setFaults(storeFaults{}) },
		},
		"refusals": {
			func(t *testing.T, url string) *world { return newWorld(t, url, 1) },
			func(w *world) { w.envs[0].setFaults(storeFaults{refused: 1_000_000}) },
			func(w *world) { w.envs[0].setFaults(storeFaults{}) },
		},
		"disk gone": {newWorldOnDisk, func(w *world) { w.move(w.log, w.log+".gone") },
			func(w *world) { w.move(w.log+".gone", w.log) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.world(t, valkeytest.Start(t))
			e, callers := w.envs[0], w.callers(4)
			check := w.startChecks(callers)
			w.ready(e)
			c.away(w)
			w.wants(w.rename(callers[0]),
				http.StatusServiceUnavailable, "The log of changes is unavailable. Nothing was changed.")
			w.revoke(callers[1], http.StatusAccepted,
				"In force, but not stored yet. It is lost if Valkey loses it")
			check.wantRefused(callers[1].secret)
			until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
			w.wants(w.send(e, http.MethodPost, "/keys/"+callers[2].ID+"/ban", map[string]any{"until": until,
				"reason": "a test"}, 0), http.StatusAccepted, "In force, but not stored yet")
			if status, degraded := check.call(callers[2].secret); status == http.StatusOK || degraded {
				t.Errorf("a banned key: got %d, degraded %v", status, degraded)
			}
			if check.anyDegraded([]caller{callers[0], callers[3]}) {
				t.Error("other callers are not decided by Valkey")
			}
			c.back(w)
			w.nextMinute()
			w.do("FLUSHALL")
			w.nextMinute()
			check.wantRefused(callers[1].secret)
			if k, err := w.keys.Get(t.Context(), callers[2].ID); err != nil || !k.Banned.Equal(until) {
				t.Errorf("the banned key: %+v, %v", k, err)
			}
			if k, err := w.keys.Get(t.Context(), callers[0].ID); err != nil || k.Name != callers[0].Name {
				t.Errorf("the refused edit: %+v, %v", k, err)
			}
			c.away(w)
			w.revoke(callers[3], http.StatusAccepted, "It is lost if Valkey loses it")
			w.do("FLUSHALL")
			c.back(w)
			w.nextMinute()
			if k, err := w.keys.Get(t.Context(), callers[3].ID); err != nil || k.Status != policy.Active {
				t.Errorf("the revocation that Valkey lost: %+v, %v", k, err)
			}
		})
	}
}

// revoke revokes a key, and wants this answer.
func (w *world) revoke(c caller, status int, text string) {
	w.t.Helper()
	w.wants(w.send(w.envs[0], http.MethodPost, "/keys/"+c.ID+"/revoke", map[string]any{}, 0), status, text)
}

func (w *world) move(from, to string) {
	w.t.Helper()
	if err := os.Rename(from, to); err != nil {
		w.t.Fatal(err)
	}
}

// A damaged change is named, and edits are refused. Calls go on, and revocations act. A
// hand brings the object back, or declares it nothing.
func TestDamagedChange(t *testing.T) {
	for name, heal := range map[string]func(*world, uint64, string){
		"brought back": func(w *world, _ uint64, file string) { w.move(w.log+".whole", file) },
		"void": func(w *world, number uint64, _ string) {
			e := changes.Edit{Action: "void", By: "user:a test"}
			if err := w.keys.Log().Void(w.t.Context(), e, number); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOnDisk(t, valkeytest.Start(t))
			callers := w.callers(3)
			check := w.startChecks(callers)
			w.ready(w.envs[0])
			number := w.newest()
			files, err := filepath.Glob(filepath.Join(w.log, "changes", "*", "*"))
			if err != nil || uint64(len(files)) != number {
				t.Fatalf("got %q, %v, want %d changes", files, err, number)
			}
			file := files[number-1]
			w.move(file, w.log+".whole")
			if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.wants(w.rename(callers[0]),
				http.StatusServiceUnavailable, fmt.Sprintf("Change %d of the log is missing or damaged",
					number))
			w.revoke(callers[0], http.StatusAccepted, "In force, but not stored yet")
			check.wantRefused(callers[0].secret)
			if check.anyDegraded(callers[1:]) {
				t.Error("other callers are not decided by Valkey")
			}
			var state struct {
				Damaged uint64
				Marks   int
				Problem string
			}
			a := w.send(w.envs[0], http.MethodGet, "/log", nil, 0)
			if err := json.Unmarshal(a.body, &state); err != nil || state.Damaged != number ||
				state.Marks != 1 ||
				state.Problem != "damaged" {
				t.Errorf("got %s, want change %d damaged and a mark", a, number)
			}
			heal(w, number, file)
			w.nextMinute()
			check.wantRefused(callers[0].secret)
			w.revoke(callers[1], http.StatusOK, "")
			check.wantRefused(callers[1].secret)
		})
	}
}

// A Valkey of another log: nothing is written to either, calls go on, and the answer names
// the hands. One of them takes the other log over.
func TestAnotherLog(t *testing.T) {
	w := newWorldOnDisk(t, valkeytest.Start(t))
	callers, e := w.callers(2), w.envs[0]
	check := w.startChecks(callers)
	w.ready(e)
	right := w.log + ".right"
	w.move(w.log, right)
	if err := os.Mkdir(w.log, 0o700); err != nil {
		t.Fatal(err)
	}
	w.wants(w.rename(callers[0]), http.StatusServiceUnavailable, "or run scripts/restore -take")
	if err := e.minute(t.Context()); err == nil {
		t.Error("the minute takes another log")
	}
	if check.anyDegraded(callers) {
		t.Error("calls are not decided by Valkey")
	}
	if err := os.Remove(w.log); err != nil { // it is empty
		t.Fatal(err)
	}
	w.move(right, w.log)
	w.wants(w.rename(callers[0]), http.StatusOK, "renamed")
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(w.log)); err != nil {
		t.Fatal(err)
	}
	w.revoke(callers[1], http.StatusOK, "")
	w.move(w.log, right)
	w.move(backup, w.log)
	w.wants(w.rename(callers[0]), http.StatusServiceUnavailable, "Valkey holds changes that this log lacks")
	if err := w.keys.Log().TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	// That wrote checkpoints. Those that are missing or damaged do not matter.
	files, err := filepath.Glob(filepath.Join(w.log, "state", "*"))
	for i, file := range files {
		if err == nil && i%2 == 0 {
			err = os.Remove(file)
		} else if err == nil {
			err = os.WriteFile(file, []byte("damaged"), 0o600)
		}
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("got checkpoints %q, %v", files, err)
	}
	w.do("FLUSHALL")
	w.nextMinute()
	if check.anyDegraded(callers) { // the older log does not have the revocation
		t.Error("calls are not decided by Valkey")
	}
}
