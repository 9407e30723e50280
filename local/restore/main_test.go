package restore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registrytest.Edit
)

func savePlan(t *testing.T, keys *registry.Store) {
	t.Helper()
	registrytest.Save(t, keys, byTest, registrytest.Plan("free", registrytest.Limits("2 per hour")...))
}

func create(t *testing.T, keys *registry.Store, name string) policy.Key {
	t.Helper()
	k, _ := registrytest.Create(t, keys, byTest, policy.NewKey{Name: name, Env: "test", Plan: "free"})
	return k
}

// command runs the command and returns what it prints.
func command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	environment := func(name string) string { return map[string]string{"KEY_PEPPER": string(pepper)}[name] }
	if got := Run(context.WithoutCancel(t.Context()), args, environment, &out, &errOut); got != want {
		t.Errorf("%q: exit status %d, want %d\n%s\n%s", args, got, want, &out, &errOut)
	}
	return out.String() + errOut.String()
}

func wantText(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("got %s, want %q", text, want)
	}
}

// A dry run writes nothing. A restore fills an empty Valkey. With -until a time or a number
// later changes are taken back by new ones.
func TestRestore(t *testing.T) {
	folder := t.TempDir()
	keys := registrytest.Open(t, storetest.Connect(t, valkeytest.Start(t)), folder, pepper)
	savePlan(t, keys)
	kept := create(t, keys, "kept")
	// The flag has a precision of a second, so the next change is in another one.
	until := time.Now().Add(time.Second).Truncate(time.Second)
	waiting.Until(t, "the next second",
		func() bool { return time.Now().After(until.Add(100 * time.Millisecond)) })
	later := create(t, keys, "later")
	saved := registrytest.Save(t, keys, byTest, func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 3 })

	empty := valkeytest.Start(t)
	flags := []string{"-log", folder, "-valkey", empty}
	wantText(t, command(t, done, append(flags, "-dry-run")...), "behind it: 256 of 256, at change 0")
	client := storetest.Connect(t, empty)
	if n, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64(); err != nil || n > 0 {
		t.Errorf("the dry run wrote %d names, %v", n, err)
	}
	wantText(t, command(t, done, flags...), "behind it: 0 of 256")
	restored := registrytest.Open(t, client, folder, pepper)
	for _, k := range []policy.Key{kept, later} {
		if got, err := restored.Get(t.Context(), k.ID); err != nil || got.Name != k.Name {
			t.Errorf("%s: %+v %v", k.Name, got, err)
		}
	}
	for _, flag := range []string{until.UTC().Format(time.RFC3339), strconv.FormatInt(kept.Version, 10)} {
		command(t, done, append(flags, "-until", flag)...)
		if _, err := restored.Get(t.Context(), kept.ID); err != nil {
			t.Errorf("-until %s: kept: %v", flag, err)
		}
		if _, err := restored.Get(t.Context(), later.ID); err == nil {
			t.Errorf("-until %s: a key of later still exists", flag)
		}
		if set, err := restored.Set(t.Context()); err != nil || set.Plans[0].Limits[0].Requests != 2 ||
			set.Version <= saved.Version {
			t.Errorf("-until %s: policies %+v %v", flag, set, err)
		}
	}
	create(t, restored, "after")
	command(t, failed, append(flags, "-until", "2001-01-01T00:00:00Z")...)
}

// A Valkey of another log is left alone, and made again with -take.
func TestTake(t *testing.T) {
	folder, url := t.TempDir(), valkeytest.Start(t)
	mine := registrytest.Open(t, storetest.Connect(t, valkeytest.Start(t)), folder, pepper)
	savePlan(t, mine)
	kept := create(t, mine, "kept")
	client := storetest.Connect(t, url)
	other := registrytest.New(t, client, pepper)
	savePlan(t, other)
	lost := create(t, other, "of another log")

	flags := []string{"-log", folder, "-valkey", url}
	for _, more := range [][]string{nil, {"-dry-run"}} {
		wantText(t, command(t, failed, append(flags, more...)...), changes.ErrAhead.Error())
	}
	if _, err := other.Get(t.Context(), lost.ID); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
	wantText(t, command(t, done, append(flags, "-take")...), "behind it: 0 of 256")
	taken := registrytest.Open(t, client, folder, pepper)
	if _, err := taken.Get(t.Context(), lost.ID); err == nil {
		t.Error("a key that the log lacks still exists")
	}
	if _, err := taken.Get(t.Context(), kept.ID); err != nil {
		t.Error(err)
	}
}

// A change whose object is missing is named, and is nothing after -void.
func TestVoid(t *testing.T) {
	folder, url := t.TempDir(), valkeytest.Start(t)
	keys := registrytest.Open(t, storetest.Connect(t, url), folder, pepper)
	savePlan(t, keys)
	lost, kept := create(t, keys, "lost"), create(t, keys, "kept")
	number := strconv.FormatInt(lost.Version, 10)
	object := filepath.Join(folder, "changes", fmt.Sprintf("%09d/%03d", 0, lost.Version))
	if err := os.Remove(object); err != nil {
		t.Fatal(err)
	}
	empty := valkeytest.Start(t)
	flags := []string{"-log", folder, "-valkey", empty}
	wantText(t, command(t, failed, flags...), "change "+number+" is missing")
	wantText(t, command(t, done, append(flags, "-void", number)...), "behind it: 0 of 256")
	mended := registrytest.Open(t, storetest.Connect(t, empty), folder, pepper)
	if _, err := mended.Get(t.Context(), lost.ID); err == nil {
		t.Error("the key of the change that is nothing exists")
	}
	if _, err := mended.Get(t.Context(), kept.ID); err != nil {
		t.Error(err)
	}
	command(t, failed, append(flags, "-void", number+"0")...)
}

func TestBadUsage(t *testing.T) {
	folder := t.TempDir()
	good := []string{"-log", folder, "-valkey", "valkey://127.0.0.1:1"}
	for _, args := range [][]string{
		{}, {"-log", folder}, {"-log", "gs://x", "-valkey", "valkey://127.0.0.1:1"},
		{"-log", folder, "-valkey", "http://x"},
		append(good, "x"), append(good, "-until", "yesterday"), append(good, "-until", "2026-11-22"),
		append(good, "-void", "0"), append(good, "-take", "-void", "3"), append(good, "-take", "-until", "3"),
	} {
		command(t, 2, args...)
	}
	command(t, failed, "-log", folder+"/none", "-valkey", "valkey://127.0.0.1:1")
}
