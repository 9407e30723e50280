package enforce

// While Valkey is away, a Breaker keeps calls from waiting for it, and Callers decides
// about them.
//
// Authentication never fails open. A caller is known for a stated time after Valkey last
// accepted exactly this credential, and no longer than its record holds: it expires, or
// its override ends. All other callers are denied, and a caller whom Valkey refuses is
// forgotten. The plan says what becomes of a known caller: see policy.Degraded. Every
// decision is marked Degraded.
//
// With policy.Local each process holds its callers to its share of the limits by the
// models of package limiter: all processes together admit at most share × processes of a
// limit, besides what Valkey admitted before. The models live as long as the caller is
// remembered, so that a second outage finds what the first one counted. A share is
// rounded down, but is at least 1; a log has at most 1,000 slots.
