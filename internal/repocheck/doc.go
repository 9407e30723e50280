// Package repocheck holds the rules of this repository that no linter knows, as tests:
// one package comment each, links that lead somewhere, scripts that explain themselves.
// Each rule has a table of bad inputs, which proves that the rule can fail. .golangci.yml
// says who may import whom and what else linters find.
package repocheck
