// Package repocheck tests that links and paths in the pages exist, and that the diagram of
// imports is up to date.
package repocheck
