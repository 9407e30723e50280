// Package faults holds the fault suite: tests that break Valkey, the network and the
// function, while the built Lambda binary answers calls behind its Runtime API, and check
// what was promised for each fault. They take minutes, so they run only with FAULTS=1, as
// ./scripts/test -faults sets it. Each reports a row of figures; with FAULTS_TABLE they
// are written to that file as a Markdown table, too.
package faults
