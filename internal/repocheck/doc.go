// Package repocheck tests the rules of this repository that no linter knows, such as one
// comment per package, no broken links, and help for every script. Each rule has a table
// of bad inputs, which proves that it can fail. .golangci.yml configures the linters,
// import rules included.
package repocheck
