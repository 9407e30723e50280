// Package accuracy compares rate limiting algorithms. It runs the same calls through our
// limiter's models and through published algorithms, and measures how far each differs
// from the exact sliding window. It does no I/O and reads no clock; the same Scenario
// gives the same Result on every machine. docs/algorithms.md prints its results.
//
// # What is measured
//
// Time is in whole microseconds. The rolling window that ends at t is (t-Window, t]; a
// call that was admitted at s is in it while t-s < Window. Only admitted calls fill a
// rolling window.
//
// The exact log is a separate implementation, independent of package limiter. It admits a
// call if the cost admitted in the rolling window that ends now, plus the call's cost,
// does not exceed the limit. It decides the same calls. After an algorithm's first
// different decision, its history differs from the log's:
//
//   - a false allow is a call that the algorithm admitted and the exact log denied;
//   - a false denial is a call that the algorithm denied and the exact log admitted.
//
// An algorithm that admits as many calls at other instants has as many false allows as
// false denials. So each decision is also compared with the algorithm's own history:
//
//   - an overfull call was admitted although the algorithm's own rolling window had no
//     room for it;
//   - a withheld call was denied although the algorithm's own rolling window had room.
//
// The worst rolling window is the largest admitted cost in any rolling window of the run.
// The cost of a window only grows at an admission, so only windows that end at one are
// searched. Two indexes moving along the admitted calls visit them all in O(n).
//
// The error of a retry-after is the distance between the denial's retry-after and the
// earliest instant at which the same call would be admitted if nobody called in between,
// measured on a sample of the denials.
package accuracy

//go:generate go test -run ^TestAlgorithmsDocument$ -update .
