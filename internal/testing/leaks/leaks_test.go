package leaks

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

const secret = `tg_live_4fQ/"+ü&hB7vE2kR9mX1cT5nW8zL3pD6sA0gJ`

// A canary is found in every form, at any offset in the encoded text.
func TestLeaksAreFound(t *testing.T) {
	text, _ := json.Marshal(map[string]string{"key": secret})
	for name, output := range map[string]string{
		"plain":          "a " + secret + " b",
		"lower case":     strings.ToLower(secret),
		"upper case":     strings.ToUpper(secret),
		"JSON":           string(text),
		"JSON in JSON":   fmt.Sprintf("%q", secret),
		"query":          "?key=" + url.QueryEscape(secret),
		"path":           "/" + url.PathEscape(secret),
		"hex":            hex.EncodeToString([]byte("<" + secret)),
		"HEX":            strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"bytes":          fmt.Sprintf("%d", []byte(secret)),
		"%v of a struct": fmt.Sprintf("%+v", struct{ Key string }{secret}),
		"first part":     secret[:24],
		"last part":      secret[len(secret)-24:],
	} {
		if leaks := Leaks([]byte("first\n"+output), "something else", secret); len(leaks) == 0 ||
			leaks[0].Canary != 1 || leaks[0].Line != 2 {
			t.Errorf("%s: got %v, want canary 1 in line 2 of %s", name, leaks, output)
		}
	}
	for before := range 4 {
		for after := range 4 {
			whole := []byte(strings.Repeat("x", before) + secret + strings.Repeat("y", after))
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding,
				base64.URLEncoding, base64.RawURLEncoding} {
				if output := encoding.EncodeToString(whole); len(Leaks([]byte(output), secret)) == 0 {
					t.Errorf("not found in %s", output)
				}
			}
		}
	}
}

func TestAddressesAreFound(t *testing.T) {
	for output, address := range map[string]string{
		"client 203.0.113.77 called": "203.0.113.77",
		"::ffff:203.0.113.77":        "203.0.113.77",
		"203.0.113.77:443":           "203.0.113.77",
		"ip-203-0-113-77.example":    "203.0.113.77",
		"3405803853":                 "203.0.113.77",
		"cb00714d":                   "203.0.113.77",
		"MjAzLjAuMTEzLjc3":           "203.0.113.77",
		"2001:DB8::4D":               "2001:db8::4d",
		"[2001:0db8:0000:0000:0000:0000:0000:004d]:443":  "2001:db8::4d",
		"2001%3Adb8%3A%3A4d":                             "2001:db8::4d",
		hex.EncodeToString([]byte("addr 203.0.113.77 ")): "203.0.113.77",
	} {
		if leaks := Leaks([]byte(output), address); len(leaks) == 0 {
			t.Errorf("%s is not found in %s", address, output)
		}
	}
}

// Public parts of keys and similar texts are no leaks.
func TestNoLeaks(t *testing.T) {
	for output, canary := range map[string]string{
		"key_id 4fQ/hB7vE2kR":           secret,
		secret[:23]:                     secret,
		"1203.0.113.77 203.0.113.770":   "203.0.113.77",
		"34058038531":                   "203.0.113.77",
		"2001:db8::4dd":                 "2001:db8::4d",
		"nothing at all, in two\nlines": "something",
		"":                              "something",
	} {
		if leaks := Leaks([]byte(output), canary); len(leaks) != 0 {
			t.Errorf("%q: got %v, want none", output, leaks)
		}
	}
	if text := (Leak{0, "text", 3}).String(); strings.Contains(text, secret) ||
		text != "canary 0 leaks as text in line 3" {
		t.Error(text)
	}
}

func TestShortCanariesPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a canary of six characters was accepted")
		}
	}()
	Leaks(nil, "secret")
}
