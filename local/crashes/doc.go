// Package crashes holds the crash tests of the journal: the built admin function makes
// changes, through its API, and is killed at each request that it sends to Valkey and S3,
// while both are slow, refuse, or lose what they have. What was acknowledged must be
// there. CRASHES is how many changes TestChanges makes; ./scripts/test makes a few.
package crashes
