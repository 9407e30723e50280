package reservation

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

var testSeal = NewSeal(apikey.Pepper(strings.Repeat("pepper!!", 4)))

// taken returns a reservation of a call whose cost the given states took.
func taken(all ...State) *Reservation {
	at := time.Date(2026, 11, 22, 10, 0, 0, 123_000, time.UTC)
	r := New("a-caller", 3, 40)
	r.SettleMax, r.Rule, r.Expires = 7000, "a-route", at.Add(time.Hour)
	for _, s := range all {
		if s >= firstShared {
			at = at.Add(time.Duration(s) * time.Microsecond)
		}
		r.Took(s, at, byte(s))
		if s == IP || s == RouteIP {
			r.Network = "a-network"
		}
		if s == Group {
			r.Group, r.GroupPlan = policy.GroupID("acme"), 5
		}
	}
	return &r
}

// Read returns the reservation that Write encoded, for every combination of states.
func TestReadIsTheInverseOfWrite(t *testing.T) {
	for mask := range 1 << states {
		var all []State
		for s := range states {
			if mask&(1<<s) != 0 {
				all = append(all, s)
			}
		}
		want := taken(all...)
		if got, ok := testSeal.Read(testSeal.Write(want)); !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: got %+v, %t, want %+v", all, got, ok, want)
		}
	}
}

// Every scope of a limit has a state of its own.
func TestStatesHaveScopes(t *testing.T) {
	for s := range states {
		if got := StateOf(s.Scope()); got != s {
			t.Errorf("%s is state %d, want %d", s.Scope(), got, s)
		}
	}
}

// Read refuses texts that are no reservation, changed reservations, and reservations
// signed with another pepper.
func TestForgedTexts(t *testing.T) {
	good := testSeal.Write(taken(Key, IP, Group))
	raw, err := base64.RawURLEncoding.DecodeString(good[len(prefix):])
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"", prefix, good[len(prefix):], good + "A", good[:len(good)-1], good + "=",
		strings.ToUpper(good), strings.Repeat(good, 9),
		NewSeal(apikey.Pepper(strings.Repeat("q", 32))).Write(taken(Key))}
	for i := range raw {
		forged := append([]byte{}, raw...)
		forged[i] ^= 1
		for _, bytes := range [][]byte{forged, raw[:i]} {
			texts = append(texts, prefix+base64.RawURLEncoding.EncodeToString(bytes))
		}
	}
	for _, text := range texts {
		if r, ok := testSeal.Read(text); ok {
			t.Fatalf("%s: got %+v, want no reservation", text, r)
		}
	}
}
