package apikey

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
)

var pepper = Pepper(bytes.Repeat([]byte("p"), 32))

// Parts cannot be shifted into one another, kinds not taken for each other, and an id
// stays what it is from release to release.
func TestIdsDiffer(t *testing.T) {
	k := NewKey(pepper)
	all := map[string]bool{
		k.Token("a", "bc"): true, k.Token("ab", "c"): true, k.Token("", "abc"): true,
		k.Token("abc", ""):                              true,
		k.opaque("ip", "a", "bc"):                       true,
		k.Address(netip.MustParsePrefix("10.0.0.0/8")):  true,
		k.Address(netip.MustParsePrefix("10.0.0.0/16")): true,
		k.Address(netip.MustParsePrefix("::a00:0/104")): true,
		NewKey(Pepper(bytes.Repeat([]byte("x"), 32))).Address(netip.MustParsePrefix("10.0.0.0/8")): true,
	}
	if len(all) != 9 {
		t.Errorf("%d ids, want 9", len(all))
	}
	if a, b := k.Address(netip.MustParsePrefix("10.1.2.3/8")),
		k.Address(netip.MustParsePrefix("10.0.0.0/8")); a != b {
		t.Error("a prefix and its masked form differ")
	}
}

func TestKeyHidesItself(t *testing.T) {
	k := NewKey(pepper)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %#v %s", k, k, k)} {
		if bytes.Contains([]byte(text), k[:4]) || !bytes.Contains([]byte(text), []byte("subject key")) {
			t.Errorf("%q", text)
		}
	}
}
