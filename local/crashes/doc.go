// Package crashes holds the crash tests of the journal: the admin function makes changes,
// through its API, and is killed at each request that it sends to Valkey and to the
// journal's store, while the store is slow, refuses or loses answers, and Valkey loses
// what it has or fails over. What was acknowledged must be there. CRASHES is how many
// changes a long run makes: the function's server in the test's process makes all of
// them, and the built function, with an S3 server, one in a hundred. ./scripts/test makes
// a few.
package crashes
