package policydoc

// removed has what to write in place of fields that policies had once, by their names. What
// a limit had is in package limits.
var removed = map[string]string{
	"perIP":       `write it among limits: "600 per minute, each address", with "on NAME" for a route`,
	"global":      `write it among limits: "5,000 per second, together"`,
	"perKey":      `write it among limits: "30 per minute, on NAME, each caller"`,
	"shared":      `write it among limits: "100 per minute, on NAME, together"`,
	"perGroup":    `write it among the plan's limits: "200 per minute, each group"`,
	"pattern":     "write match, a list of patterns",
	"patterns":    "write match",
	"mode":        `write "shadow" at each limit: "100 per minute, shadow"`,
	"candidate":   `write its limits among limits, each with "shadow"`,
	"slots":       "leave it out, limits to 1,000 are exact",
	"settleMax":   "leave it out, a group is charged at most 10 times the estimate, and others the estimate",
	"overdraw":    "leave it out, what a settlement charges above a limit is owed",
	"lease":       "leave it out, every call asks the one count in Valkey",
	"sharedLease": "leave it out, every call asks the one count in Valkey",
	"bans":        `ban a key by hand, or write "denied calls count" at a limit of the plan`,
	"counts":      `write what the limit counts: "500 calls per minute"`,
	"allow":       "write opens",
}

// Instead says what to write in place of a field that policies, plans, routes, keys and
// overrides had once; empty for any other name.
func Instead(field string) string { return removed[field] }
