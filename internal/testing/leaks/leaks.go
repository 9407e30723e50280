// Package leaks finds secrets in the output of a program. A test plants texts that occur
// nowhere else (canaries), runs the program, and searches its whole output for them, as
// plain text and in encoded forms.
package leaks

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Leak is a canary that was found.
type Leak struct {
	Canary int    // index in the arguments of Leaks
	Form   string // how it was encoded, such as "base64"
	Line   int    // on which it begins, from 1
}

// String does not repeat the canary.
func (l Leak) String() string {
	return fmt.Sprintf("canary %d leaks as %s in line %d", l.Canary, l.Form, l.Line)
}

const (
	// MinLen is the length of the shortest canary, since shorter texts occur by chance.
	MinLen = 7
	// partLen is how many consecutive characters of a long canary are a leak. The public
	// part of an API key is shorter.
	partLen = 24
)

// Leaks returns where the canaries occur in output: the first occurrence of each form of
// each canary. It finds texts in upper and lower case, reversed, in hex, in base64 of any
// variant and at any offset, and escaped for URLs, JSON or Go. It finds any 24 characters
// of a long text, and addresses in all usual spellings. It panics on a canary shorter
// than MinLen.
func Leaks(output []byte, canaries ...string) []Leak {
	folded := bytes.ToLower(output)
	var leaks []Leak
	for i, canary := range canaries {
		if len(canary) < MinLen {
			panic(fmt.Sprintf("canary %d has %d characters, the shortest has %d", i, len(canary), MinLen))
		}
		for _, f := range forms(canary) {
			in := output
			if f.folded {
				in = folded
			}
			if at := f.find(in); at >= 0 {
				leaks = append(leaks, Leak{i, f.name,
					1 + bytes.Count(output[:min(at, len(output))], []byte("\n"))})
			}
		}
	}
	return leaks
}

// form is a text whose occurrence is a leak of a canary.
type form struct {
	name, text string
	folded     bool // ignores case
	number     bool // is no leak within a longer run of digits and letters
}

func (f form) find(in []byte) int {
	text := f.text
	if f.folded {
		text = strings.ToLower(text)
	}
	for from := 0; ; {
		at := bytes.Index(in[from:], []byte(text))
		if at < 0 {
			return -1
		}
		at += from
		if !f.number || !continues(in, at-1) && !continues(in, at+len(text)) {
			return at
		}
		from = at + 1
	}
}

// continues reports whether the byte at i would continue a number or an address.
func continues(in []byte, i int) bool {
	return i >= 0 && i < len(in) &&
		(in[i] >= '0' && in[i] <= '9' || in[i] >= 'a' && in[i] <= 'z' || in[i] >= 'A' && in[i] <= 'Z')
}

func forms(canary string) []form {
	if address, err := netip.ParseAddr(canary); err == nil {
		return addressForms(address)
	}
	all := append(textForms(canary), encodedForms([]byte(canary))...)
	for at := 0; len(canary) > partLen && at+partLen <= len(canary); at++ {
		all = append(all, form{name: "part", text: canary[at : at+partLen], folded: true})
	}
	return distinct(all)
}

func textForms(canary string) []form {
	quoted, _ := json.Marshal(canary) // strings always encode
	return []form{
		{name: "text", text: canary, folded: true},
		{name: "reversed", text: reversed(canary), folded: true},
		{name: "JSON", text: strings.Trim(string(quoted), `"`), folded: true},
		{name: "Go", text: strings.Trim(strconv.QuoteToASCII(canary), `"`), folded: true},
		{name: "URL query", text: url.QueryEscape(canary), folded: true},
		{name: "URL path", text: url.PathEscape(canary), folded: true},
		{name: "percent", text: eachByte(canary, "%%%02x"), folded: true},
		{name: `\x`, text: eachByte(canary, `\x%02x`), folded: true},
		{name: "bytes", text: strings.TrimSpace(eachByte(canary, "%d ")), folded: true},
		{name: "bytes", text: strings.TrimSuffix(eachByte(canary, "%d,"), ","), folded: true},
	}
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func eachByte(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

// encodedForms returns hex and base64. Base64 has three forms, by the canary's offset in
// the encoded text; characters at its ends depend on the surrounding text and are left
// out.
func encodedForms(canary []byte) []form {
	forms := []form{{name: "hex", text: hex.EncodeToString(canary), folded: true}}
	for _, c := range []struct {
		name     string
		encoding *base64.Encoding
	}{{"base64", base64.RawStdEncoding}, {"base64url", base64.RawURLEncoding}} {
		for skip := range 3 {
			text := c.encoding.EncodeToString(append(make([]byte, skip), canary...))
			text = text[[]int{0, 2, 3}[skip]:]
			if (skip+len(canary))%3 != 0 {
				text = text[:len(text)-1]
			}
			forms = append(forms, form{name: c.name, text: text})
		}
	}
	return forms
}

func addressForms(address netip.Addr) []form {
	address = address.Unmap()
	forms := []form{
		{name: "address", text: address.String(), folded: true, number: true},
		{name: "long address", text: address.StringExpanded(), folded: true, number: true},
	}
	if address.Is4() {
		b := address.As4()
		number := binary.BigEndian.Uint32(b[:])
		forms = append(forms,
			form{name: "number", text: strconv.FormatUint(uint64(number), 10), number: true},
			form{name: "dashes", text: strings.ReplaceAll(address.String(), ".", "-"), number: true})
	}
	raw := address.AsSlice()
	forms = append(forms, form{name: "hex", text: hex.EncodeToString(raw), folded: true, number: true})
	for _, f := range append(textForms(address.String()), encodedForms([]byte(address.String()))...) {
		if f.name != "text" && f.text != address.String() {
			forms = append(forms, f)
		}
	}
	return distinct(forms)
}

// distinct removes forms that equal an earlier one.
func distinct(forms []form) []form {
	seen := map[string]bool{}
	return slices.DeleteFunc(forms, func(f form) bool {
		again := seen[f.text]
		seen[f.text] = true
		return again
	})
}
