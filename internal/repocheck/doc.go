// Package repocheck tests that the pages match the repository: links, paths, commands,
// flags and tests that they name exist, and the diagram of imports is up to date. It also
// tests the scripts' help and their messages about missing programs.
package repocheck
