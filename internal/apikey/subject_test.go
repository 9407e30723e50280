package apikey

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

var pepper = Pepper(bytes.Repeat([]byte("p"), 32))

// Ids differ when text moves from one part to the next, when only the kind differs, and
// under another pepper. A prefix and its masked form have the same id.
func TestIDsDiffer(t *testing.T) {
	k, ten := NewKey(pepper), netip.MustParsePrefix("10.0.0.0/8")
	all := map[string]bool{
		k.Token("a", "bc"): true, k.Token("ab", "c"): true, k.Token("", "abc"): true,
		k.Token("abc", ""):                              true,
		k.opaque("ip", "a", "bc"):                       true,
		k.Address(ten):                                  true,
		strings.TrimPrefix(k.Network(ten), "ip-"):       true,
		k.Address(netip.MustParsePrefix("10.0.0.0/16")): true,
		k.Address(netip.MustParsePrefix("::a00:0/104")): true,
		NewKey(Pepper(bytes.Repeat([]byte("x"), 32))).Address(netip.MustParsePrefix("10.0.0.0/8")): true,
	}
	if len(all) != 10 {
		t.Errorf("got %d different ids, want 10", len(all))
	}
	if a, b := k.Address(netip.MustParsePrefix("10.1.2.3/8")),
		k.Address(netip.MustParsePrefix("10.0.0.0/8")); a != b {
		t.Errorf("got ids %s and %s for a prefix and its masked form, want the same", a, b)
	}
}

func TestFormattingHidesKey(t *testing.T) {
	k := NewKey(pepper)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %#v %s", k, k, k)} {
		if bytes.Contains([]byte(text), k[:4]) || !bytes.Contains([]byte(text), []byte("subject key")) {
			t.Errorf("got %q, want \"subject key\" without the key", text)
		}
	}
}
