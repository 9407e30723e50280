// Package crashes has the crash tests of the journal. The admin function makes changes
// through its API and is killed at each request to Valkey and to the journal's store.
// Meanwhile the store is slow, refuses or loses answers, and Valkey loses its data or
// fails over. Every acknowledged change must survive.
//
// CRASHES is the number of changes in a long run. ./scripts/test -programs makes a short
// run.
package crashes
