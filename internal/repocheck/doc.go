// Package repocheck tests the pages: links, files, tests, commands and their flags exist,
// also pages that the code names, and the table and diagram of packages are up to date.
package repocheck
