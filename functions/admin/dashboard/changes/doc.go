// Package changes is what the pages that change something share: differences in words,
// what a change would have denied of the recorded calls, warnings, who changed something
// last, and the address that takes a change back.
package changes
