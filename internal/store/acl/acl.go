// Package acl holds what each function's Valkey user may do, in the syntax of Valkey's
// ACL, which is also that of ElastiCache's access strings.
//
// The check user reads keys, plans and states, and writes states and usage alone. Its
// scripts declare a key's record beside its state, and Valkey takes a declared key for
// one that is written: so a selector of its own lets scripts declare them all, while the
// commands inside are held to the other rules. That way not even a script of the check
// function changes configuration.
package acl

import (
	_ "embed"
	"strings"
)

//go:embed check.acl
var check string

//go:embed admin.acl
var admin string

// Check is the access string of the check function's user.
func Check() string { return strings.TrimSpace(check) }

// Admin is the access string of the admin function's user.
func Admin() string { return strings.TrimSpace(admin) }

// Rules splits an access string into the arguments of ACL SETUSER; a selector, in
// parentheses, is one of them.
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
