// Package faults has the fault suite. Its tests break Valkey, the network and the
// function while the built check function answers calls behind Lambda's Runtime API. Each
// test checks the promise for one fault and reports a row of figures. The suite takes
// minutes, so it runs only with FAULTS=1, which ./scripts/test -faults sets. With
// FAULTS_TABLE=FILE it also writes the rows to that file as a Markdown table.
package faults
