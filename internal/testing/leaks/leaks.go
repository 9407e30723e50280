// Package leaks finds secrets in the output of a program. A test plants texts that occur
// nowhere else (canaries), runs the program, and searches its whole output for them, as
// plain text and in encoded forms. Only tests import it.
package leaks

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// partLen is how many consecutive characters of a long canary are a leak. The public part
// of an API key is shorter.
const partLen = 24

// Leaks returns which canaries occur in output, and in which form, without repeating
// them. It finds texts in upper and lower case, in hex, in base64 at any offset, and
// escaped for URLs, JSON or Go. It finds any 24 characters of a long text.
func Leaks(output []byte, canaries ...string) (found []string) {
	text := string(output)
	folded := strings.ToLower(text)
	for i, canary := range canaries {
		for form, secret := range forms(canary) {
			in := folded
			if strings.HasPrefix(form, "base64") {
				in = text
			} else {
				secret = strings.ToLower(secret)
			}
			if form != "address" && strings.Contains(in, secret) ||
				form == "address" && alone(secret).MatchString(in) {
				found = append(found, fmt.Sprintf("canary %d leaks as %s", i, form))
			}
		}
	}
	return found
}

// alone matches an address that is no part of a longer one.
func alone(address string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^0-9a-z])` + regexp.QuoteMeta(address) + `([^0-9a-z]|$)`)
}

// forms returns the texts whose occurrence is a leak of the canary, by their name.
func forms(canary string) map[string]string {
	quoted, _ := json.Marshal(canary) // strings always encode
	all := map[string]string{
		"JSON": strings.Trim(string(quoted), `"`), "Go": strings.Trim(strconv.QuoteToASCII(canary), `"`),
		"query": url.QueryEscape(canary), "path": url.PathEscape(canary),
		"hex":   hex.EncodeToString([]byte(canary)),
		"bytes": strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"),
	}
	for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding,
		"base64url": base64.RawURLEncoding} {
		for skip := range 3 { // the characters at the ends depend on the surrounding text
			text := encoding.EncodeToString(append(make([]byte, skip), canary...))[[]int{0, 2, 3}[skip]:]
			if (skip+len(canary))%3 != 0 {
				text = text[:len(text)-1]
			}
			all[fmt.Sprint(name, skip)] = text
		}
	}
	if address, err := netip.ParseAddr(canary); err == nil {
		for _, form := range []string{"JSON", "Go", "query", "path"} {
			delete(all, form)
		}
		all["address"], all["long address"] = address.String(), address.StringExpanded()
		if address.Is4() {
			delete(all, "long address")
		}
		return all
	}
	all["text"] = canary
	for at := 0; len(canary) > partLen && at+partLen <= len(canary); at++ {
		all[fmt.Sprint("part ", at)] = canary[at : at+partLen]
	}
	return all
}
