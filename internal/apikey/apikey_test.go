package apikey

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestGeneratedKeysParse(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s, err := Generate("prod1")
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(s.Reveal())
		if err != nil || again != s {
			t.Fatalf("Parse(Generate()) = %v, %v", again, err)
		}
		if !strings.HasPrefix(s.Reveal(), "tg_prod1_"+s.ID()) || !ValidID(s.ID()) || seen[s.ID()] {
			t.Fatalf("id %q is invalid or repeated", s.ID())
		}
		seen[s.ID()] = true
	}
}

// Every change of one character breaks the form or the checksum, so that a mistyped key
// costs no call to Valkey.
func TestMistypedKeysAreMalformed(t *testing.T) {
	s, err := Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	text := s.Reveal()
	for i := range len(text) {
		for _, c := range []byte("0aZ_ \x00{") {
			changed := text[:i] + string(c) + text[i+1:]
			if changed == text {
				continue
			}
			if _, err := Parse(changed); !errors.Is(err, ErrMalformed) {
				t.Errorf("Parse(%q) = %v, want ErrMalformed", changed, err)
			}
		}
	}
	for _, bad := range []string{"", "tg_", "tg__", text + "0", text[1:], " " + text, strings.ToUpper(text),
		strings.Repeat("a", 10<<10), text + "\n", "tg_tést_" + text[8:]} {
		if _, err := Parse(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("Parse(%q) = %v, want ErrMalformed", bad, err)
		}
	}
}

func TestFormattingHidesSecrets(t *testing.T) {
	s, err := Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPepper(strings.Repeat("pepper!!", 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if out := fmt.Sprintf(verb+verb, s, p); strings.Contains(out, s.Reveal()[20:]) ||
			strings.Contains(out, "pepper!!") {
			t.Errorf("%s: got %s, want no secret", verb, out)
		}
	}
}

func TestHashDependsOnPepperAndKey(t *testing.T) {
	a, _ := Generate("test")
	b, _ := Generate("test")
	p, q := Pepper(strings.Repeat("p", 32)), Pepper(strings.Repeat("q", 32))
	if p.Hash(a) == p.Hash(b) || p.Hash(a) == q.Hash(a) {
		t.Error("got equal hashes, want different ones for another key and another pepper")
	}
	if _, err := NewPepper(strings.Repeat("p", 31)); err == nil {
		t.Error("pepper of 31 characters: got no error")
	}
}

func FuzzParse(f *testing.F) {
	s, _ := Generate("test")
	f.Add(s.Reveal())
	for _, text := range []string{"tg_test_", "tg_test", "tg__" + s.Reveal()[8:], "", s.Reveal() + "0",
		s.Reveal()[:20] + "-" + s.Reveal()[21:], s.Reveal()[:len(s.Reveal())-1] + "!",
		strings.Repeat("tg_", MaxLen)} {
		f.Add(text)
	}
	changed := []byte(s.Reveal())
	changed[len(changed)-1] ^= 1 // another checksum
	f.Add(string(changed))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err == nil && (s.Reveal() != text || !ValidID(s.ID())) {
			t.Fatalf("Parse(%q) = %v, want the same text and a valid id", text, s)
		}
	})
}

// ParsePlain accepts a generated secret, but neither one with a changed character nor an
// API key.
func TestPlain(t *testing.T) {
	const prefix = "tga_"
	secret := GeneratePlain(prefix)
	text := secret.Reveal()
	got, err := ParsePlain(prefix, text)
	if err != nil || got != secret || !ValidID(secret.ID()) || !strings.Contains(text, prefix+secret.ID()) {
		t.Fatalf("ParsePlain(%s) = %v, %v, want the generated secret", text, got, err)
	}
	key, err := Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"", prefix, text[1:], text + "0", text[:len(text)-1], "tgb_" + text[4:], key.Reveal(),
		strings.Repeat("a", 1<<20)}
	for i := range text {
		other := byte('a')
		if text[i] == other {
			other = 'b'
		}
		bad = append(bad, text[:i]+string(other)+text[i+1:])
	}
	for _, text := range bad {
		if _, err := ParsePlain(prefix, text); !errors.Is(err, ErrMalformed) {
			t.Errorf("ParsePlain(%.60q) = %v, want ErrMalformed", text, err)
		}
	}
	if _, err := Parse(text); !errors.Is(err, ErrMalformed) {
		t.Errorf("Parse(%q) = %v, want ErrMalformed", text, err)
	}
	if GeneratePlain(prefix) == secret {
		t.Error("got the same secret twice, want random ones")
	}
}

