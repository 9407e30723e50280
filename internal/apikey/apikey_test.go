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
			t.Fatalf("bad or repeated id %q", s.ID())
		}
		seen[s.ID()] = true
	}
}

// Every change of one character breaks the form or the checksum, so it costs no call to
// Valkey.
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

func TestSecretsDoNotPrintThemselves(t *testing.T) {
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
			t.Errorf("%s prints %s", verb, out)
		}
	}
}

func TestHashDependsOnPepperAndKey(t *testing.T) {
	a, _ := Generate("test")
	b, _ := Generate("test")
	p, q := Pepper(strings.Repeat("p", 32)), Pepper(strings.Repeat("q", 32))
	if p.Hash(a) == p.Hash(b) || p.Hash(a) == q.Hash(a) {
		t.Error("the hash must depend on the key and on the pepper")
	}
	if _, err := NewPepper(strings.Repeat("p", 31)); err == nil {
		t.Error("a pepper of 31 characters was accepted")
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
			t.Fatalf("Parse(%q) = %v", text, s)
		}
	})
}
