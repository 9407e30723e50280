package apikey

import (
	"errors"
	"strings"
	"testing"
)

// A secret without an env reads back as itself, and no other text does: not one with a
// changed character, nor an API key.
func TestPlain(t *testing.T) {
	const prefix = "tga_"
	secret := GeneratePlain(prefix)
	text := secret.Reveal()
	got, err := ParsePlain(prefix, text)
	if err != nil || got != secret || !ValidID(secret.ID()) || !strings.Contains(text, prefix+secret.ID()) {
		t.Fatalf("%s reads as %v, %v", text, got, err)
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
			t.Errorf("%.60q is taken: %v", text, err)
		}
	}
	if _, err := Parse(text); !errors.Is(err, ErrMalformed) {
		t.Errorf("it is taken for an API key: %v", err)
	}
	if GeneratePlain(prefix) == secret {
		t.Error("it is not random")
	}
}
