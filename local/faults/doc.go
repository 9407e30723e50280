// Package faults has the fault suite. Its tests break Valkey, the network and the
// function while the built Lambda binary answers calls behind its Runtime API, and check
// the promise for each fault. They take minutes, so they run only with FAULTS=1, as
// ./scripts/test -faults sets it. Each reports a row of figures. With FAULTS_TABLE=FILE
// the suite also writes them to that file as a Markdown table.
package faults