var foreignKey = NewKey(Pepper(strings.Repeat("pepper!!", 4)))

const uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

func TestForeignValues(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range []string{
		"AbCdEfGhIjKlMnOpQrSt", uuid, strings.ToUpper(uuid), "sk_live_51H8x2eZvKYlo2C0",
		"tgx_0123456789abcdef",
		strings.Repeat("0123456789", 4), strings.Repeat("0123456789abcdef", 16), "tg-0123456789abcdefg",
	} {
		s, err := foreignKey.Foreign(text)
		if err != nil || s.Reveal() != text || !s.Foreign() || !ValidID(s.ID()) || seen[s.ID()] {
			t.Errorf("Foreign(%q) = %v, %v, want a secret with this text and an id of its own", text, s, err)
		}
		seen[s.ID()] = true
		if again, _ := foreignKey.Foreign(text); again != s {
			t.Errorf("Foreign(%q): got id %s, then %s, want the same", text, s.ID(), again.ID())
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", s, s, s, s), text) {
			t.Errorf("key %s: formatting shows its text", s.ID())
		}
	}
}

// The id of a foreign value is the same in every release, because it names the stored
// record.
func TestForeignIDIsStable(t *testing.T) {
	s, err := foreignKey.Foreign(uuid)
	if err != nil || s.ID() != "iahpU61AkHBc" {
		t.Errorf("got id %s, %v, want iahpU61AkHBc", s.ID(), err)
	}
}

// The error for an invalid value names the rule and never contains the value.
func TestForeignValuesRefused(t *testing.T) {
	own, err := Generate("live")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                "20 to 256",
		"AbCdEfGhIjKlMnOpQrS":             "20 to 256",
		strings.Repeat("0123456789", 26):  "20 to 256",
		"AbCdEfGhIj KlMnOpQrSt":           "spaces",
		"AbCdEfGhIjKlMnOpQrSt\n":          "spaces",
		"AbCdEfGhIjKlMnOpQrSt\x00":        "ASCII",
		"AbCdEfGhIjKlMnOpQrSté":           "ASCII",
		"AbCdEfGhIj,KlMnOpQrSt":           "commas",
		"passwordpasswordpassword":        "different characters",
		strings.Repeat("123456789", 5):    "different characters",
		own.Reveal():                      "Tidegate",
		own.Reveal()[:40]:                 "Tidegate",
		strings.ToUpper(own.Reveal()):     "Tidegate",
		GeneratePlain("tga_").Reveal():    "Tidegate",
		"TGA_AbCdEfGhIjKlMnOpQrSt":        "Tidegate",
		"tgr_AbCdEfGhIjKlMnOpQrSt":        "Tidegate",
		"tidegate: subjects 0123456789ab": "spaces", // a text that Derive hashes
	} {
		s, err := foreignKey.Foreign(text)
		if err == nil || s.ID() != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v; want an error with %q", text, s, err, want)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: error contains the value: %v", text, err)
		}
	}
}

// A repeated key is the same for the same name and number, and parses. Another name gives
// another id, another number only another secret.
func TestRepeatedKeys(t *testing.T) {
	key := func(p Pepper, id, name string, number uint64) Secret {
		t.Helper()
		s, err := p.Repeated("live", id, name, number)
		if err != nil {
			t.Fatal(err)
		}
		if parsed, err := Parse(s.Reveal()); err != nil || parsed != s {
			t.Fatalf("%s: got %+v, %v, want the same key", s.Reveal(), parsed, err)
		}
		return s
	}
	pepper := Pepper(strings.Repeat("p", 32))
	first := key(pepper, "", "one", 7)
	if key(pepper, "", "one", 7) != first || key(pepper, first.ID(), "one", 7) != first {
		t.Error("the same name and number give another key")
	}
	for what, s := range map[string]Secret{
		"number": key(pepper, "", "one", 8), "name": key(pepper, first.ID(), "two", 7),
		"pepper": key(Pepper(strings.Repeat("q", 32)), first.ID(), "one", 7),
	} {
		if s.ID() != first.ID() || s.Reveal() == first.Reveal() {
			t.Errorf("another %s: got %s, want another secret of the same id", what, s.Reveal())
		}
	}
	if key(pepper, "", "two", 7).ID() == first.ID() {
		t.Error("another name gives the same id")
	}
	if _, err := pepper.Repeated("LIVE", "", "one", 7); err == nil {
		t.Error("an invalid env is accepted")
	}
}
