package policydoc

// removed has what to write in place of fields that policies had once, by their names.
var removed = map[string]string{
	"bans":        "ban a key by hand, or write \"denied calls count\" at a limit of the plan",
	"lease":       "leave it out, every call asks the one count in Valkey",
	"overdraw":    "leave it out, what a settlement charges above a limit is owed",
	"sharedLease": "leave it out, every call asks the one count in Valkey",
	"candidate":   "write its limits among limits, each with “, shadow”",
	"mode":        "write “, shadow” at each limit; an override without limits lifts them",
}

// Instead says what to write in place of a field that policies had once; empty for any
// other name.
func Instead(field string) string { return removed[field] }
