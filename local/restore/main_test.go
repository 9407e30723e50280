package restore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var (
	pepper = strings.Repeat("pepper!!", 4)
	byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// installation returns a registry with a journal.
func installation(t *testing.T, url, folder string) *registry.Store {
	t.Helper()
	client := storetest.Connect(t, url)
	kept, err := objects.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	keys := registry.NewStore(client, apikey.Pepper(pepper))
	log := slog.New(slog.DiscardHandler)
	keys.Audit().UseJournal(journal.New(kept, client, audit.NewKey([]byte(pepper)), false, log))
	return keys
}

func savePlan(t *testing.T, keys *registry.Store) {
	t.Helper()
	plan := policy.Plan{Name: "free", Limits: registrytest.Limits("2 per hour")}
	if _, err := keys.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, keys *registry.Store, name string) policy.Key {
	t.Helper()
	k, _ := registrytest.Create(t, keys, byTest, policy.NewKey{Name: name, Env: "test", Plan: "free"})
	return k
}

func command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	environment := func(name string) string { return map[string]string{"KEY_PEPPER": pepper}[name] }
	if got := Run(context.WithoutCancel(t.Context()), args, environment, &out, &errOut); got != want {
		t.Errorf("%q: exit status %d, want %d\n%s\n%s", args, got, want, &out, &errOut)
	}
	return out.String() + errOut.String()
}

// A dry run prints what a restore would do. A restore fills an empty Valkey, and changes
// nothing if nothing is missing. With -until it reverts later changes.
func TestRestore(t *testing.T) {
	folder, url := t.TempDir(), valkeytest.Start(t)
	keys := installation(t, url, folder)
	savePlan(t, keys)
	kept := create(t, keys, "kept")
	// -until has a precision of a second, so the next change is in another one.
	until := time.Now().Add(time.Second).Truncate(time.Second)
	waiting.Until(t, "the next second", func() bool { return time.Now().After(until.Add(time.Millisecond)) })
	later := create(t, keys, "later")
	registrytest.Save(t, keys, byTest, func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 3 })

	empty := valkeytest.Start(t)
	flags := []string{"-journal", folder, "-valkey", empty}
	if text := command(t, done, append(flags, "-dry-run")...); !strings.Contains(text,
		"records to write: 3, to remove: 0") ||
		!strings.Contains(text, "Nothing was written") {
		t.Errorf("dry run: %s", text)
	}
	restored := installation(t, empty, folder)
	if set, err := restored.Set(t.Context()); err != nil || set.Version != 0 {
		t.Errorf("the dry run wrote version %d, %v", set.Version, err)
	}
	if text := command(t, done, flags...); !strings.Contains(text, "Restored") {
		t.Errorf("restore: %s", text)
	}
	for _, k := range []policy.Key{kept, later} {
		if got, err := restored.Get(t.Context(), k.ID); err != nil || got.Name != k.Name {
			t.Errorf("%s: %+v %v", k.Name, got, err)
		}
	}
	if text := command(t, done, flags...); !strings.Contains(text, "changes lost by Valkey: 0") {
		t.Errorf("restore again: %s", text)
	}
	command(t, done, append(flags, "-until", until.UTC().Format(time.RFC3339))...)
	if _, err := restored.Get(t.Context(), kept.ID); err != nil {
		t.Errorf("kept: %v", err)
	}
	if _, err := restored.Get(t.Context(), later.ID); err == nil {
		t.Error("a key created after -until still exists")
	}
	if set, err := restored.Set(t.Context()); err != nil || set.Plans[0].Limits[0].Requests != 2 ||
		set.Version != 3 {
		t.Errorf("policies after -until: %+v %v", set, err)
	}
	create(t, restored, "after")
	if got, err := restored.Get(t.Context(), kept.ID); err != nil || got.Plan != "free" {
		t.Errorf("the plan of kept: %+v %v", got, err)
	}
}

// A part with changes that the journal lacks is not restored; all others are. The command
// says what happens to such changes, and reverts them with -force.
func TestPartsLeft(t *testing.T) {
	folder, url := t.TempDir(), valkeytest.Start(t)
	keys := installation(t, url, folder)
	savePlan(t, keys)
	taken := map[keyspace.Bucket]bool{}
	alone := func(name string) policy.Key { // creates a key in a part without another
		k := create(t, keys, name)
		for taken[keyspace.BucketOf(k.ID)] {
			k = create(t, keys, name)
		}
		taken[keyspace.BucketOf(k.ID)] = true
		return k
	}
	newer, differs, behind := alone("newer"), alone("differs"), alone("behind")
	copied := valkeytest.Start(t)
	command(t, done, "-journal", folder, "-valkey", copied)

	rename := func(keys *registry.Store, k policy.Key, name string) {
		t.Helper()
		named := func(k *policy.Key) { k.Name = name }
		if _, err := keys.Update(t.Context(), k.ID, k.Version, audit.KeyEdit, byTest, named); err != nil {
			t.Fatal(err)
		}
	}
	without := registry.NewStore(storetest.Connect(t, copied), apikey.Pepper(pepper))
	rename(without, newer, "without a journal")
	rename(without, differs, "without a journal")
	rename(keys, differs, "with a journal")
	rename(keys, behind, "with a journal")

	text := command(t, failed, "-journal", folder, "-valkey", copied)
	for _, part := range []string{
		"start the admin function to store them", "-force",
		"behind the journal: 1, with changes that the journal lacks: 1, " +
			"with other changes than the journal: 1",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the output lacks %q: %s", part, text)
		}
	}
	names := func(want ...string) {
		t.Helper()
		for i, k := range []policy.Key{newer, differs, behind} {
			if got, err := without.Get(t.Context(), k.ID); err != nil || got.Name != want[i] {
				t.Errorf("%s: named %q, want %q, %v", k.Name, got.Name, want[i], err)
			}
		}
	}
	names("without a journal", "without a journal", "with a journal")
	command(t, done, "-journal", folder, "-valkey", copied, "-force")
	names("newer", "with a journal", "with a journal")
}

func TestBadUsage(t *testing.T) {
	folder := t.TempDir()
	for _, args := range [][]string{
		{}, {"-journal", folder}, {"-journal", "gs://x", "-valkey", "valkey://127.0.0.1:1"},
		{"-journal", folder, "-valkey", "http://x"},
		{"-journal", folder, "-valkey", "valkey://127.0.0.1:1", "x"},
		{"-journal", folder, "-valkey", "valkey://127.0.0.1:1", "-until", "yesterday"},
	} {
		command(t, 2, args...)
	}
	command(t, failed, "-journal", folder+"/none", "-valkey", "valkey://127.0.0.1:1")
}
