// Package acl has the rights of each function's Valkey user, in the syntax of Valkey's
// ACL, which ElastiCache's access strings share.
//
// The check user reads records, plans and counts, and writes only counts and usage. Its
// scripts declare a record and its counts together, and Valkey treats every declared key
// as written. So a separate selector lets scripts declare all keys of Tidegate, while the
// other rules apply to the commands inside. No script of the check function can change
// configuration.
package acl

import (
	_ "embed"
	"strings"
)

//go:embed check.acl
var check string

//go:embed admin.acl
var admin string

// Check returns the access string of the check function's user.
func Check() string { return strings.TrimSpace(check) }

// Admin returns the access string of the admin function's user.
func Admin() string { return strings.TrimSpace(admin) }

// Rules splits an access string into the arguments of ACL SETUSER. A selector in
// parentheses is one argument.
func Rules(access string) []string {
	var rules []string
	open := false
	for word := range strings.FieldsSeq(access) {
		if open {
			rules[len(rules)-1] += " " + word
		} else {
			rules = append(rules, word)
		}
		open = strings.HasPrefix(word, "(") || open
		if strings.HasSuffix(word, ")") {
			open = false
		}
	}
	return rules
}
