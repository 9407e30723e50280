package main

import (
	_ "embed"
	"strings"
)

//go:generate go test . -run TestDocument -update

//go:embed introduction.md
var introduction string

// document is docs/verify.md.
func document() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, part := range sections {
		b.WriteString("\n## " + part.title + "\n\n")
		b.WriteString("| row | what is checked | AWS's word | how | expected | when it differs " +
			"|\n|---|---|---|---|---|---|\n")
		for _, r := range part.rows {
			tableLine(&b, "`"+r.id+"`", r.what, r.source, r.how, r.expected, r.advice)
		}
	}
	return b.String()
}
