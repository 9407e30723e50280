// Package accuracy is a laboratory for rate limiting algorithms: it plays the same calls
// to our limiter's models and to renderings of published algorithms, and measures how far
// each of them strays from the exact sliding window. It does no I/O and reads no clock;
// the same Scenario gives the same Result on every machine. docs/algorithms.md prints its
// results.
//
// # What is measured
//
// Time is in whole microseconds. The rolling window that ends at t is (t-Window, t]; a
// call that was admitted at s is in it while t-s < Window. Only admitted calls fill a
// rolling window.
//
// The exact log is our own few lines, independent of package limiter: it admits a call
// when the cost that it admitted in the rolling window that ends now, and the call's, do
// not exceed the limit. It runs in parallel on the same calls, so that from its first
// other decision on a contender's history differs from the log's:
//
//   - a false allow is a call that the contender admitted and the exact log denied;
//   - a false denial is a call that the contender denied and the exact log admitted.
//
// A contender that admits just as many calls at other instants has as many false allows
// as false denials. So the same is also measured on the contender's own history, which
// asks whether each decision was right where the contender stood:
//
//   - an overfull call was admitted although the contender's own rolling window had no room for it;
//   - a withheld call was denied although the contender's own rolling window had room for it.
//
// The worst rolling window is the largest admitted cost in any rolling window of the run,
// found over all of them: their cost only grows at an admission, so those that end at one
// suffice, and two fingers moving along the admitted calls visit them all in O(n).
//
// The error of a retry-after is the distance between what a denial said and the earliest
// instant at which the same call would be admitted if nobody called in between, measured
// on a sample of the denials.
package accuracy

//go:generate go test -run ^TestAlgorithmsDocument$ -update .
