package apikey

import (
	"fmt"
	"strings"
	"testing"
)

var foreignIDs = NewKey(Pepper(strings.Repeat("pepper!!", 4)))

const uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

func TestForeignValues(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range []string{
		"AbCdEfGhIjKlMnOpQrSt", uuid, strings.ToUpper(uuid), "sk_live_51H8x2eZvKYlo2C0",
		"tgx_0123456789abcdef",
		strings.Repeat("0123456789", 4), strings.Repeat("0123456789abcdef", 16), "tg-0123456789abcdefg",
	} {
		s, err := foreignIDs.Foreign(text)
		if err != nil || s.Reveal() != text || !s.Foreign() || !ValidID(s.ID()) || seen[s.ID()] {
			t.Errorf("%s: %v, %v", text, s, err)
		}
		seen[s.ID()] = true
		if again, _ := foreignIDs.Foreign(text); again != s {
			t.Errorf("%s has the ids %s and %s", text, s.ID(), again.ID())
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", s, s, s, s), text) {
			t.Errorf("%s prints itself", s.ID())
		}
	}
}

// An id stays what it is from release to release: it names the stored record.
func TestForeignIDStays(t *testing.T) {
	s, err := foreignIDs.Foreign(uuid)
	if err != nil || s.ID() != "iahpU61AkHBc" {
		t.Errorf("%s, %v", s.ID(), err)
	}
}

// A bad value is named by its bound, and never repeated.
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
		"tidegate: subjects 0123456789ab": "spaces", // the text of Derive
	} {
		s, err := foreignIDs.Foreign(text)
		if err == nil || s.ID() != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, s, err, want)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q is repeated", text)
		}
	}
}
