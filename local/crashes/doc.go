// Package crashes breaks what the log of changes stands on, while the built functions work:
// it kills and stops the admin function at each request, takes away the log's store and
// parts of Valkey, and loses, damages or exchanges either. It has one journey for each kind
// of failure: nothing acknowledged is lost, a revocation acts whatever the store says, and
// all is in service again after the next minute, or after the hand that the answer names.
//
// CRASHES is the number of changes in a long run. ./scripts/test -programs makes a short
// run.
package crashes
