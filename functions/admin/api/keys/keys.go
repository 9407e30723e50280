// Package keys is the operations on keys and on those that others vouch for: one by one,
// in groups, many at a time, and as an import. It changes nothing by itself: package app
// does, as for the pages.
package keys

import (
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/internal/usage"
)

type operations struct {
	keys  *app.Registry
	calls *usage.Reader
}

// Register adds the operations.
func Register(a *rest.API, keys *app.Registry, calls *usage.Reader) {
	group, ops := a.Group("keys"), operations{keys, calls}
	ops.registerKeys(group)
	ops.registerKeyActions(group)
	ops.registerGroups(group)
	ops.registerImport(group)
	ops.registerBulk(group)
	ops.registerCallers(group)
}
