// Package house holds the rules of the house as tests: one package comment each,
// no sleeping, small files, scripts that explain themselves. A rule reads the
// repository's files; a table of bad inputs beside it proves that it can fail. Who may
// import whom is in .golangci.yml.
package house
