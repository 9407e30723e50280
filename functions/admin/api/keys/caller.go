package keys

import (
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
)

func (ops operations) registerCallers(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /callers", ID: "list-callers", Role: auth.Viewer,
		Summary: "List callers without a key, override or ban",
		Details: "GET /keys with order today lists the others.",
	}, rest.List(ops.keys.Callers))
}
