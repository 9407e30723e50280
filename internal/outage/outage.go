// Package outage answers calls while the store is away: a Breaker keeps them from waiting for it, and Callers decides about them.
//
// Authentication never fails open. A caller counts as known for a stated time after the store last vouched for exactly this credential, and no longer
// than what was read about it holds by itself (it expires, its override ends). All others are denied, and a caller whom the store refuses is
// forgotten. What becomes of the known ones is said by their plan: see policy.Degraded. Every decision is marked (policy.Checked.Degraded).
//
// With policy.Local each program holds its callers to its share of the limits by the pure models of package limiter: all programs together admit at
// most share × programs of a limit, beside what the store had admitted before, which nobody can see then. The models live as long as the caller is
// remembered, so a second outage finds what the first one counted. A share is rounded down, but is at least 1; a log has at most 1,000 slots.
package outage
