package policyset

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"tidegate/internal/policy"
)

// A record has everything of a key but its version and the name of its plan. Numbers of
// plans do not run out. A part of a record is not one.
func TestRecord(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 123_456_000, time.UTC)
	k := policy.Key{ID: "abc", Kind: policy.APIKey, Name: "Zoë", Env: "live", Foreign: true,
		Tags: []string{"a"}, Group: "acme", Status: policy.Active, Expires: at, Banned: at.Add(time.Hour),
		Grace: at.Add(time.Minute), Reset: at, Created: at, Updated: at, PlanNumber: 1 << 20, Version: 77,
		Override: &policy.Override{Reason: "a test", Until: at}}
	secrets := Secrets{Current: [32]byte{1}, Previous: [32]byte{2}}
	record, err := EncodeRecord(k, secrets)
	if err != nil {
		t.Fatal(err)
	}
	version, content := Stored(fmt.Sprintf("77 %s", record))
	got, hashes, err := DecodeRecord("abc", version, content)
	if err != nil || hashes != secrets || !reflect.DeepEqual(got, k) {
		t.Errorf("got %+v, %v; want %+v", got, err, k)
	}
	for n := range record {
		got, hashes, err := DecodeRecord("abc", 77, record[:n])
		if !errors.Is(err, policy.ErrUnreadable) || got.Status != policy.Unreadable || hashes != (Secrets{}) {
			t.Fatalf("cut to %d bytes: got %+v, %v; want it unreadable", n, got, err)
		}
	}
}
