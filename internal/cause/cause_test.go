package cause

import "testing"

// stored has every cause. Stored counts and log entries contain the numbers and names, so
// the list only grows.
var stored = []struct {
	number  Cause
	name    string
	refuses bool
	onTrial bool
}{
	{1, "missing", true, false}, {2, "malformed", true, false}, {3, "unknown", true, false},
	{4, "revoked", true, false}, {5, "expired", true, false}, {6, "old-secret", true, false},
	{7, "address", true, false}, {8, "access", true, false},
	{9, "limit", false, false}, {10, "ban", false, false}, {11, "unavailable", false, false},
	{12, "shadow", false, true},
}

func TestNumbersAndNamesAreStable(t *testing.T) {
	if all := All(); len(all) != len(stored) {
		t.Fatalf("got %d causes, want %d", len(all), len(stored))
	}
	refusals := 0
	for i, s := range stored {
		if All()[i] != s.number || s.number.String() != s.name || Named(s.name) != s.number {
			t.Errorf("got number %d, name %q, Named(%q) = %d, want cause %d", All()[i], s.number, s.name,
				Named(s.name), s.number)
		}
		if s.number.Refuses() != s.refuses {
			t.Errorf("%s: Refuses() = %t, want %t", s.name, s.number.Refuses(), s.refuses)
		}
		if s.number.OnTrial() != s.onTrial {
			t.Errorf("%s: OnTrial() = %t, want %t", s.name, s.number.OnTrial(), s.onTrial)
		}
		if s.refuses {
			refusals++
		}
	}
	if refusals != Refusals {
		t.Errorf("Refusals = %d, want %d", Refusals, refusals)
	}
}

func TestUnknownCauses(t *testing.T) {
	for _, c := range []Cause{0, Cause(len(stored) + 1), 255} {
		if c.String() != "" || c.Refuses() {
			t.Errorf("cause %d: got name %q, Refuses() = %t, want none and false", c, c, c.Refuses())
		}
	}
	for _, name := range []string{"", "Missing", "none"} {
		if c := Named(name); c != 0 {
			t.Errorf("Named(%q) = %d, want 0", name, c)
		}
	}
}
